"""One edit after another on the same weights: what mode `sequential` asks of an editor that solves for deltas."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from emend.agents.local.causal_lm import CausalLM
from emend.editors.base import Answerer, EditCost, Grow
from emend.editors.costing import counted
from emend.editors.numerics.apply_delta import Deltas, Stack
from emend.memory.edit import Edit


@contextmanager
def stacked(
    lm: CausalLM, solve: Callable[[Sequence[Edit]], Deltas], answerer: Callable[[EditCost], Answerer]
) -> Iterator[Grow]:
    """Each call solves for its edits on the model as the calls before left it, and adds the deltas.

    Memory does not grow with the number of calls: one copy of each changed tensor is kept, for the end.

    Args:
        lm: whose weights are changed.
        solve: edits to deltas for the weights as they are now; leaves them as they are.
        answerer: what to lend, given what the call cost.

    Raises:
        BadSettings: another edit stands on this model.
    """
    with Stack(lm.model, lm.lock) as stack:

        def grow(edits: Sequence[Edit]) -> Answerer:
            with counted(lm) as counter:
                deltas = solve(edits)
            stack.add(deltas)
            return answerer(counter.cost)

        yield grow
