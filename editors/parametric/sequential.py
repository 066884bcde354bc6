"""Edits applied one after another to the same weights, for mode `sequential`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from emend.agents.local.causal_lm import CausalLM
from emend.editors.base import Answerer, ApplyMore, EditCost
from emend.editors.cost import count_tokens
from emend.editors.numerics.apply_delta import Deltas, DeltaStack
from emend.memory.edit import Edit


@contextmanager
def sequential_edits(
    lm: CausalLM, solve: Callable[[Sequence[Edit]], Deltas], make_answerer: Callable[[EditCost], Answerer]
) -> Iterator[ApplyMore]:
    """Solve at each call for its edits on the model as the calls before left it, and add the deltas.

    Memory does not grow with the number of calls: one copy of each changed tensor is kept, for the end. `solve` gives
    deltas for the weights as they are now, and leaves them as they are; `make_answerer` gets the call's cost.

    Raises:
        BadSettings: another edit is applied to this model.
    """
    with DeltaStack(lm.model, lm.lock) as stack:

        def apply_more(edits: Sequence[Edit]) -> Answerer:
            with count_tokens(lm) as counter:
                deltas = solve(edits)
            stack.add(deltas)
            return make_answerer(counter.cost)

        yield apply_more
