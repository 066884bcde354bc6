"""Templates of the sentences in which a stream states and changes facts."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self


class SentenceTemplates(NamedTuple):
    """Wordings of a stream, several of each kind, with gaps in braces."""

    statements: Mapping[str, tuple[str, ...]]
    """Statements by relation, with {subject} and {object}."""
    other: tuple[str, ...]
    """Statements of other relations, with {relation} too."""
    updates: tuple[str, ...]
    """Updates, with {statement}."""
    corrections: tuple[str, ...]
    """Corrections, with {statement}."""
    backdated: tuple[str, ...]
    """Backdated statements, with {statement} and {date}."""
    deletions: tuple[str, ...]
    """Deletions, with {subject} and {relation}."""
    along: tuple[str, ...]
    """Rules along two relations, with {subject}, {relation}, {first} and {last}."""
    conditional: tuple[str, ...]
    """Rules under a condition, with {subject}, {relation}, {first}, {condition} and {object}."""

    @classmethod
    def of(cls, tables: Mapping[str, Any], statements: Mapping[str, Sequence[str]]) -> Self:
        """Return the templates of a file, with these statements by relation."""
        by_relation = {noun: tuple(wordings) for noun, wordings in statements.items()}
        turns = {name: tuple(wordings) for name, wordings in tables["turns"].items()}
        return cls(by_relation, tuple(tables["other"]["statements"]), **turns)

    def statements_of(self, relation: str) -> tuple[str, ...]:
        """Return the wordings of a fact, with gaps {subject} and {object}."""
        if relation in self.statements:
            return self.statements[relation]
        return tuple(template.replace("{relation}", relation) for template in self.other)


@cache
def read_tables(name: str) -> dict[str, Any]:
    """Return the tables of `standard.toml` or `held_out.toml`."""
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))
