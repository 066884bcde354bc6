"""What stands around the numbers: intervals, notes, names of columns and of runs."""

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emend.evals.case import Metric
from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.elken.cases import M_FOR_G
from emend.evals.evaluate.run import run
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.papers.show.published import show_list
from emend.evals.papers.tables import papers
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.mark_names import HIGHEST
from emend.evals.results.aggregate.rows import Report, report
from emend.evals.results.aggregate.tables import LabelledReport
from emend.evals.results.analyses.compare import compare
from emend.evals.show.report import secondary
from emend.evals.show.report.analysis import render_comparison, show_possible
from emend.evals.show.report.export import export, write_svg
from emend.evals.show.report.metric_notes import MARKS, MEANINGS, notes
from emend.evals.show.report.metrics import render
from emend.evals.show.report.traces.run_overview import show_overview
from emend.evals.show.trace.filters import StepFilter
from emend.evals.show.trace.overview import CaseRow, NodeRow, Overview
from emend.memory.errors import BadSettings
from tests.evals.judged_runs import judge_model, speak
from tests.evals.made import record, write_run
from tests.fakes import ScriptedChatModel
from tests.params import first_quick
from tests.paths import DATA

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
    ((_, table),) = secondary.cost_tables([row])
    assert "[0.22, 0.22]" in text_of(table)


def test_a_mark_is_explained_only_where_there_is_one() -> None:
    told = f"{MARKS[HIGHEST]} {MEANINGS[HIGHEST]}"
    assert told in notes(report_of(rag=100.0, ike=50.0), plain=True)
    assert told not in notes(report_of(rag=100.0, ike=100.0), plain=True)
    assert told not in notes(report_of(rag=100.0), plain=True)
    assert told not in notes(report_of(rag=100.0, ike=50.0), plain=False)


def test_notes_say_where_the_interval_is_wilsons() -> None:
    plain = report_of(rag=100.0)
    (row,) = plain.rows
    rows = (row.model_copy(update={"low": 66.0, "high": 100.0}),)
    first = notes(plain.model_copy(update={"rows": rows}))[0]
    assert "[95 % intervals: bootstrap over cases, Wilson's near 0 and 1]" in first


def test_no_interval_is_explained_where_no_figure_has_one(tmp_path: Path) -> None:
    one = report(write_run(tmp_path / "one", [record("1", values={"em": 1.0})], metrics=[EM]))
    assert one.rows and all(row.low is None for row in one.rows)
    assert notes(one)[0] == "1 case, 1 record; no 95 % intervals: too few cases, or all alike"
    assert "bootstrap" not in export([LabelledReport(one, {})], "markdown")


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


def overview_of(width: int, terminal: bool = False, cases: int = 1) -> str:
    case = CaseRow(
        case="c", number=4, setting="s", editor="rag", probes=2, steps=6, seconds=1.5, retries=0, errors=1, unscored=2,
        failed=0, finding=FAILURE,
    )  # fmt: skip
    node = NodeRow(
        editor="rag", node="respond", steps=6, median_ms=69.5, p95_ms=215.6, calls=6, input_tokens=9, output_tokens=3,
        retries=0, errors=1,
    )  # fmt: skip
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, color_system=None, soft_wrap=width > 200)
    show_overview(Overview(nodes=(node,), cases=(case,) * cases), Path("run"), StepFilter(errors=True), console)
    return file.getvalue()


def test_percentiles_of_times_are_no_intervals() -> None:
    assert "median ms" in overview_of(150) and "p95 ms" in overview_of(150) and "95 %" not in overview_of(150)
    assert "median ms" in overview_of(60) and "p95 ms" not in overview_of(60)


@pytest.mark.parametrize(("cases", "more"), [(40, ""), (41, "and 1 more: --json lists all")])
def test_at_most_forty_cases_are_listed_and_the_others_counted(cases: int, more: str) -> None:
    text = overview_of(150, terminal=True, cases=cases)
    assert ("more: --json" in text) == bool(more) and more in text and text.count("that is") <= 40


def test_a_failure_is_whole_in_a_pipe_and_short_in_a_terminal() -> None:
    assert f"case 4, rag: {FAILURE}\n" in overview_of(400)
    for width in (60, 150):
        assert "…" in overview_of(width, terminal=True) and "that is all" not in overview_of(width, terminal=True)


WHY = "the run has no reference texts"


@pytest.mark.parametrize(
    "show",
    [
        lambda console: show_list(papers(), console),
        lambda console: show_possible([("drop", "accuracy lost", ""), ("known", "", WHY)], "run", console),
    ],
)
def test_a_line_in_a_pipe_is_not_filled_up_with_blanks(show: Callable[[Console], None]) -> None:
    file = io.StringIO()
    show(Console(file=file, width=400, soft_wrap=True))
    lines = file.getvalue().splitlines()
    longest = max(len(line.rstrip()) for line in lines)
    assert longest < 400 and max(map(len, lines)) <= longest


@pytest.mark.parametrize("name", ["a.png", "a", "svg"])
def test_a_picture_is_refused_under_a_name_that_says_something_else(tmp_path: Path, name: str) -> None:
    empty = Report(
        benchmark="b", model="m", rows=(), metrics=(), records=0, cases=0, cut=0, failed=0, missing=0, reasons={}
    )
    with pytest.raises(BadSettings, match=rf"--svg .*{name}: the ending must be \.svg"):
        write_svg(lambda console: render(empty, console), tmp_path / name)
    assert not list(tmp_path.iterdir())


PANEL = Panel(judges=("openai:judge",))


def elken(folder: Path, blocks: str) -> Path:
    config = RunConfig(
        benchmark="elken",
        data=str(DATA / "elken"),
        benchmark_options={"blocks": blocks},
        editors=("rag",),
        model="openai:tested",
        embedding="lexical",
    )
    run(config, folder, model=ScriptedChatModel(reply=speak))
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with both readings of the tendency questions."""
    return elken(tmp_path_factory.mktemp("runs") / "whole", "fact,tendency_m,tendency_g")


def says(folder: Path) -> bool:
    return M_FOR_G in report(folder).choices


@pytest.mark.parametrize(
    ("blocks", "said"), first_quick([("fact,tendency_m", True), ("fact,tendency_g", False), ("fact", False)])
)
def test_what_stands_for_free_answers_is_told_where_that_column_is(tmp_path: Path, blocks: str, said: bool) -> None:
    folder = elken(tmp_path / "run", blocks)
    assert says(folder) == ("E (M for G)" in {row.metric for row in report(folder).rows}) == said


@pytest.mark.parametrize(("reply", "said"), [(None, False), (lambda prompt: "Perhaps.", True)])
def test_it_is_told_until_a_judge_has_read_the_free_answers(
    whole: Path, tmp_path: Path, reply: Callable[[str], str] | None, said: bool
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    assert says(folder)
    model = judge_model() if reply is None else ScriptedChatModel(reply=reply)
    score_run(folder, PANEL, ["tendency"], models={PANEL.judges[0]: model})
    assert {"E (M for G)", "E"} <= {row.metric for row in report(folder).rows}
    assert says(folder) == said
