"""Relation kinds, which decide whether a second object replaces the first, is added to it, or
contradicts it.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import numpy as np
from pydantic import StringConstraints, TypeAdapter, ValidationError

from emend.memory.edit import Triplet
from emend.memory.embeddings.embed import Embedding, Vectors
from emend.memory.errors import BadData, problem_of
from emend.memory.files import read_input
from emend.memory.relations.canonical import canonical, parse_verb
from emend.memory.relations.inflection import is_plural
from emend.memory.relations.words import OPEN
from emend.memory.retrieval.tokens import stems
from emend.memory.typography import fold_text

# `functional`: one object at a time, a newer one replaces it. `set`: several hold at once.
# `undecided`: no rule.
RelationKind = Literal["functional", "set", "undecided"]

BUILTIN = Path(__file__).with_name("relations.toml")
_Wordings = list[Annotated[str, StringConstraints(pattern=r"\S")]]
_DECLARATIONS: TypeAdapter[dict[RelationKind, dict[str, _Wordings]]] = TypeAdapter(
    dict[RelationKind, dict[str, _Wordings]]
)

# Minimum cosine for merging a wording with a declared one. With MiniLM and with the lexical
# embedding, 9 in 10 pairs merged at this threshold mean the same
# (scripts/benchmarks/bench_relation_names.py).
SIMILAR = 0.75
_OPENING = re.compile(r"^(?:the )?(?:name of the )?(?:current |present |new )?(?=\w)")
# Wordings such as 'is the boss of' and 'child of', in which subject and object are swapped.
_TURNED = re.compile(r"^(?:(?:is|was|are|were|became|becomes)\b.* )?[^ ]+ of$")
# Words for negation, possibility and the future; questions use the other auxiliaries.
_OPEN = OPEN - {"do", "does", "did"}


@dataclass(frozen=True)
class RelationTable:
    """Declared relations: the kind of each name, and the name for each wording.

    Attributes:
        kinds: kind by name.
        names: name by folded wording; a name is a wording of itself.
        embedding: merges wordings that are similar to declared ones; None merges by rules only.
            Always use a memory with the same table and embedding, or it will not find facts stored
            under another name.
    """

    kinds: Mapping[str, RelationKind]
    names: Mapping[str, str]
    embedding: Embedding | None = None

    @classmethod
    def load(cls, *files: Path, embedding: Embedding | None = None) -> "RelationTable":
        """Load the built-in table and further TOML files; later declarations of a wording take
        precedence.

        Raises:
            BadData: a file is not a table of relations.
            OSError: a file cannot be read.
        """
        kinds: dict[str, RelationKind] = {}
        names: dict[str, str] = {}
        for file in (BUILTIN, *files):
            declared = _read(file)
            for kind in get_args(RelationKind):
                for wording, others in declared.get(kind, {}).items():
                    name = _plain(wording)
                    kinds[name] = kind
                    names |= {_plain(each): name for each in (wording, *others)}
        return cls(kinds, names, embedding)

    @cached_property
    def _wordings(self) -> dict[str, list["_Wording"]]:
        """The declared wordings, indexed by their first stem."""
        table: dict[str, list[_Wording]] = {}
        for place, (wording, name) in enumerate(self.names.items()):
            parts = stems(wording)
            entry = _Wording(place, frozenset(parts), _shape(wording), name)
            table.setdefault(parts[0], []).append(entry)
        return table

    @cached_property
    def _canonical_forms(self) -> dict[str, str]:
        """The names by the canonical forms of their wordings: 'was founded in' is 'founded in'."""
        return {_noun(wording): name for wording, name in self.names.items()}

    @cached_property
    def _vectors(self) -> Vectors:
        """The vectors of the declared wordings."""
        assert self.embedding is not None
        return self.embedding.documents(list(self.names))

    def names_in(self, text: str) -> tuple[str, ...]:
        """Return the declared relations whose wordings have all their content words in a text."""
        return tuple(dict.fromkeys(each.name for each in self._worded(frozenset(stems(text)))))

    def name_of(self, relation: str) -> str:
        """Return the declared name of a relation, or else its canonical form.

        An undeclared wording is merged with the declared one that has the same content words (a
        verb phrase may have one more), or else with the most similar one.
        """
        noun = _noun(relation)
        name = (
            self.names.get(_plain(relation))
            or self.names.get(noun)
            or self._canonical_forms.get(noun)
        )
        # A negated, possible or future relation must not be merged with the plain one.
        if (
            name is None
            and noun
            and not _TURNED.match(noun)
            and not _OPEN.intersection(noun.split())
        ):
            name = self._name_by_words(noun) or self._name_by_similarity(noun)
        return name or noun

    def _worded(self, present: frozenset[str]) -> list["_Wording"]:
        """Return the declared wordings whose stems are all present, in table order."""
        worded = (
            each
            for stem in present
            for each in self._wordings.get(stem, ())
            if each.stems <= present
        )
        return sorted(worded, key=lambda each: each.place)

    def _name_by_words(self, relation: str) -> str | None:
        present = frozenset(stems(relation))
        shape = _shape(relation)
        wordings = [each for each in self._worded(present) if each.shape == shape]
        longest = max((len(each.stems) for each in wordings), default=0)
        names = {each.name for each in wordings if len(each.stems) == longest}
        # An additional word changes the meaning of a noun: a home club is not a favourite club, and
        # the name of a cat is not that of its owner.
        kind, verb, _ = parse_verb(relation.split())
        spare = 1 if kind and verb != "has" else 0
        return names.pop() if len(names) == 1 and len(present) - longest <= spare else None

    def _name_by_similarity(self, relation: str) -> str | None:
        if self.embedding is None:
            return None
        similar = self._vectors @ self.embedding.documents([relation])[0]
        place = int(np.argmax(similar))
        wording, name = list(self.names.items())[place]
        return name if similar[place] >= SIMILAR and _shape(wording) == _shape(relation) else None

    def kind_of(self, name: str) -> RelationKind:
        """Return the kind of a relation by its name (see `name_of`); by grammar if it is not
        declared.

        A singular noun ('mayor') is functional and a plural noun ('tasks') a set; a verb ('likes')
        is undecided.
        """
        if declared := self.kinds.get(name):
            return declared
        words = name.split()
        if not words or parse_verb(words)[0]:
            return "undecided"
        return "set" if is_plural(words[-1]) else "functional"


class _Wording(NamedTuple):
    """A declared wording: its position in the table, its stems, its shape, and its relation's
    name.
    """

    place: int
    stems: frozenset[str]
    shape: tuple[bool, bool]
    name: str


def _shape(relation: str) -> tuple[bool, bool]:
    """Return whether a wording is a single active verb, and whether it contains 'by'.

    These distinguish agent and patient: 'employs' from 'employer' and 'is employed by'.
    """
    words = relation.split()
    return len(words) == 1 and parse_verb(words)[0] == "active", "by" in words


def canonical_statement(subject: str, relation: str, object_: str) -> Triplet | None:
    """Return the canonical triplet of a statement, or None if it states that a fact has ended."""
    return canonical(Triplet(subject=subject, relation=relation, object=object_))


def _plain(relation: str) -> str:
    """Return a wording folded and without a final 'is'."""
    return fold_text(relation.replace("_", " ")).removesuffix(" is")


def _noun(relation: str) -> str:
    """Return the folded canonical form of a relation without subject and object."""
    words = _OPENING.sub("", _plain(relation))
    form = canonical_statement("", words, "") if words else None
    return _plain(form.relation) if form else words


def _read(file: Path) -> dict[RelationKind, dict[str, list[str]]]:
    """Read the declarations of a file: the wordings of each name, by kind."""
    try:
        return _DECLARATIONS.validate_python(tomllib.loads(read_input(file).decode()))
    except (ValueError, RecursionError) as error:  # a ValidationError is a ValueError
        problem = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            problem = f"{first['loc'][0]}: {problem_of(first)}"
        raise BadData(
            f"{file}: not a TOML table of relations: [functional], [set] and [undecided] give each "
            "name a list of "
            f'wordings, for example "spouse" = ["married to"] ({problem}).'
        ) from error
