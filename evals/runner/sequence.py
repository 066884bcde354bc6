"""The state of a sequence of edits: which stand on the model, which are still to be put there, which could not be."""

from collections.abc import Iterator, Sequence
from functools import reduce

from emend.editors.base import NO_COST, Answerer, EditCost, Grow
from emend.evals.case import Case
from emend.evals.runner.units import Group
from emend.memory.edit import Edit


class Stood:
    """Edits that stand on one another; they are put there no sooner than something is asked under them.

    Args:
        grow: what adds edits to the model.
        fatal: errors that are not the fault of an edit, and come out.
    """

    def __init__(self, grow: Grow, fatal: tuple[type[Exception], ...]) -> None:
        self._grow, self._fatal = grow, fatal
        self.answerer: Answerer = grow(())
        self._owed: list[tuple[Sequence[Edit], bool]] = []
        self._failed: dict[str, Exception] = {}
        self._costs: dict[str, EditCost] = {}
        self.count = 0
        """Edits that stand."""

    def owe(self, group: Group, again: bool) -> None:
        """The group's new edits are to stand when something is asked next; `again` if they were asked about before."""
        if group.new:
            self._owed.append((group.new, again))

    def owed(self) -> Iterator[tuple[Sequence[Edit], bool]]:
        """What is to be added before something can be asked, in order; and whether it is only put there again."""
        owed, self._owed = self._owed, []
        yield from owed

    def add(self, edits: Sequence[Edit]) -> bool:
        """Put edits on top of those that stand; False for what cannot be solved, which is remembered."""
        try:
            self.answerer = self._grow(edits)
            self.count += len(edits)
        except self._fatal:
            raise
        except Exception as error:  # noqa: BLE001  the edits' units fail, the sequence goes on
            self._failed |= {edit.id: error for edit in edits}
            return False
        return True

    def cost(self, edits: Sequence[Edit], cost: EditCost) -> None:
        """Remember what it took to put edits there."""
        self._costs |= dict.fromkeys((edit.id for edit in edits), cost)

    def cost_of(self, case: Case) -> EditCost:
        """What it took to put the case's edits there, some of them with an earlier case perhaps."""
        acts = list({id(cost): cost for edit in case.edits if (cost := self._costs.get(edit.id))}.values())
        return reduce(EditCost.plus, acts, NO_COST).model_copy(update={"edits": sum(act.edits for act in acts)})

    def error_of(self, case: Case) -> Exception | None:
        """Why one of the case's edits does not stand; None when they all do."""
        return next((self._failed[edit.id] for edit in case.edits if edit.id in self._failed), None)
