"""Solving the edits of several groups in one batch, ahead of mode `single`.

Chunks are the same however often a run was interrupted, and a chunk is solved whole, edits of finished units too: what
is solved together can change the last digits, and records must not depend on where a run was interrupted.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from emend.editors.base import NO_COST, BatchSolver, EditCost
from emend.editors.cost import Meter
from emend.evals.run.units import EditorPass, Group
from emend.memory.edit import Edit

CHUNK = 16
"""Groups, and about as many edits, that are solved ahead at a time; an interrupted chunk is solved again."""


class Lookahead:
    """Solves edits ahead for one pass, if its mode and its editor allow it.

    Args:
        editor_pass: the pass.
        meter: makes the meter of a solve.
        on_solved: receives the seconds that a solve took, and the number of units that it was for.
    """

    def __init__(
        self, editor_pass: EditorPass, meter: Callable[[], Meter], on_solved: Callable[[float, int], None]
    ) -> None:
        editor = editor_pass.editor
        self._editor = editor if editor_pass.mode.kind == "single" and isinstance(editor, BatchSolver) else None
        self._meter, self._on_solved = meter, on_solved
        self._unsolved: list[Sequence[Edit]] = []
        self._chunk_cost = NO_COST

    def chunks(self, groups: Iterator[Group]) -> Iterator[Group]:
        """Yield the groups unchanged, one chunk at a time."""
        while chunk := list(islice(groups, CHUNK if self._editor else 1)):
            for part in _parts(chunk):
                self._unsolved = [group.edits for group in part]
                yield from part

    def cost(self, edits: int) -> EditCost:
        """Return the share of so many edits in what solving ahead cost; solve the current chunk if need be."""
        if self._editor and self._unsolved:
            with self._meter() as meter:
                cost = self._editor.presolve(self._unsolved)
            number = max(1, sum(map(len, self._unsolved)))
            self._chunk_cost = meter.cost(number, cost)
            self._on_solved(self._chunk_cost.seconds, len(self._unsolved))
            self._unsolved = []
        whole, number = self._chunk_cost, max(1, self._chunk_cost.edits)
        return EditCost(
            seconds=whole.seconds / number * edits,
            cpu_seconds=whole.cpu_seconds / number * edits,
            tokens=round(whole.tokens / number) * edits,
            peak_bytes=whole.peak_bytes,
        )


def _parts(chunk: Sequence[Group]) -> Iterator[list[Group]]:
    """Cut a chunk where `CHUNK` edits are reached: groups of many edits would lose too much to an interruption."""
    part: list[Group] = []
    for group in chunk:
        part.append(group)
        if sum(len(each.edits) for each in part) >= CHUNK:
            yield part
            part = []
    if part:
        yield part
