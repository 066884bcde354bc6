"""Bisection of edits that fail together: one that cannot be applied must not take the others with it."""

from collections.abc import Sequence

from emend.editors.base import Editor
from emend.memory.edit import Edit


def find_failing_edits(
    editor: Editor, edits: Sequence[Edit], fatal: tuple[type[Exception], ...]
) -> dict[str, Exception]:
    """Find the edits, of at least two that failed together, that fail alone, with their errors by id.

    It costs about two batches; errors in `fatal` are no edit's fault, and propagate.
    """
    failing: dict[str, Exception] = {}
    half = len(edits) // 2
    for part in (edits[:half], edits[half:]):
        try:
            with editor.edit(part):
                pass
        except fatal:
            raise
        except Exception as error:  # noqa: BLE001  whatever an editor raises
            failing |= {part[0].id: error} if len(part) == 1 else find_failing_edits(editor, part, fatal)
    return failing
