"""Bisection of edits that fail together: one that cannot be applied must not take the others with it."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from emend.editors.base import Editor
from emend.evals.case import Case
from emend.evals.runner.units import Group
from emend.memory.edit import Edit


class SplitGroup(NamedTuple):
    """A group without the cases of edits that cannot be applied, the group of these, and the errors by edit."""

    sound: Group
    broken: Group
    errors: dict[str, Exception]

    def error_of(self, case: Case) -> Exception:
        """Return why a case of the broken group has failed."""
        return next(self.errors[edit.id] for edit in case.edits if edit.id in self.errors)


def find_failing_edits(
    editor: Editor, edits: Sequence[Edit], fatal: tuple[type[Exception], ...]
) -> dict[str, Exception]:
    """Find the edits that cannot be applied, by id, with their errors; by halves, which costs about two batches.

    Args:
        editor: the editor.
        edits: at least one edit.
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
    return _failing_in_halves(editor, edits, fatal)


def _failing_in_halves(
    editor: Editor, edits: Sequence[Edit], fatal: tuple[type[Exception], ...]
) -> dict[str, Exception]:
    half = len(edits) // 2
    return find_failing_edits(editor, edits[:half], fatal) | find_failing_edits(editor, edits[half:], fatal)


def split_failed(editor: Editor, group: Group, fatal: tuple[type[Exception], ...]) -> SplitGroup | None:
    """Divide a group that failed into one that can go on and one that cannot.

    None where that does not help: a lone edit, edits that only fail together, or all of them.
    """
    if len(group.edits) < 2:
        return None
    logging.getLogger(__name__).warning(
        "%s edits fail together: searching for those that fail alone", f"{len(group.edits):,}"
    )
    errors = _failing_in_halves(editor, group.edits, fatal)
    sound = [edit for edit in group.edits if edit.id not in errors]
    if not errors or not sound:
        return None

    def broken(case: Case) -> bool:
        return any(edit.id in errors for edit in case.edits)

    whole = group.cases
    return SplitGroup(
        group._replace(edits=sound, cases=lambda: (case for case in whole() if not broken(case))),
        group._replace(cases=lambda: (case for case in whole() if broken(case))),
        errors,
    )
