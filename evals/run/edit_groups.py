"""Edits of groups: solved in one batch ahead, applied on top of one another, and bisected when some fail together.

The chunks that are solved ahead are the same however often a run was interrupted, and a chunk is solved whole, edits
of finished units too: what is solved together can change the last digits, and records must not depend on where a run
was interrupted.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import islice

from emend.editors.base import NO_COST, Answerer, ApplyMore, BatchSolver, EditCost, Editor
from emend.editors.cost import Meter
from emend.evals.case import Case
from emend.evals.run.units import EditorPass, Group
from emend.memory.edit import Edit
from emend.memory.errors import (
    CallDropped,
    KeyRefused,
    MemoryUnavailable,
    ModelUnreachable,
    ProviderPaused,
    QuotaExhausted,
    RateLimited,
)

TRANSIENT = (
    CallDropped, KeyRefused, MemoryUnavailable, ModelUnreachable, ProviderPaused, QuotaExhausted, RateLimited,
)  # fmt: skip
"""Errors that are no edit's fault: without the edits that met one, what is asked later would be answered wrongly."""
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


class AppliedEdits:
    """The state of a sequence of edits; edits are applied no sooner than something is asked under them.

    Args:
        apply_more: adds edits to the model.
        fatal: errors that are not the fault of an edit, and propagate.
        divides: apply edits one by one that cannot be applied together, so that only those at fault fail.
    """

    def __init__(self, apply_more: ApplyMore, fatal: tuple[type[Exception], ...], divides: bool = False) -> None:
        self._apply_more, self._fatal, self._divides = apply_more, fatal, divides
        self.answerer: Answerer = apply_more(())
        self._pending: list[tuple[Sequence[Edit], bool]] = []
        self._failed: dict[str, Exception] = {}
        self._interruption: Exception | None = None
        """The error after which nothing more is applied, so that all later units fail and are asked again."""
        self._costs: dict[str, EditCost] = {}
        self.count = 0
        """Number of applied edits."""
        self.newest: Sequence[Edit] = ()
        """The edits that were applied last."""

    def defer(self, edits: Sequence[Edit], again: bool) -> None:
        """Note edits to apply before something is asked next; `again` if an earlier process asked about them."""
        if edits:
            self._pending.append((edits, again))

    def pending(self) -> Iterator[tuple[Sequence[Edit], bool]]:
        """Take the edits to apply, in order, each with whether they are only applied again."""
        pending, self._pending = self._pending, []
        yield from pending

    def apply(self, edits: Sequence[Edit]) -> bool:
        """Apply edits on top of the others; False, with the error remembered, for those that cannot be solved."""
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
        """Remember what applying these edits together cost."""
        self._costs |= dict.fromkeys((edit.id for edit in edits), cost)

    def cost_of(self, case: Case) -> EditCost:
        """Return what applying the case's edits cost, some of them with an earlier case perhaps."""
        costs = list({id(cost): cost for edit in case.edits if (cost := self._costs.get(edit.id))}.values())
        return reduce(EditCost.plus, costs, NO_COST).model_copy(update={"edits": sum(cost.edits for cost in costs)})

    def error_of(self, case: Case) -> Exception | None:
        """Return why one of the case's edits, or of those before them, is not applied; None when all are."""
        return self._interruption or next(
            (self._failed[edit.id] for edit in case.edits if edit.id in self._failed), None
        )
