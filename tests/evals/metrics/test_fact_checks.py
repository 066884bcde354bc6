"""Checks of retrieved facts: their counts in a record, and the note on a check that always says the same."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from emend.evals.metrics.fact_checks import CHECKS, CONTRADICTIONS, score_checks
from emend.evals.results.aggregate.columns import ResultGroup
from emend.evals.results.aggregate.side_effects import fact_check_notes
from emend.memory.probe import Answer, Step


def test_the_checks_of_an_answer_are_counted_by_its_last_hops():
    first = Step(node="check", ms=1.0, update={"hops": [{"contradicts": True}]})
    last = Step(node="check", ms=1.0, update={"hops": [{"contradicts": True}, {"contradicts": False}, {"fact": "x"}]})
    assert score_checks(Answer(steps=(first, last))) == {CHECKS: 2.0, CONTRADICTIONS: 1.0}
    walk = Step(node="link", ms=1.0, update={"hops": [{"fact": "x"}]})
    assert score_checks(Answer(steps=(walk,))) == {} == score_checks(Answer())


@pytest.mark.parametrize(
    ("checks", "contradictions", "note"),
    [
        ((9, 8), (0, 0), "its check said 'does not contradict' for all 17 facts"),
        ((17,), (17,), "its check said 'contradicts' for all 17 facts"),
        ((17,), (1,), ""),
        ((9,), (0,), ""),
        ((), (), ""),
    ],
)
def test_a_check_that_says_the_same_of_all_facts_is_reported_from_ten_on(checks, contradictions, note):
    def columns(output: str, values: tuple[int, ...]) -> dict[Any, Any]:
        kinds = ("efficacy", "multihop")
        return {
            (output, kind): SimpleNamespace(values=np.array([value]))
            for kind, value in zip(kinds, values, strict=False)
        }

    place = ResultGroup("triplets", "single", "mello")
    notes = list(fact_check_notes({place: columns(CHECKS, checks) | columns(CONTRADICTIONS, contradictions)}))
    assert notes == ([f"mello: {note}, so it decided nothing"] if note else [])
