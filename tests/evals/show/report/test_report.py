"""The report's numbers are those of the records, and its layouts show them all."""

import io
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from emend.evals.case import Metric, Record
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.results.aggregate.record_table import gather
from emend.evals.results.aggregate.rows import Report, report, rows_of
from emend.evals.results.aggregate.tables import TableChoice
from emend.evals.show.report.export import write_svg
from emend.evals.show.report.metric_notes import notes
from emend.evals.show.report.metrics import interval, render
from emend.evals.show.report.progress import Bar, Lines, duration, heartbeat
from emend.evals.show.report.secondary import cost_text
from tests.evals.toys import BENCHMARK, EDITOR, ScriptedModel, SpeakingModel

WHOLE = TableChoice(everything=True)
ES = Metric(name="ES", value="success", kinds=("efficacy",), scale=100, summary="new beats old")
NEM = Metric(name="NEM", value="magnitude", kinds=("efficacy", "paraphrase"), scale=100)
LOSS = Metric(name="loss", value="loss", kinds=("efficacy",), higher_is_better=False, group="other")
BY_CASE = Metric(name="by case", value="success", kinds=("efficacy",), per="case")


def record(editor: str, case: int, kind: str = "efficacy", reason: str = "", **values: float) -> Record:
    return Record(
        unit=f"{editor}{case}", of=1, case=str(case), probe="p", kind=kind, editor=editor, model="m", setting="s",
        mode="all", prompt="?", gold=("g",), values=values, unscored={"success": reason} if reason else {},
    )  # fmt: skip


def made(records: list[Record], *metrics: Metric, editors: tuple[str, ...] = ("a", "b")) -> Report:
    gathered = gather(records)
    return Report(
        benchmark="toy", model="m", rows=tuple(rows_of(gathered, metrics, editors)), metrics=metrics,
        records=gathered.records, cases=len(gathered.cases), cut=0, failed=0, missing=0,
        reasons=dict(gathered.reasons),
    )  # fmt: skip


def text_of(found: Report, width: int, choice: TableChoice = WHOLE, **more: Any) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, **more)
    console.print(render(found, console, choice))
    return file.getvalue()


def test_a_row_is_the_mean_over_the_metrics_kinds_in_its_scale() -> None:
    records = [
        record("a", 1, magnitude=0.5),
        record("a", 2, "paraphrase", magnitude=-0.25),
        record("a", 3, "neighborhood", magnitude=9.0),
    ]
    (row,) = rows_of(gather(records), [NEM], ["a"])
    assert (row.editor, row.setting, row.mode, row.metric) == ("a", "s", "all", "NEM")
    assert (row.mean, row.n, row.unscored) == (12.5, 2, 0)
    assert row.low is not None and row.high is not None and row.low <= 12.5 <= row.high


def test_unscored_is_counted_and_never_zero() -> None:
    records = [record("a", n, success=1.0) for n in range(4)] + [record("a", 9, reason="no reply")]
    (row,) = rows_of(gather(records), [ES], ["a"])
    assert (row.mean, row.n, row.unscored) == (100.0, 4, 1)
    (empty,) = rows_of(gather(records[-1:]), [ES], ["a"])
    assert (empty.mean, empty.n, empty.unscored, empty.low) == (None, 0, 1, None)


def test_rows_weigh_cases_leave_out_what_was_not_measured_and_follow_the_order_of_the_run() -> None:
    records = [record("a", 1, success=1.0), record("a", 1, success=1.0), record("a", 2, success=0.0)]
    assert rows_of(gather(records), [BY_CASE], ["a"])[0].mean == 0.5
    assert rows_of(gather(records), [ES], ["a"])[0].mean == pytest.approx(200 / 3)
    assert [row.metric for row in rows_of(gather([record("a", 1, success=1.0)]), [ES, NEM, LOSS], ["a"])] == ["ES"]
    records = [record("b", 1, success=1.0), record("a", 1, success=1.0)]
    assert [row.editor for row in rows_of(gather(records), [ES], ["b", "a"])] == ["b", "a"]
    assert [row.editor for row in rows_of(gather(records), [ES], ["a", "b"])] == ["a", "b"]


def two_editors() -> list[Record]:
    good = [record("a", n, success=1.0, loss=0.5, magnitude=0.25) for n in range(10)]
    return good + [record("b", n, success=float(n < 5), loss=0.1, magnitude=0.125) for n in range(10)]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_every_width_shows_every_number(width: int) -> None:
    text = text_of(made(two_editors(), ES, NEM, LOSS), width)
    for number in ("100.0", "50.0", "25.0", "12.5", "0.500", "0.100", "n=10", "[24, 76]"):
        assert number in text, number
    assert max(map(len, text.splitlines())) <= width


def test_the_best_value_is_marked_in_the_metrics_direction() -> None:
    text = text_of(made(two_editors(), ES, LOSS), 120)
    assert "100.0^" in text and "0.100*" in text
    assert "50.0^" not in text and "0.500^" not in text
    assert "100.0^" not in text_of(made([record(editor, 1, success=1.0) for editor in "ab"], ES), 120)  # equal ones
    coloured = text_of(made(two_editors(), ES), 120, force_terminal=True, color_system="standard")
    assert "\x1b[32m100.0" in coloured and "^" not in coloured


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = text_of(made(two_editors(), ES), 120, force_terminal=True)
    assert "\x1b[1;32m" not in text and "100.0" in text


def test_intervals_are_as_fine_as_they_must_be_and_durations_as_people_say_them() -> None:
    assert interval(20.0, 80.0, ES) == "[20, 80]"
    assert interval(97.42, 97.61, ES) == "[97.4, 97.6]"
    assert interval(0.1, 0.2, LOSS) == "[0.100, 0.200]"
    assert [duration(s) for s in (5, 65, 3700)] == ["5 s", "1 min 05 s", "1 h 01 min"]


def test_notes_tell_what_is_missing() -> None:
    found = made(two_editors() + [record("a", 11, reason="no \x1breply")], ES)
    told = "\n".join(notes(found.model_copy(update={"cut": 3, "failed": 2, "missing": 1})))
    reason = "unscored in 1 record: no \\x1breply"
    for part in ("3 prompts exceeded", "2 units failed", "unfinished units: 1;", reason):
        assert part in told
    assert "no record is scored yet" in "\n".join(notes(made([], ES)))


def test_a_run_is_reported_from_its_folder(tmp_path: Path) -> None:
    config = RunConfig(benchmark=BENCHMARK, editors=("unedited", EDITOR), model="m", mode="all")
    run(config, tmp_path / "run", model=ScriptedModel())
    found = report(tmp_path / "run")
    means = {(row.editor, row.metric): row.mean for row in found.rows}
    assert means[EDITOR, "EM"] == means[EDITOR, "ES"] == means[EDITOR, "hit@1"] == 100.0
    assert means["unedited", "EM"] == 0.0 and ("unedited", "hit@1") not in means
    assert (found.cases, found.records, found.failed, found.missing) == (6, 24, 0, 0)


def test_an_unfinished_run_says_so_and_a_failed_unit_too(tmp_path: Path) -> None:
    config = RunConfig(benchmark=BENCHMARK, editors=(EDITOR,), model="m", fail_on_error="false")
    run(config, tmp_path / "run", model=ScriptedModel(fail_on="Land3"))
    assert (report(tmp_path / "run").failed, report(tmp_path / "run").missing) == (1, 0)
    lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "records.jsonl").write_text("".join(lines[:-1]))
    assert (report(tmp_path / "run").failed, report(tmp_path / "run").missing) == (1, 1)


@pytest.mark.slow
def test_a_model_without_probabilities_has_unscored_counts_and_the_picture_asks_no_server(tmp_path: Path) -> None:
    config = RunConfig(benchmark=BENCHMARK, editors=("in_context", "unedited"), model="m")
    run(config, tmp_path / "run", model=SpeakingModel())
    text = text_of(report(tmp_path / "run"), 120)
    assert "6 unscored" in text and "unscored in 12 records" in text


def test_the_picture_is_svg_that_asks_no_server(tmp_path: Path) -> None:
    found = made(two_editors(), ES, NEM)
    write_svg(lambda console: render(found, console), tmp_path / "table.svg")
    drawn = (tmp_path / "table.svg").read_text()
    assert drawn.startswith("<svg") and "100.0" in drawn
    assert "@font-face" not in drawn and "url(&quot;" not in drawn and "cdnjs" not in drawn


def test_plain_progress_is_one_line_now_and_then() -> None:
    file = io.StringIO()
    lines = Lines(file, every=0.0)
    lines.start(10, skipped=4)
    lines.unit("rag", unscored=2, tokens=1500)
    lines.unit("rag", failed=True)
    lines.close()
    last = file.getvalue().splitlines()[-1]
    assert last.startswith("rag: 6/10 units, 4 from before, 1 failed, 2 unscored, 1,500 tokens")
    silent = io.StringIO()
    quiet = Lines(silent, every=3600.0)
    quiet.start(10, skipped=0)
    quiet.unit("rag")
    assert silent.getvalue() == ""


def test_what_is_left_is_said_once_the_pace_tells_something_on_any_kind_of_output() -> None:
    lines = Lines(io.StringIO(), every=3600.0)
    lines.start(40, skipped=0)
    assert "left" not in lines.line()
    lines.unit("rome")
    assert lines.seconds_left is not None and "left" in lines.line()
    bar = Bar(io.StringIO())
    bar.start(2, skipped=1)
    bar.unit("[rag]", tokens=5)
    bar.close()
    assert (bar.processed, bar.tokens) == (2, 5)


def test_work_without_units_says_that_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    said = threading.Event()

    def told() -> str:
        said.set()
        return "rome: 7 tokens"

    with heartbeat(told, every=0.01):
        assert said.wait(60)
    assert set(capsys.readouterr().err.splitlines()) == {"rome: 7 tokens"}


def test_indented_text_of_a_picture_is_as_long_as_its_letters(tmp_path: Path) -> None:
    place = re.compile(r'x="([\d.]+)" y="[\d.]+" textLength="([\d.]+)"[^>]*>Veldania')
    for text, found in (("Veldania", ("0", "97.6")), ("    Veldania", ("48.8", "97.6"))):
        indented = Text(text)
        write_svg(lambda console, indented=indented: indented, tmp_path / "a.svg")  # type: ignore[misc]
        assert place.findall((tmp_path / "a.svg").read_text("utf-8")) == [found]


@pytest.mark.parametrize(
    ("value", "text"), [(-100, "-100"), (-1234.5, "-1,234"), (-1, "-1"), (0, "0"), (0.03, "0.03"), (12.345, "12.3")]
)
def test_costs_and_ends_of_axes_have_the_digits_that_they_are_worth(value: float, text: str) -> None:
    assert cost_text(value) == text
