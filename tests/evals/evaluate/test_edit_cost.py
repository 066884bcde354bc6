"""Every record says what it took to let its own edits stand."""

from pathlib import Path
from typing import Any

import pytest

from emend.editors.base import EditCost
from emend.evals.case import Case, Record
from emend.evals.config.mode import Mode
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.edit_groups import AppliedEdits
from emend.evals.evaluate.units import groups
from emend.evals.log.lines import COSTS
from emend.evals.log.records import read_lines
from emend.evals.show.report.traces.values import edit_cost
from tests.evals.toy_runs import go, records
from tests.evals.toys import BENCHMARK, EDITOR, FLEETING_EDITOR, HEAVY, toy_case
from tests.params import first_quick


def recorded(folder: Path, **changed: Any) -> list[Record]:
    go(folder, **changed)
    return records(folder)


def acts(folder: Path) -> dict[str, EditCost]:
    """By edit, the cost of the act in which it was put there."""
    lines = [line for line in read_lines(folder, COSTS) if line["act"] == "edit"]
    return {
        edit: EditCost(**{name: line[name] for name in EditCost.model_fields}) for line in lines for edit in line["of"]
    }


def edit_of(record: Record) -> str:
    """The only edit of a toy's case."""
    return next(toy_case(n).edits[0].id for n in range(9) if toy_case(n).id == record.case)


@pytest.mark.parametrize(("mode", "edits"), [("single", {1}), ("batch:4", {4, 2}), ("all", {6})])
@pytest.mark.parametrize("editor", first_quick([HEAVY, EDITOR]))
def test_records_have_the_cost_of_the_act_that_made_their_edits(
    tmp_path: Path, mode: str, edits: set[int], editor: str
) -> None:
    result = recorded(tmp_path / "run", mode=mode, editors=(editor,))
    costs = acts(tmp_path / "run")
    assert {record.edit_cost.edits for record in result} == edits
    assert all(record.edit_cost == costs[edit_of(record)] and record.edit_cost.seconds > 0 for record in result)


def test_a_case_that_is_asked_again_keeps_the_cost_of_its_own_edit(tmp_path: Path) -> None:
    result = recorded(tmp_path / "run", mode="sequential", editors=(FLEETING_EDITOR,))
    costs = acts(tmp_path / "run")
    assert {record.checkpoint for record in result} == {0, 6}
    assert all(record.edit_cost == costs[edit_of(record)] for record in result)


def test_edits_of_several_acts_cost_the_sum_and_those_of_one_count_once() -> None:
    first, second, third = (toy_case(n) for n in range(3))
    twice = Case(edits=first.edits + second.edits, probes=first.probes)
    both = Case(edits=second.edits + third.edits, probes=first.probes)
    grouped = list(groups(lambda: iter([twice, both]), Mode.parse("sequential")))

    def grow(_: object) -> Any:
        return object()

    stood = AppliedEdits(grow, ())
    stood.set_cost(grouped[0].new, EditCost(edits=2, seconds=3.0, cpu_seconds=2.0, peak_bytes=7, tokens=10))
    stood.set_cost(grouped[1].new, EditCost(edits=1, seconds=1.0, cpu_seconds=0.5, peak_bytes=9, tokens=4))
    assert stood.cost_of(twice) == EditCost(edits=2, seconds=3.0, cpu_seconds=2.0, peak_bytes=7, tokens=10)
    assert stood.cost_of(both) == EditCost(edits=3, seconds=4.0, cpu_seconds=2.5, peak_bytes=9, tokens=14)


@pytest.mark.slow
def test_a_sequence_asks_all_cases_again_at_its_end_unless_told_otherwise(tmp_path: Path) -> None:
    asked: dict[str, tuple[dict[str, Any], int]] = {
        "end": ({}, 12),
        "none": ({"reevaluate_at": "none"}, 6),
        "two": ({"reevaluate_at": "2"}, 8),
    }
    for name, (question, units) in asked.items():
        assert len({record.unit for record in recorded(tmp_path / name, mode="sequential", **question)}) == units
    assert RunConfig(benchmark=BENCHMARK, editors=(EDITOR,)).reevaluate_at is None
    assert RunConfig(benchmark=BENCHMARK, editors=(EDITOR,), reevaluate_at="none").reevaluate_at == "none"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (EditCost(), ""),
        (EditCost(edits=5, seconds=0.002), ""),
        (EditCost(edits=1, seconds=0.774, tokens=1032), "; its edit 0.77 s, 1,032 tokens through the model"),
        (EditCost(edits=20, seconds=31.0), "; its group of 20 edits 31.00 s"),
    ],
)
def test_a_trace_tells_what_the_edit_took_where_it_took_something(told: EditCost, said: str) -> None:
    assert edit_cost(told) == said
