"""Templates of the sentences in which a stream states and changes facts."""

from collections.abc import Mapping
from typing import NamedTuple


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

    def statements_of(self, relation: str) -> tuple[str, ...]:
        """Return the wordings of a fact, with gaps {subject} and {object}."""
        if relation in self.statements:
            return self.statements[relation]
        return tuple(template.replace("{relation}", relation) for template in self.other)
