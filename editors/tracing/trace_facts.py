"""Causal tracing of the facts that edits change, for those facts that the model knows."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from emend.agents.local.causal_lm import CausalLM
from emend.editors.tracing.causal_trace import (
    CausalTrace,
    CausalTracer,
    embedding_deviation,
    find_fact,
)
from emend.memory.edit import Edit
from emend.memory.errors import BadData


class TracedFacts(NamedTuple):
    """Traces of facts that the model knows, and the number of edits with unknown facts."""

    traces: list[CausalTrace]
    unknown: int


def trace_facts(
    lm: CausalLM,
    edits: Sequence[Edit],
    seed: int = 0,
    report: Callable[[int, int], None] = lambda number, total: None,
    architecture: Mapping[str, str | bool] | None = None,
) -> TracedFacts:
    """Trace the facts that the model knows.

    Args:
        lm: the model.
        edits: the edits whose facts are traced.
        seed: seed of the noise.
        report: called before each fact with its number and the total.
        architecture: module paths by name, for a model that Emend does not know.

    Raises:
        BadData: an edit has no subject in its prompt, or the model knows none of the facts.
        BadSettings: the architecture is unknown, or the tokenizer gives no offsets.
    """
    facts = [fact for edit in edits if (fact := find_fact(lm, edit)) is not None]
    if not facts:
        raise BadData(
            f"the model knows none of the {len(edits)} facts: its most likely next token is never "
            "that of target_true. Give edits of facts that it knows, or leave target_true out to "
            "trace what it says."
        )
    tracer = CausalTracer(lm, embedding_deviation(lm, facts), seed, architecture)
    traces = []
    for number, fact in enumerate(facts):
        report(number, len(facts))
        traces.append(tracer.trace(fact))
    return TracedFacts(traces, len(edits) - len(facts))
