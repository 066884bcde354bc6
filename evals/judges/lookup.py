"""Judges by name, whether they are Emend's, a package's or a user's own."""

from typing import TYPE_CHECKING

from emend.graphs.registry import JUDGES
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.graphs.judges.graph import Judge


def judge_of(name: str) -> "Judge":
    """The judge of that name, or at that `module:attribute`.

    Raises:
        BadSettings: there is none, or what stands there is no judge.
    """
    found = JUDGES.load(name)
    if not all(hasattr(found, part) for part in ("role", "name", "judge")):
        raise BadSettings(f"judge '{name}' is {found!r:.60} and no Judge: see docs/judges.md, Your own.")
    return found
