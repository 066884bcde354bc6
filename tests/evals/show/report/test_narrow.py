"""Where a table is too wide for the terminal its rows stand under each other, and nothing of it is lost."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from emend.evals.judging.calibration.agreement import Calibration
from emend.evals.judging.calibration.stress import Relation, StressReport, StressRow
from emend.evals.measure.retrieval import RetrievalReport, RetrievalRow, ThresholdRow
from emend.evals.metrics.agreement import Coefficient
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.costs import PER_PROBE
from emend.evals.results.analyses.compare import compare
from emend.evals.show.report import secondary
from emend.evals.show.report.analysis import render_comparison
from emend.evals.show.report.judges import render_calibration, show_stress
from emend.evals.show.report.layout import Frame, decimal, frame
from emend.evals.show.report.lists import show_edit, show_facts, show_hits
from emend.evals.show.report.measurements import render_retrieval
from emend.memory.edit import Edit
from emend.memory.retrieval.base import Entry, Hit
from emend.memory.store.history import FactHistory, Version
from tests.evals.made import record, write_run

WIDTHS = pytest.mark.parametrize("width", [40, 60, 80, 150])
SHARE = Estimate(mean=0.8125, n=16, low=0.6342, high=0.9375)


def console_of(width: int) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=width), file


def lines_of(shown: RenderableType, width: int) -> list[str]:
    console, file = console_of(width)
    console.print(shown)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def assert_whole(text: str, width: int, *parts: str) -> None:
    """No line is too wide, and each part stands in one."""
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert not [part for part in parts if not any(part in line for line in lines)]


# --- the one helper


def test_the_first_column_gives_way_between_its_words_and_then_the_rows_are_listed() -> None:
    table = frame("metric", "mean", "unscored")
    table.add_row(Text("answers that were remembered"), Text("50.0\n[20, 80]"), Text("2"))
    assert len(lines_of(table, 80)) == 6  # blank, heads, rule, mean and interval, blank
    folded = lines_of(table, 42)
    assert folded[1].split() == ["metric", "mean", "unscored"] and "answers that" in folded[3]
    assert lines_of(table, 30) == [
        "metric answers that were",
        "remembered",
        "  mean      50.0  [20, 80]",
        "  unscored  2",
    ]


@pytest.mark.parametrize("width", range(30, 70))
def test_no_word_of_the_first_column_is_ever_broken(width: int) -> None:
    table = frame("editor", "n", "s/probe")
    table.add_row("structured_in_context edits", "32", "0.22\n[0.21, 0.23]")
    lines = lines_of(table, width)
    assert any("structured_in_context" in line for line in lines)
    assert any("[0.21, 0.23]" in line for line in lines)


def test_a_listed_row_has_all_its_names_and_no_empty_cell() -> None:
    table = frame("editor", "node", "median\nms", "unscored", names=2)
    table.add_row("rag", "retrieve", "1.2", "3")
    table.add_row("", "compose", "0.3", "")
    assert lines_of(table, 24) == [
        "editor rag  node",
        "retrieve",
        "  median ms  1.2",
        "  unscored   3",
        "editor rag  node compose",
        "  median ms  0.3",
    ]


@pytest.mark.parametrize("cell", ["x", Text("x\ny"), "[b]x[/b]", Text("x", "bold"), Text("x").append("y", "red"),
                                  Text("x", justify="left"), Text("x")])  # fmt: skip
def test_a_table_that_fits_looks_as_rich_draws_it_row_by_row(cell: Text | str) -> None:
    table = frame("run", "editors", "n", names=2)
    table.add_row(Text(""), Text("long"), cell)
    for row in (("run-1", "rag, mello", "3"), ("", "", ""), ("run-10 twice", "二三", "12"), ("a\tb ", "x" * 14, "")):
        table.add_row(*map(Text, row))
    assert_drawn_row_by_row(table)


def test_a_table_without_rows_looks_as_rich_draws_it() -> None:
    assert_drawn_row_by_row(frame("run", "n"))


def assert_drawn_row_by_row(table: Frame) -> None:
    plain = Table(box=table.box, pad_edge=False, header_style="")
    plain.columns, plain.rows = table.columns, table.rows
    shown = []
    for drawn in (table, plain):
        file = io.StringIO()
        Console(file=file, width=50, force_terminal=True).print(drawn)
        shown.append(file.getvalue())
    assert shown[0] == shown[1]


# --- the tables that go through it


@WIDTHS
def test_a_stress_test_keeps_its_texts_and_relations(width: int) -> None:
    kinds = ("tendency", "agreement", "recall", "coherence", "equivalence", "supports")
    told = {"variant": "claimed", "about": "unedited, with a verdict of its own inside", "output": "overall_mark"}
    rows = tuple(StressRow(kind=kind, value=0.75, **told) for kind in kinds)
    relations = tuple(Relation(kind=k, left="gold", op="about", right="language", outcome="broken") for k in kinds)
    console, file = console_of(width)
    show_stress(StressReport(judge="tiny", rows=rows, relations=relations), console)
    assert_whole(file.getvalue(), width, "claimed", "verdict", "gold is", "language", "overall mark", "0.75", *kinds)
    assert file.getvalue().count("broken") == len(kinds) + 1  # and in the note that counts them


@WIDTHS
def test_a_comparison_keeps_its_metrics(tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = {"rag": [1, 0, 0, 0, 1], "ike": [1, 1, 1, 1, 1]}
    records = [record(str(n), e, values={"em": float(v)}) for e, all_ in values.items() for n, v in enumerate(all_)]
    run = write_run(Path("run"), records)
    console, file = console_of(width)
    console.print(render_comparison(compare(run, editor_a="rag", editor_b="ike")))
    assert_whole(file.getvalue(), width, "EM", "40.0", "100.0", "+60.0", "difference", "A = run (rag)", "B = run (ike)")


@WIDTHS
def test_a_calibration_keeps_its_measures_and_why_there_is_none(width: int) -> None:
    found = Calibration(
        n=16, unscored=0, cases=16, labels=(0.0, 1.0), confusion=((7, 1), (2, 6)), raw=SHARE, base_rate=SHARE,
        kappa=Coefficient(why="undefined: people gave one label only, 1"), kind="coherence", judge="openai:judge",
        scale="yes or no", prompt_id="p", labelled=16, missing=0, reasons={}, repeats=1, items="i", measured="m",
    )  # fmt: skip
    text = "\n".join(lines_of(render_calibration(found), width))
    assert_whole(
        text, width, "equal labels", "Cohen's", "kappa", "always the most", "0.81", "[0.63, 0.94]", "undefined:"
    )


@WIDTHS
def test_a_retrieval_keeps_its_kinds_strategies_and_thresholds(width: int) -> None:
    rows = tuple(
        RetrievalRow(strategy=name, kind="out_of_scope", n=204, hit_at_1=0.95, hit_at_5=1.0, mrr=0.977, low=0.92,
                     high=0.98, ms=0.57) for name in ("default", "time(dense)")
    )  # fmt: skip
    threshold = ThresholdRow(
        strategy="default", by="score", least=5.10433, right=9, kind="neighborhood", n=306, false_hits=0.379,
        low=0.327, high=0.435,
    )  # fmt: skip
    console, file = console_of(width)
    report = RetrievalReport(
        benchmark="b", setting="s", embedding="e", edits=2, entries=2, skipped=0, rows=rows, thresholds=(threshold,)
    )
    console.print(render_retrieval(report, console))
    parts = ("out_of_scope", "default", "time(dense)", "[92.0, 98.0]", "0.977", "neighborhood", "5.10433", "37.9")
    assert_whole(file.getvalue(), width, *parts)


LONG = "A flood closed the harbour of Port Lunden for three weeks, and the ferries took another way around Marn."


@WIDTHS
def test_a_search_keeps_scores_ids_times_and_texts(width: int) -> None:
    entries = [
        Entry(id="1", edit_id="0905cedfc8879280", text=LONG, time="2025-06-01"),
        Entry(id="2", edit_id="182e62e05be68112", text="z" * 60),
    ]
    console, file = console_of(width)
    show_hits([Hit(entry=one, score=score) for one, score in zip(entries, (5.0531, 0.0457), strict=True)], console)
    text = file.getvalue()
    assert_whole(text, width, "score", "5.053", "0.0457", "0905cedfc8879280", "182e62e05be68112", "2025-06-01")
    assert text.count("z") == 60  # a word wider than the terminal is folded, not cut
    assert_whole(text, width, *LONG.split(), "A flood closed")


@WIDTHS
def test_the_versions_of_a_fact_keep_their_values_and_edits(width: int) -> None:
    told = (("Mira Tolvane", "2024-03"), ("Tobin Hale", "2025-06-01"))
    edits = [Edit(form="document", text=text, time=time) for text, time in told]
    versions = tuple(Version(edit=edit, objects=(edit.text,), current=not place) for place, edit in enumerate(edits))
    fact = FactHistory(subject="Veldania", relation="prime minister", versions=versions)
    console, file = console_of(width)
    show_facts([fact], console)
    assert_whole(
        file.getvalue(), width, "superseded", "current", "Mira Tolvane", "Tobin Hale", "2025-06-01", "document"
    )
    assert_whole(file.getvalue(), width, *(edit.id for edit in edits))


@pytest.mark.parametrize(("time", "shown"), [("2024-03", "  2024-03  "), (None, "  no time  ")])
def test_an_edit_is_shown_with_its_time_and_its_form(time: str | None, shown: str) -> None:
    console, file = console_of(80)
    edit = Edit(form="document", text="Mira Tolvane rules.", time=time)
    show_edit(edit, {Entry(id="1", edit_id=edit.id, text=edit.text): True}, console)
    assert file.getvalue() == f"{edit.id}  document{shown}current\nMira Tolvane rules.\n"


@WIDTHS
def test_costs_keep_their_editors(width: int) -> None:
    names = [metric.name for metric in PER_PROBE]
    cost: dict[str, Any] = {"setting": "s", "mode": "all", "n": 32, "unscored": 0}
    cost |= {"mean": 11.5, "low": 10.5, "high": 12.5}
    rows = [MetricRow(editor=e, metric=name, **cost) for e in ("structured_in_context", "rag") for name in names]
    ((_, table),) = secondary.cost_tables(rows)
    assert_whole(
        "\n".join(lines_of(table, width)), width, "structured_in_context", "rag", *names, "11.5", "[10.5, 12.5]"
    )


def test_a_number_is_rounded_and_has_no_minus_before_zero() -> None:
    assert [decimal(value, 1) for value in (-0.04, -0.06, None)] == ["0.0", "-0.1", "-"]
