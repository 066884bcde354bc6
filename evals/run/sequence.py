"""Edits applied on top of one another: which are active, which are still pending, which could not be applied."""

from collections.abc import Iterator, Sequence
from functools import reduce

from emend.editors.base import NO_COST, Answerer, ApplyMore, EditCost
from emend.evals.case import Case
from emend.memory.edit import Edit


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
        try:
            self.answerer = self._apply_more(edits)
            self.count += len(edits)
        except self._fatal:
            raise
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
        """Return why one of the case's edits is not applied; None when all are."""
        return next((self._failed[edit.id] for edit in case.edits if edit.id in self._failed), None)
