"""No span begins in 1970: a probe whose steps tell no time stands beside those that do, or where the run began."""

from collections.abc import Sequence
from typing import Any

import pytest

from emend.evals.case import Record
from emend.evals.log.lines import event_of, steps_from_events
from emend.memory.probe import Step

pytest.importorskip("opentelemetry.sdk.trace", reason="the extra 'otel' is not installed")

from emend.evals.show.trace.otlp_spans import SpanMaker, UnitTrace, spans_of, spans_of_failure  # noqa: E402

BEGAN = 1_700_000_000.0
BASE = dict(unit="u", of=3, case="c", kind="efficacy", editor="e", model="m", setting="s", mode="single")
RECORDS = [Record.model_validate(BASE | dict(probe=name, prompt="?", gold=("x",), seconds=2.0)) for name in "abc"]


def steps(*ats: float) -> list[dict[str, Any]]:
    """Steps of one second each."""
    made = [Step(node=f"n{n}", update={}, ms=1000.0, at=at, place=n) for n, at in enumerate(ats, 1)]
    return list(steps_from_events(event_of(step) for step in made))


def times(told: dict[str, Sequence[dict[str, Any]]], began: float = BEGAN) -> dict[str, tuple[float, float]]:
    """Beginning and end of each span, from when the run began, by its name; of the probes by their ids."""
    found = dict[str, tuple[float, float]]()
    for span in spans_of(UnitTrace(1, RECORDS, told, {}, run_start=began), SpanMaker("run")):
        assert span.attributes is not None and span.start_time is not None and span.end_time is not None
        name = str(span.attributes.get("emend.probe.id", span.name))
        found[name] = (span.start_time / 1e9 - BEGAN, span.end_time / 1e9 - BEGAN)
    return found


def test_a_probe_without_steps_stands_beside_another_and_a_failed_unit_where_it_failed() -> None:
    spans = times({"b": steps(BEGAN + 10, BEGAN + 11)})
    assert (spans["a"], spans["b"], spans["c"]) == ((8, 10), (10, 12), (12, 14))
    assert spans["case 1 e"] == (8, 14)
    assert times({"c": steps(BEGAN + 10)})["case 1 e"] == (6, 12)
    assert times({"a": steps(BEGAN + 10)})["case 1 e"] == (10, 16)
    line = dict(unit="u", probe="a", case="c", editor="e", setting="s", error="E", message="m", steps=steps(0))
    failure = list(spans_of_failure(SpanMaker("run"), 1, line | {"at": "2023-11-14T22:13:20+00:00"}))
    assert {span.start_time for span in failure} == {BEGAN * 1e9} and len(failure) == 3


def test_steps_that_tell_no_time_stand_behind_each_other_or_where_the_run_began() -> None:
    spans = times({"a": steps(BEGAN + 5), "b": steps(0, 0)})
    assert (spans["b"], spans["n1"], spans["n2"]) == ((7, 9), (7, 8), (8, 9))
    spans = times({"b": steps(0)})
    assert (spans["case 1 e"], spans["a"], spans["b"], spans["n1"]) == ((0, 6), (0, 2), (2, 4), (2, 3))
