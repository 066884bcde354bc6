"""What stands around the numbers: intervals, notes, names of columns and of runs."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emend.evals.aggregate.columns import MetricRow
from emend.evals.aggregate.rows import Report
from emend.evals.analyses.compare import compare
from emend.evals.case import Metric
from emend.evals.report.tables import costs
from emend.evals.report.tables.comparison import render_comparison
from emend.evals.report.tables.metrics import notes
from emend.evals.report.tables.overview import show_overview
from emend.evals.trace.filters import StepFilter
from emend.evals.trace.overview import CaseRow, NodeRow, Overview
from tests.evals.made import record, write_run

EM = Metric(name="EM", value="em", kinds=(), scale=100)
FAILURE = "ReplyRefused: " + "the provider said no and gave a long reason for it; " * 12 + "that is all"


def text_of(shown: Any, width: int = 100) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(shown)
    return file.getvalue()


def report_of(**means: float) -> Report:
    place: dict[str, Any] = {"setting": "s", "mode": "all", "metric": "EM", "n": 9, "unscored": 0}
    rows = tuple(MetricRow(editor=editor, mean=mean, low=None, high=None, **place) for editor, mean in means.items())
    return Report(
        benchmark="b", model="m", rows=rows, metrics=(EM,), records=9, cases=9, cut=0, failed=0, missing=0, reasons={}
    )


# --- intervals and notes


@pytest.mark.parametrize(("low", "high"), [(0.2196, 0.2204), (0.22, 0.22)])
def test_a_cost_has_its_interval_though_both_ends_round_alike(low: float, high: float) -> None:
    row = MetricRow(
        editor="rag", setting="s", mode="all", metric="s/probe", mean=0.22, low=low, high=high, n=3, unscored=0
    )
    ((_, table),) = costs.cost_tables([row])
    assert "[0.22, 0.22]" in text_of(table)


def test_the_star_is_explained_only_where_there_is_one() -> None:
    told = "* best of its column"
    assert told in notes(report_of(rag=100.0, ike=50.0), plain=True)
    assert told not in notes(report_of(rag=100.0, ike=100.0), plain=True)
    assert told not in notes(report_of(rag=100.0), plain=True)
    assert told not in notes(report_of(rag=100.0, ike=50.0), plain=False)


def test_notes_say_where_the_interval_is_wilsons() -> None:
    first = notes(report_of(rag=100.0))[0]
    assert "[95 % intervals: bootstrap over cases, Wilson's where all cases are alike]" in first


# --- names of runs


def test_runs_are_told_apart_however_long_their_names_begin_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("runs/tinyworld-20261122-114914", "runs/tinyworld-20261122-114933")
    first, second = (write_run(Path(name), [record("1", values={"em": 1.0})]) for name in names)
    lines = [line.rstrip() for line in text_of(render_comparison(compare(first, second)), 80).splitlines()]
    assert f"A = {names[0]} (rag)" in lines and f"B = {names[1]} (rag)" in lines
    (heads,) = [line.split() for line in lines if line.startswith(" metric")]
    assert heads[:4] == ["metric", "A", "B", "difference"]


# --- the overview of a run


def overview_of(width: int, terminal: bool = False) -> str:
    case = CaseRow(
        case="c", number=4, setting="s", editor="rag", probes=2, steps=6, seconds=1.5, retries=0, errors=1, unscored=2,
        failed=0, found=FAILURE,
    )  # fmt: skip
    node = NodeRow(
        editor="rag", node="respond", steps=6, median_ms=69.5, p95_ms=215.6, calls=6, input_tokens=9, output_tokens=3,
        retries=0, errors=1,
    )  # fmt: skip
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, color_system=None, soft_wrap=width > 200)
    show_overview(Overview(nodes=(node,), cases=(case,)), Path("run"), StepFilter(errors=True), console)
    return file.getvalue()


def test_percentiles_of_times_are_no_intervals() -> None:
    assert "median ms" in overview_of(150) and "p95 ms" in overview_of(150) and "95 %" not in overview_of(150)
    assert "median ms" in overview_of(60) and "p95 ms" not in overview_of(60)


def test_a_failure_is_whole_in_a_pipe_and_short_in_a_terminal() -> None:
    assert f"case 4, rag: {FAILURE}\n" in overview_of(400)
    for width in (60, 150):
        assert "…" in overview_of(width, terminal=True) and "that is all" not in overview_of(width, terminal=True)
