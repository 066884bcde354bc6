"""The kind of a relation, which decides what a second object means: it replaces, it is added, or it contradicts."""

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
from emend.memory.errors import BadData, first_problem
from emend.memory.files import read_input
from emend.memory.relations.canonical import canonical, parse_verb
from emend.memory.relations.inflection import is_plural
from emend.memory.relations.words import OPEN
from emend.memory.retrieval.tokens import stems
from emend.memory.typography import fold_text

RelationKind = Literal["functional", "set", "undecided"]
"""`functional`: one object at a time, a newer one replaces it. `set`: several hold at once. `undecided`: no rule."""

BUILTIN = Path(__file__).with_name("relations.toml")
_Wordings = list[Annotated[str, StringConstraints(pattern=r"\S")]]
_DECLARATIONS: TypeAdapter[dict[RelationKind, dict[str, _Wordings]]] = TypeAdapter(
    dict[RelationKind, dict[str, _Wordings]]
)

SIMILAR = 0.75
"""Least cosine of a wording and a declared one that are taken for one relation: with MiniLM and with the lexical
embedding 9 in 10 of the pairs that are joined so belong together (scripts/benchmarks/bench_relation_names.py)."""
_OPENING = re.compile(r"^(?:the )?(?:name of the )?(?:current |present |new )?(?=\w)")
_TURNED = re.compile(r"^(?:(?:is|was|are|were|became|becomes)\b.* )?[^ ]+ of$")
"""Wordings such as 'is the boss of' and 'child of', whose subject is the object of the noun."""
_OPEN = OPEN - {"do", "does", "did"}
"""Words of what is negated, possible or in the future; questions ask with the others."""


@dataclass(frozen=True)
class RelationTable:
    """Declared relations: the kind of each name, and the name that each wording stands for.

    Attributes:
        kinds: kind by name.
        names: name by folded wording; a name is a wording of itself.
        embedding: joins wordings that are similar to declared ones; None joins by rules alone. A memory must always
            be used with the same table and embedding, or it does not find what it stored under another name.
    """

    kinds: Mapping[str, RelationKind]
    names: Mapping[str, str]
    embedding: Embedding | None = None

    @classmethod
    def load(cls, *files: Path, embedding: Embedding | None = None) -> "RelationTable":
        """The built-in table, and what further TOML files declare; a later declaration of a wording counts.

        Raises:
            BadData: a file is no such table.
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
        """The declared wordings by their first stem."""
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
        """The declared relations that a text words: all content words of a wording occur in it."""
        return tuple(dict.fromkeys(each.name for each in self._worded(frozenset(stems(text)))))

    def name_of(self, relation: str) -> str:
        """The declared name of a relation, or else the relation in canonical form.

        A wording that is not declared is joined to the declared one whose content words are its own, but for one more
        in a phrase with a verb, and after that to the most similar one.
        """
        noun = _noun(relation)
        name = self.names.get(_plain(relation)) or self.names.get(noun) or self._canonical_forms.get(noun)
        # What is negated, possible or in the future is not what it would be otherwise.
        if name is None and noun and not _TURNED.match(noun) and not _OPEN.intersection(noun.split()):
            name = self._name_by_words(noun) or self._name_by_similarity(noun)
        return name or noun

    def _worded(self, present: frozenset[str]) -> list["_Wording"]:
        """The declared wordings of which all stems are present, in the order of the table."""
        worded = (each for stem in present for each in self._wordings.get(stem, ()) if each.stems <= present)
        return sorted(worded, key=lambda each: each.place)

    def _name_by_words(self, relation: str) -> str | None:
        present = frozenset(stems(relation))
        shape = _shape(relation)
        wordings = [each for each in self._worded(present) if each.shape == shape]
        longest = max((len(each.stems) for each in wordings), default=0)
        names = {each.name for each in wordings if len(each.stems) == longest}
        # A noun's further word changes what it says: the home club is no favourite club. Neither is the name of a cat
        # that of its owner.
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
        """The kind of the relation of that name (see `name_of`); of one that is not declared, by its grammar.

        A noun in the singular denotes one thing ('mayor') and is functional, one in the plural ('tasks') several; of
        a verb ('likes') nothing is known.
        """
        if declared := self.kinds.get(name):
            return declared
        words = name.split()
        if not words or parse_verb(words)[0]:
            return "undecided"
        return "set" if is_plural(words[-1]) else "functional"


class _Wording(NamedTuple):
    """A declared wording: its place in the table, its stems, its shape, and the name that it stands for."""

    place: int
    stems: frozenset[str]
    shape: tuple[bool, bool]
    name: str


def _shape(relation: str) -> tuple[bool, bool]:
    """Return whether a wording is one verb in the active, and whether it has 'by'.

    They tell apart who does something and who is it done by: 'employs' from 'employer' and 'is employed by'.
    """
    words = relation.split()
    return len(words) == 1 and parse_verb(words)[0] == "active", "by" in words


def canonical_statement(subject: str, relation: str, object_: str) -> Triplet | None:
    """The canonical triplet of a statement; None if it says what no longer holds."""
    return canonical(Triplet(subject=subject, relation=relation, object=object_))


def _plain(relation: str) -> str:
    """A wording, folded, without a final 'is'."""
    return fold_text(relation.replace("_", " ")).removesuffix(" is")


def _noun(relation: str) -> str:
    """The canonical form of a relation alone, folded."""
    words = _OPENING.sub("", _plain(relation))
    form = canonical_statement("", words, "") if words else None
    return _plain(form.relation) if form else words


def _read(file: Path) -> dict[RelationKind, dict[str, list[str]]]:
    """The declarations of a file: the wordings of each name, by kind."""
    try:
        return _DECLARATIONS.validate_python(tomllib.loads(read_input(file).decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else error
        raise BadData(
            f"{file}: no TOML table of relations: [functional], [set] and [undecided] give each name a list of "
            f'wordings, for example "spouse" = ["married to"] ({problem}).'
        ) from error
