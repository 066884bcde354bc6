"""Bisection of edits that fail together: one that cannot be applied must not take the others with it."""

import logging
from collections.abc import Sequence

from emend.editors.base import Editor
from emend.memory.edit import Edit

Errors = dict[str, Exception]
"""Errors of edits that cannot be applied, by id."""


def find_failing_edits(editor: Editor, edits: Sequence[Edit], fatal: tuple[type[Exception], ...]) -> Errors:
    """Find the edits, of at least two that failed together, that fail alone; costs about two batches.

    Args:
        editor: the editor.
        edits: the edits.
        fatal: errors that are no edit's fault.
    """
    logging.getLogger(__name__).warning("%s edits fail together: searching for the culprits", f"{len(edits):,}")
    return _bisect(editor, edits, fatal)


def _bisect(editor: Editor, edits: Sequence[Edit], fatal: tuple[type[Exception], ...]) -> Errors:
    half = len(edits) // 2
    return _failing(editor, edits[:half], fatal) | _failing(editor, edits[half:], fatal)


def _failing(editor: Editor, edits: Sequence[Edit], fatal: tuple[type[Exception], ...]) -> Errors:
    try:
        with editor.edit(edits):
            return {}
    except fatal:
        raise
    except Exception as error:  # noqa: BLE001  whatever an editor raises
        return {edits[0].id: error} if len(edits) == 1 else _bisect(editor, edits, fatal)
