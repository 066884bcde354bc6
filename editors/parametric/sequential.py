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
    lm: CausalLM,
    solve: Callable[[Sequence[Edit]], Deltas],
    make_answerer: Callable[[EditCost], Answerer],
) -> Iterator[ApplyMore]:
    """Solve the edits of each call on the model that earlier calls left, and add the deltas.

    Memory does not grow with the number of calls: one copy of each changed tensor is kept, to
    restore it at the end. `solve` returns deltas for the current weights without changing them;
    `make_answerer` gets the call's cost.

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
