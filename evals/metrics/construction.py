"""Scores of constructed items: whether an item is kept, and which filters its last attempt passed."""

from pydantic import ValidationError

from emend.editors.built_item import BuiltItem
from emend.evals.metrics.scores import NO_TEXT, ProbeScores
from emend.memory.probe import Answer, Probe

KEPT = "kept"
PASSES = "passes_"
"""Before a filter's name, the output that says whether an item that reached it passed it."""


def score_construction(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`kept`, and `passes_FILTER` for each filter that the item reached."""
    if answer.text is None:
        return ProbeScores({}, {KEPT: NO_TEXT})
    try:
        built = BuiltItem.model_validate_json(answer.text)
    except ValidationError:
        return ProbeScores({}, {KEPT: "the answer is not the outcome of a construction"})
    values = {f"{PASSES}{name}": float(passed) for name, passed in built.passed.items()}
    return ProbeScores({KEPT: float(built.result is not None)} | values, {})
