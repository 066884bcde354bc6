"""Held-out wordings of generated sentences, from `held_out.toml`, and their exact parser.

The standard generator never uses these wordings. The parser serves gold checks, the oracle reader
and upper bounds; no extractor uses it.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from emend.evals.streams.sentences.templates import SentenceTemplates
from emend.evals.streams.turn import FactClaim, StreamRule

_GAP = re.compile(r"\{(\w+)\}")
# Names in a template that stand for a relation.
_RELATIONS = frozenset({"relation", "first", "last"})


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


@cache
def held_out_templates() -> SentenceTemplates:
    """Return the templates of the file, at least eight of each kind."""
    text = (Path(__file__).parent / "held_out.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    statements = {noun: tuple(wordings) for noun, wordings in tables["statements"].items()}
    turns = {name: tuple(wordings) for name, wordings in tables["turns"].items()}
    return SentenceTemplates(statements, tuple(tables["other"]["statements"]), **turns)


def read_held_out(text: str) -> FactClaim | StreamRule | None:
    """Return the fact or rule of a text in one of these wordings; None for any other text."""
    return _read_rule(text) or _read_deletion(text) or _read_statement(text)


def _read_rule(text: str) -> StreamRule | None:
    if names := _first_match(_patterns("conditional"), text):
        return StreamRule(
            subject=names["subject"],
            relation=names["relation"],
            path=(names["first"],),
            condition=names["condition"],
            object=names["object"],
        )
    if names := _first_match(_patterns("along"), text):
        path = (names["first"], names["last"])
        return StreamRule(subject=names["subject"], relation=names["relation"], path=path)
    return None


def _read_deletion(text: str) -> FactClaim | None:
    if names := _first_match(_patterns("deletions"), text):
        return FactClaim(subject=names["subject"], relation=names["relation"], object=None)
    return None


def _read_statement(text: str) -> FactClaim | None:
    for kind in ("corrections", "backdated", "updates"):
        for template in _patterns(kind):
            names = template.match(text)
            claim = _read_fact(names["statement"]) if names else None
            if names and claim:
                since = names.get("date", "")
                return claim.model_copy(update={"since": since, "corrects": kind == "corrections"})
    return None


def _read_fact(text: str) -> FactClaim | None:
    for template in _statement_patterns():
        if names := template.match(text):
            relation = template.relation or names["relation"]
            return FactClaim(subject=names["subject"], relation=relation, object=names["object"])
    return None


def _first_match(patterns: Sequence[ExactPattern], text: str) -> dict[str, str] | None:
    for template in patterns:
        if names := template.match(text):
            return names
    return None


@cache
def _patterns(kind: str) -> tuple[ExactPattern, ...]:
    """Return the patterns of one kind of turns, those with the longest literals first."""
    return _longest_first(_pattern(template) for template in getattr(held_out_templates(), kind))


@cache
def _statement_patterns() -> tuple[ExactPattern, ...]:
    templates = held_out_templates()
    stated = [
        _pattern(wording, noun)
        for noun, wordings in templates.statements.items()
        for wording in wordings
    ]
    return (*_longest_first(stated), *_longest_first(_pattern(each) for each in templates.other))


def _longest_first(patterns: Iterable[ExactPattern]) -> tuple[ExactPattern, ...]:
    """Sort patterns so that longer templates are tried before those they contain."""
    return tuple(sorted(patterns, key=lambda each: -sum(map(len, each.literals))))


def _pattern(template: str, relation: str = "") -> ExactPattern:
    pieces = _GAP.split(template)
    literals = tuple(piece for piece in pieces[::2] if piece)
    return ExactPattern(re.compile("".join(_expressions(pieces))), literals, relation)


def _expressions(pieces: Sequence[str]) -> Iterator[str]:
    """Yield the regular expressions of alternating literal texts and gaps."""
    names: set[str] = set()
    for number, piece in enumerate(pieces):
        if number % 2 == 0:
            yield re.escape(piece)
        elif piece in names:
            yield f"(?P={piece})"
        else:
            names.add(piece)
            yield f"(?P<{piece}>{_name_expression(piece)})"


def _name_expression(name: str) -> str:
    """Return the expression of a gap; nouns of relations that contain "of" are tried as a whole."""
    if name == "date":
        return r"\d{4}-\d\d-\d\d"
    if name not in _RELATIONS:
        return ".+?"
    nouns = (noun for noun in held_out_templates().statements if " of " in noun)
    return "|".join((*map(re.escape, nouns), ".+?"))
