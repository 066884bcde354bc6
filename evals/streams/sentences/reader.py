"""Exact parser of sentences that are generated from templates."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from emend.evals.streams.sentences.templates import SentenceTemplates
from emend.evals.streams.turn import FactClaim, StreamRule

_GAP = re.compile(r"\{(\w+)\}")
# Names in a template that stand for a relation.
_RELATIONS = frozenset({"relation", "first", "last"})
# The object in a statement that a fact is unknown.
_UNKNOWN = "unknown"


class ExactPattern(NamedTuple):
    """A template as a regular expression, with its literal texts, which are searched for first."""

    pattern: re.Pattern[str]
    literals: tuple[str, ...]
    relation: str = ""
    """Relation that the template states; empty if the text names it."""

    def match(self, text: str) -> dict[str, str] | None:
        """Return the texts of the named gaps; None if the text does not match the template."""
        if not all(literal in text for literal in self.literals):
            return None
        hit = self.pattern.fullmatch(text)
        return hit.groupdict() if hit else None


class SentenceReader:
    """Parser of the sentences that these templates generate, and of nothing else."""

    def __init__(self, templates: SentenceTemplates) -> None:
        # nouns that contain "of" are tried as a whole
        nouns = [noun for noun in templates.statements if " of " in noun]
        self._relation = "|".join((*map(re.escape, nouns), ".+?"))
        stated = [
            self._pattern(wording, noun)
            for noun, wordings in templates.statements.items()
            for wording in wordings
        ]
        self._facts = (*_longest_first(stated), *self._patterns(templates.other))
        self._changes = {
            kind: self._patterns(getattr(templates, kind))
            for kind in ("corrections", "backdated", "updates")
        }
        self._deletions = self._patterns(templates.deletions)
        self._along = self._patterns(templates.along)
        self._conditional = self._patterns(templates.conditional)

    def read(self, text: str) -> FactClaim | StreamRule | None:
        """Return the fact or rule of a text in one of the wordings; None for any other text."""
        return self._read_rule(text) or self._read_deletion(text) or self._read_statement(text)

    def _read_rule(self, text: str) -> StreamRule | None:
        if names := _first_match(self._conditional, text):
            path: tuple[str, ...] = (names.pop("first"),)
        elif names := _first_match(self._along, text):
            path = (names.pop("first"), names.pop("last"))
        else:
            return None
        return StreamRule(path=path, **names)

    def _read_deletion(self, text: str) -> FactClaim | None:
        names = _first_match(self._deletions, text)
        return FactClaim.model_validate({**names, "object": None}) if names else None

    def _read_statement(self, text: str) -> FactClaim | None:
        for kind, patterns in self._changes.items():
            for template in patterns:
                names = template.match(text)
                claim = self._read_fact(names["statement"]) if names else None
                if names and claim:
                    changed = {"since": names.get("date", ""), "corrects": kind == "corrections"}
                    return claim.model_copy(update=changed)
        return None

    def _read_fact(self, text: str) -> FactClaim | None:
        for template in self._facts:
            if names := template.match(text):
                relation = template.relation or names["relation"]
                value = None if names["object"] == _UNKNOWN else names["object"]
                return FactClaim(subject=names["subject"], relation=relation, object=value)
        return None

    def _patterns(self, templates: Iterable[str]) -> tuple[ExactPattern, ...]:
        return _longest_first(map(self._pattern, templates))

    def _pattern(self, template: str, relation: str = "") -> ExactPattern:
        pieces = _GAP.split(template)
        literals = tuple(piece for piece in pieces[::2] if piece)
        return ExactPattern(re.compile("".join(self._expressions(pieces))), literals, relation)

    def _expressions(self, pieces: Sequence[str]) -> Iterator[str]:
        """Yield the regular expressions of alternating literal texts and gaps."""
        names: set[str] = set()
        for number, piece in enumerate(pieces):
            if number % 2 == 0:
                yield re.escape(piece)
            elif piece in names:
                yield f"(?P={piece})"
            else:
                names.add(piece)
                yield f"(?P<{piece}>{self._name_expression(piece)})"

    def _name_expression(self, name: str) -> str:
        if name == "date":
            return r"\d{4}-\d\d-\d\d"
        return self._relation if name in _RELATIONS else ".+?"


def _first_match(patterns: Sequence[ExactPattern], text: str) -> dict[str, str] | None:
    for template in patterns:
        if names := template.match(text):
            return names
    return None


def _longest_first(patterns: Iterable[ExactPattern]) -> tuple[ExactPattern, ...]:
    """Sort patterns so that longer templates are tried before those they contain."""
    return tuple(sorted(patterns, key=lambda each: -sum(map(len, each.literals))))
