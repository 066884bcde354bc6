"""Edits of groups: solved ahead in batches, applied in sequence, and bisected after failures.

Solving edits together can change the last digits, and records must not depend on interruptions.
Pieces are therefore the same in every process, and each piece is solved as a whole, including the
edits of finished units. The units of a piece are asked and recorded before the next piece is
solved.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import islice
from typing import Any

from emend.editors.base import NO_COST, Answerer, ApplyMore, BatchSolver, EditCost, Editor
from emend.editors.cost import Meter
from emend.evals.case import Case
from emend.evals.evaluate.units import EditorPass, Group
from emend.memory.edit import Edit
from emend.memory.errors import (
    AccessBlocked,
    CallDropped,
    KeyRefused,
    MemoryUnavailable,
    ModelUnreachable,
    ProviderPaused,
    QuotaExhausted,
    RateLimited,
)

# Errors that are not caused by an edit. Without the affected edit, later questions would get wrong
# answers.
TRANSIENT = (
    AccessBlocked, CallDropped, KeyRefused, MemoryUnavailable, ModelUnreachable, ProviderPaused,
    QuotaExhausted,
    RateLimited,
)  # fmt: skip
# Number of groups that workers and shares keep together, and of edits that an accelerator solves
# ahead at a time.
CHUNK = 16
# Number of edits that a CPU solves ahead at a time. 8 edits of SmolLM2-135M by ROME take 139
# processor seconds one by one, 139 by two, 142 by four and 147 all at once, and solving fewer at a
# time records results sooner.
CPU_PIECE = 1


class Lookahead:
    """Solves edits ahead for one pass, if its mode and editor support it.

    Args:
        editor_pass: the pass.
        piece: number of edits solved at a time.
        meter: returns the meter of a solve.
        on_solved: called with the seconds of a solve and its number of units.
    """

    def __init__(
        self,
        editor_pass: EditorPass,
        piece: int,
        meter: Callable[[], Meter],
        on_solved: Callable[[float, int], None],
    ) -> None:
        editor = editor_pass.editor
        self._editor = (
            editor
            if editor_pass.mode.kind == "single" and isinstance(editor, BatchSolver)
            else None
        )
        self._piece, self._meter, self._on_solved = piece, meter, on_solved
        self._unsolved: list[Sequence[Edit]] = []
        self._piece_cost = NO_COST

    def chunks(self, groups: Iterator[Group]) -> Iterator[Group]:
        """Yield the groups unchanged, one piece at a time."""
        while chunk := list(islice(groups, CHUNK if self._editor else 1)):
            for piece in _pieces(chunk, self._piece):
                self._unsolved = [group.edits for group in piece]
                yield from piece

    def cost(self, edits: int) -> EditCost:
        """Return the share of that many edits in the cost of solving ahead.

        The current piece is solved if it is not solved yet.
        """
        if self._editor and self._unsolved:
            with self._meter() as meter:
                cost = self._editor.presolve(self._unsolved)
            number = max(1, sum(map(len, self._unsolved)))
            self._piece_cost = meter.cost(number, cost)
            self._on_solved(self._piece_cost.seconds, len(self._unsolved))
            self._unsolved = []
        whole, number = self._piece_cost, max(1, self._piece_cost.edits)
        return EditCost(
            seconds=whole.seconds / number * edits,
            cpu_seconds=whole.cpu_seconds / number * edits,
            tokens=round(whole.tokens / number) * edits,
            peak_bytes=whole.peak_bytes,
        )


def piece_size(lm: Any) -> int:
    """Return the number of edits that are solved at a time on the model's device."""
    device = getattr(lm, "device", None)
    return CPU_PIECE if device is not None and device.type == "cpu" else CHUNK


def _pieces(chunk: Sequence[Group], size: int) -> Iterator[list[Group]]:
    """Cut a chunk into pieces of about `size` edits; an interruption loses a whole piece."""
    piece: list[Group] = []
    for group in chunk:
        piece.append(group)
        if sum(len(each.edits) for each in piece) >= size:
            yield piece
            piece = []
    if piece:
        yield piece


def find_failing_edits(
    editor: Editor, edits: Sequence[Edit], fatal: tuple[type[Exception], ...]
) -> dict[str, Exception]:
    """Return the edits that fail alone, with their errors by id, after several failed together.

    The search costs about two batches. Errors in `fatal` are not caused by an edit and propagate.
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
            failing |= (
                {part[0].id: error} if len(part) == 1 else find_failing_edits(editor, part, fatal)
            )
    return failing


class AppliedEdits:
    """State of a sequence of edits, which are applied only when a question needs them.

    Args:
        apply_more: adds edits to the model.
        fatal: errors that are not caused by an edit, and propagate.
        divides: apply edits one by one if they fail together, so that only those that cause the
            error fail.
    """

    def __init__(
        self, apply_more: ApplyMore, fatal: tuple[type[Exception], ...], divides: bool = False
    ) -> None:
        self._apply_more, self._fatal, self._divides = apply_more, fatal, divides
        self.answerer: Answerer = apply_more(())
        self._pending: list[tuple[Sequence[Edit], bool]] = []
        self._failed: dict[str, Exception] = {}
        self._interruption: Exception | None = None
        """Error after which no edit is applied, so that all later units fail and are retried."""
        self._costs: dict[str, EditCost] = {}
        self.count = 0
        """Number of applied edits."""
        self.newest: Sequence[Edit] = ()
        """Edits that were applied last."""

    def defer(self, edits: Sequence[Edit], again: bool) -> None:
        """Add edits to apply before the next question.

        `again` is true if an earlier process already finished the units of these edits.
        """
        if edits:
            self._pending.append((edits, again))

    def pending(self) -> Iterator[tuple[Sequence[Edit], bool]]:
        """Yield the edits to apply, in order, each with its `again` flag, and clear the list."""
        pending, self._pending = self._pending, []
        yield from pending

    def apply(self, edits: Sequence[Edit]) -> bool:
        """Apply edits on top of the others; return False and keep the error if that fails."""
        if self._interruption is not None:
            return False
        try:
            self.answerer = self._apply_more(edits)
            self.count += len(edits)
        except self._fatal:
            raise
        except TRANSIENT as error:
            self._interruption = error
            return False
        except Exception as error:  # noqa: BLE001  the edits' units fail, the sequence goes on
            if self._divides and len(edits) > 1:
                return any([self.apply([edit]) for edit in edits])
            self._failed |= {edit.id: error for edit in edits}
            return False
        return True

    def set_cost(self, edits: Sequence[Edit], cost: EditCost) -> None:
        """Store the cost of applying these edits together."""
        self._costs |= dict.fromkeys((edit.id for edit in edits), cost)

    def cost_of(self, case: Case) -> EditCost:
        """Return the cost of applying the case's edits, even if applied for earlier cases."""
        costs = list(
            {id(cost): cost for edit in case.edits if (cost := self._costs.get(edit.id))}.values()
        )
        return reduce(EditCost.plus, costs, NO_COST).model_copy(
            update={"edits": sum(cost.edits for cost in costs)}
        )

    def error_of(self, case: Case) -> Exception | None:
        """Return why the case's edits, or those before, are not all applied; None if they are."""
        return self._interruption or next(
            (self._failed[edit.id] for edit in case.edits if edit.id in self._failed), None
        )
