"""Which edits of a batch cannot be made: one that fails must not take the others with it."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from emend.editors.base import Editor
from emend.evals.case import Case
from emend.evals.runner.units import Group
from emend.memory.edit import Edit


class Parted(NamedTuple):
    """A group without the cases of edits that cannot be made, the group of these, and the errors by edit."""

    sound: Group
    broken: Group
    errors: dict[str, Exception]

    def error_of(self, case: Case) -> Exception:
        """Why a case of the broken group has failed."""
        return next(self.errors[edit.id] for edit in case.edits if edit.id in self.errors)


def culprits(editor: Editor, edits: Sequence[Edit], fatal: tuple[type[Exception], ...]) -> dict[str, Exception]:
    """The edits that cannot be made, by id, with their errors; sought by halves, which costs about two batches.

    Args:
        editor: which failed with all of them.
        edits: at least one.
        fatal: errors that are no edit's fault.
    """
    try:
        with editor.edit(edits):
            return {}
    except fatal:
        raise
    except Exception as error:  # noqa: BLE001  whatever an editor raises
        if len(edits) == 1:
            return {edits[0].id: error}
    half = len(edits) // 2
    return culprits(editor, edits[:half], fatal) | culprits(editor, edits[half:], fatal)


def parted(editor: Editor, group: Group, fatal: tuple[type[Exception], ...]) -> Parted | None:
    """A group that failed in two, one of which can go on.

    None where that is no help: a lone edit, edits that fail together alone, or all of them.
    """
    if len(group.edits) < 2:
        return None
    logging.getLogger(__name__).warning("%s edits fail together: seeking those that do alone", f"{len(group.edits):,}")
    half = len(group.edits) // 2
    found = culprits(editor, group.edits[:half], fatal) | culprits(editor, group.edits[half:], fatal)
    good = [edit for edit in group.edits if edit.id not in found]
    if not found or not good:
        return None

    def bad(case: Case) -> bool:
        return any(edit.id in found for edit in case.edits)

    whole = group.cases
    sound = group._replace(edits=good, cases=lambda: (case for case in whole() if not bad(case)))
    return Parted(sound, group._replace(cases=lambda: (case for case in whole() if bad(case))), found)
