"""The kind of a relation, which decides what a second object means: it replaces, it is added, or it contradicts."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from emend.memory.edit import Triplet
from emend.memory.errors import BadData
from emend.memory.files import read_input
from emend.memory.registry import nearest
from emend.memory.relations.canonical import canonical, parse_verb
from emend.memory.relations.inflection import is_plural
from emend.memory.retrieval.tokens import stems
from emend.memory.typography import fold_text

RelationKind = Literal["functional", "set", "undecided"]
"""`functional`: one object at a time, a newer one replaces it. `set`: several hold at once. `undecided`: no rule."""

_OPENING = re.compile(r"^(?:the )?(?:name of the )?(?:current |present |new )?(?=\w)")
BUILTIN = Path(__file__).with_name("relations.toml")


@dataclass(frozen=True)
class RelationTable:
    """Declared relations: the kind of each name, and the name that each wording stands for.

    Attributes:
        kinds: kind by name.
        names: name by folded wording; a name is a wording of itself.
    """

    kinds: Mapping[str, RelationKind]
    names: Mapping[str, str]

    @classmethod
    def load(cls, *files: Path) -> "RelationTable":
        """The built-in table, and what further TOML files declare; a later declaration of a wording counts.

        Raises:
            BadData: a file is no such table.
            OSError: a file cannot be read.
        """
        kinds: dict[str, RelationKind] = {}
        names: dict[str, str] = {}
        for file in (BUILTIN, *files):
            for kind, name, wordings in _read(file):
                kinds[name] = kind
                names |= {_plain(wording): name for wording in (name, *wordings)}
        return cls(kinds, names)

    @cached_property
    def _stems(self) -> dict[str, list[tuple[frozenset[str], str]]]:
        """By the first stem of a wording, all its stems and the name that it stands for."""
        table: dict[str, list[tuple[frozenset[str], str]]] = {}
        for wording, name in self.names.items():
            parts = stems(wording)
            table.setdefault(parts[0], []).append((frozenset(parts), name))
        return table

    def names_in(self, text: str) -> tuple[str, ...]:
        """The declared relations that a text words: all content words of a wording occur in it."""
        present = dict.fromkeys(stems(text))
        fitting = (name for stem in present for parts, name in self._stems.get(stem, ()) if parts <= present.keys())
        return tuple(dict.fromkeys(fitting))

    def name_of(self, relation: str) -> str:
        """The declared name of a relation, or else the relation in canonical form."""
        return self.names.get(_plain(relation)) or self.names.get(_noun(relation)) or _noun(relation)

    def kind_of(self, relation: str) -> RelationKind:
        """The kind of a relation, by its name; of one that is not declared, by its grammar.

        A noun in the singular denotes one thing ('mayor') and is functional, one in the plural ('tasks') several; of
        a verb ('likes') nothing is known.
        """
        name = self.name_of(relation)
        if declared := self.kinds.get(name):
            return declared
        words = name.split()
        if not words or parse_verb(words)[0]:
            return "undecided"
        return "set" if is_plural(words[-1]) else "functional"


def canonical_statement(subject: str, relation: str, object_: str) -> Triplet | None:
    """The canonical triplet of a statement; None if it says what no longer holds."""
    return canonical(Triplet(subject=subject, relation=relation, object=object_))


def _plain(relation: str) -> str:
    """A wording, folded, without a final 'is'."""
    return fold_text(relation.replace("_", " ")).removesuffix(" is")


def _noun(relation: str) -> str:
    """The canonical form of a relation alone, folded."""
    words = _OPENING.sub("", _plain(relation)).removesuffix(" of")
    form = canonical_statement("", words, "") if words else None
    return _plain(form.relation) if form else words


def _read(file: Path) -> list[tuple[RelationKind, str, list[str]]]:
    """The declarations of a file: kind, name and further wordings."""
    try:
        tables: dict[str, Any] = tomllib.loads(read_input(file).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadData(f"{file}: no TOML table of relations ({error}).") from error
    declarations: list[tuple[RelationKind, str, list[str]]] = []
    for kind in get_args(RelationKind):
        for name, wordings in _table(file, tables.pop(kind, {})).items():
            if not isinstance(wordings, list) or not all(isinstance(each, str) and each.strip() for each in wordings):
                raise BadData(f'{file}: {kind}: {name!r} needs a list of wordings, for example ["married to"].')
            declarations.append((kind, _plain(name), wordings))
    if tables:
        unknown = next(iter(tables))
        raise BadData(f"{file}: unknown kind of relation '{unknown}': {nearest(unknown, list(get_args(RelationKind)))}")
    return declarations


def _table(file: Path, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadData(f"{file}: a kind of relation is a table, for example [functional].")
    return value
