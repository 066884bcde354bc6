"""No span begins in 1970: a probe whose steps tell no time stands beside those that do, or where the run began."""

from collections.abc import Sequence
from typing import Any

from emend.evals.case import Record
from emend.evals.log.lines import event_of, steps_from_events
from emend.evals.show.trace.otlp_spans import UnitTrace, spans_of, spans_of_failure
from emend.memory.probe import Step

BEGAN = 1_700_000_000.0
BASE = dict(unit="u", of=3, case="c", kind="efficacy", editor="e", model="m", setting="s", mode="single")
RECORDS = [Record.model_validate(BASE | dict(probe=name, prompt="?", gold=("x",), seconds=2.0)) for name in "abc"]


def steps(*ats: float) -> list[dict[str, Any]]:
    """Steps of one second each."""
    made = [Step(node=f"n{n}", update={}, ms=1000.0, at=at, place=n) for n, at in enumerate(ats, 1)]
    return list(steps_from_events(event_of(step) for step in made))


def times(told: dict[str, Sequence[dict[str, Any]]], began: float = BEGAN) -> dict[str, tuple[float, float]]:
    """Beginning and end of each span, from when the run began, by the last part of its key."""
    spans = spans_of(UnitTrace("run", 1, RECORDS, told, {}, run_start=began))
    return {span.key[-1]: (span.start - BEGAN, span.end - BEGAN) for span in spans}


def test_a_probe_without_steps_stands_beside_another_and_a_failed_unit_where_it_failed() -> None:
    spans = times({"b": steps(BEGAN + 10, BEGAN + 11)})
    assert (spans["a"], spans["b"], spans["c"]) == ((8, 10), (10, 12), (12, 14))
    assert spans["u"] == (8, 14)
    assert times({"c": steps(BEGAN + 10)})["u"] == (6, 12)
    assert times({"a": steps(BEGAN + 10)})["u"] == (10, 16)
    line = dict(unit="u", probe="a", case="c", editor="e", setting="s", error="E", message="m", steps=steps(0))
    failure = list(spans_of_failure("run", 1, line | {"at": "2023-11-14T22:13:20+00:00"}))
    assert {span.start for span in failure} == {BEGAN} and len(failure) == 3


def test_steps_that_tell_no_time_stand_behind_each_other_or_where_the_run_began() -> None:
    spans = times({"a": steps(BEGAN + 5), "b": steps(0, 0)})
    assert (spans["b"], spans["0 n1"], spans["1 n2"]) == ((7, 9), (7, 8), (8, 9))
    spans = times({"b": steps(0)})
    assert (spans["u"], spans["a"], spans["b"], spans["0 n1"]) == ((0, 6), (0, 2), (2, 4), (2, 3))
