"""Tables of one run or several: labels, columns, order; as text for other programs; and the list of runs."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emend.evals.case import Metric
from emend.evals.results.aggregate import runs
from emend.evals.results.aggregate.runs import list_runs
from emend.evals.results.aggregate.tables import TableChoice, load_reports, metric_tables
from emend.evals.show.report.export import FORMATS, export
from emend.evals.show.report.metrics import render_reports
from emend.memory.errors import BadSettings, MissingData
from tests.evals.made import EM, record, write_run
from tests.evals.toy_runs import go
from tests.evals.toys import ScriptedModel

LOSS = Metric(name="loss_2 & more", value="loss", kinds=(), group="other", higher_is_better=False)


def write(folder: Path, right: int = 3, **config: Any) -> Path:
    """Run of rag (so many of four right) and ike (all right), with a second group of metrics."""
    records = [
        record(f"c{case}", editor=editor, values={"em": float(editor == "ike" or case < right), "loss": case / 10})
        for editor in ("rag", "ike")
        for case in range(4)
    ]
    return write_run(folder, records, metrics=(EM, LOSS), **config)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [write(tmp_path / "a", retriever="bm25"), write(tmp_path / "b", right=1, retriever="dense", model="hf:x")]


def test_several_runs_share_a_table_and_are_told_apart_by_what_differs(folders: list[Path]) -> None:
    (table,) = metric_tables(load_reports(folders))
    assert table.title == "docter, doc, mode all" and [metric.name for metric in table.metrics] == ["EM"]
    assert table.headings == ("run", "model", "retriever", "editor")
    means = {row.names: row.values["EM"].mean for row in table.rows}
    assert means["a", "m", "bm25", "rag"] == 75.0 and means["b", "hf:x", "dense", "rag"] == 25.0 and len(means) == 4


def test_runs_in_different_modes_share_a_table_that_names_the_mode(tmp_path: Path) -> None:
    folders = [write(tmp_path / "a"), write(tmp_path / "b")]
    manifest = folders[1] / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"mode":""', '"mode":"single"'))
    (table,) = metric_tables(load_reports(folders))
    assert table.headings == ("run", "mode", "editor") and "mode single" not in table.title


def test_columns_order_and_everything_are_chosen(folders: list[Path]) -> None:
    reports = load_reports(folders)
    (table,) = metric_tables(reports, TableChoice(columns=(LOSS.name, "EM"), sort="EM"))
    assert [metric.name for metric in table.metrics] == [LOSS.name, "EM"]
    assert [row.values["EM"].mean for row in table.rows] == [100.0, 100.0, 75.0, 25.0]
    assert [table.metrics[0].group for table in metric_tables(reports, TableChoice(everything=True))] == ["", "other"]
    with pytest.raises(BadSettings, match="did you mean 'EM'"):
        metric_tables(reports, TableChoice(sort="EMM"))
    with pytest.raises(BadSettings, match="given twice"):
        load_reports([folders[0], folders[0]])


@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_width_shows_every_row(folders: list[Path], width: int) -> None:
    file = io.StringIO()
    console = Console(file=file, width=width)
    console.print(render_reports(load_reports(folders), console))
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert all(part in text for part in ("100.0^", "75.0", "25.0", "hf:x", "a: 4 cases", "b: 4 cases", "n=4"))


def test_csv_has_a_line_for_each_number_and_no_formula(folders: list[Path]) -> None:
    manifest = folders[0] / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"docter"', '"=docter()"'))
    rows = list(csv.DictReader(io.StringIO(export(load_reports(folders[:1]), "csv", TableChoice(everything=True)))))
    assert [(row["editor"], row["metric"]) for row in rows[:2]] == [("rag", "EM"), ("ike", "EM")] and len(rows) == 4
    assert (rows[0]["mean"], rows[0]["n"], rows[0]["unscored"]) == ("75.0", "4", "0")
    assert float(rows[0]["low"]) < 75 < float(rows[0]["high"]) and rows[0]["benchmark"] == "'=docter()"


@pytest.mark.parametrize("form", FORMATS)
def test_texts_of_a_run_are_escaped_in_every_form(tmp_path: Path, form: str) -> None:
    folder = write(tmp_path / "run", benchmark="<b>|$x^2_1\\%", model="m\nn")
    text = export(load_reports([folder]), form, TableChoice(columns=(LOSS.name, "EM")))
    if form == "latex":
        assert r"\$x\textasciicircum{}2\_1\textbackslash{}\%" in text and r"loss\_2 \& more (n=4)" in text
        assert text.count(r"\\") == 3 and "tabular}{lrr}" in text
    elif form == "html":
        assert "&lt;b&gt;" in text and "<b>" not in text and text.count("<tr>") == 3
    elif form == "markdown":
        assert r"\<b\>\|" in text and text.splitlines()[3] == "| --- | ---: | ---: |"
    assert "75.0" in text and "m\nn" not in text


def test_an_unknown_form_is_named(folders: list[Path]) -> None:
    with pytest.raises(BadSettings, match="did you mean 'latex'"):
        export(load_reports(folders), "latx")


@pytest.mark.slow
def test_latex_and_html_are_read_by_other_programs(folders: list[Path]) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("lxml")
    (frame,) = pandas.read_html(io.StringIO(export(load_reports(folders), "html")))
    assert list(frame["editor"]) == ["rag", "ike", "rag", "ike"] and "EM (n=4)" in frame


def test_runs_of_a_folder_are_listed_by_their_start(folders: list[Path], tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    os.symlink(folders[0], tmp_path / "link")
    lines = (folders[1] / "records.jsonl").read_bytes().splitlines(keepends=True)
    (folders[1] / "records.jsonl").write_bytes(b"".join(lines[:5]) + b"damaged\n" + lines[5][:20])
    rows = list_runs(tmp_path)
    assert [(Path(row.folder).name, row.model, row.finished) for row in rows] == [("a", "m", 8), ("b", "hf:x", 5)]
    assert [row.folder for row in list_runs(folders[0])] == [str(folders[0])]
    with pytest.raises(MissingData, match="contains no run"):
        list_runs(tmp_path / "notes")


def test_a_run_that_ended_is_not_counted_and_one_that_was_changed_since_is(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    go(ended, ScriptedModel(fail_on="Land3"), fail_on_error="false")
    go(tmp_path / "going on", fail_on_error="false")

    def numbers() -> list[tuple[int, int]]:
        return [(row.finished, row.failed) for row in list_runs(tmp_path)]

    with pytest.MonkeyPatch.context() as unread:
        unread.setattr(runs, "_finished", None)
        assert numbers() == [(5, 1), (6, 0)]
    for changed in (ended / "costs.jsonl", tmp_path / "going on" / "records.jsonl"):
        lines = changed.read_bytes().splitlines(keepends=True)
        changed.write_bytes(b"".join(lines[:-1]) + lines[-1][:9])
    assert numbers() == [(5, 1), (5, 0)]
    (ended / "costs.jsonl").write_bytes(b'{"act": "run", "record_bytes": "many"}\n')
    assert numbers() == [(5, 1), (5, 0)]


def test_failures_of_an_earlier_process_are_counted_where_the_last_one_did_not_try_them_again(tmp_path: Path) -> None:
    go(tmp_path / "run", ScriptedModel(fail_on="Land3"), fail_on_error="false")
    costs = tmp_path / "run" / "costs.jsonl"
    *before, last = costs.read_text(encoding="utf-8").splitlines()
    interrupted = json.dumps(json.loads(last) | {"skipped": 5, "finished": 0, "failed": 0})
    costs.write_text("\n".join([*before, interrupted, ""]), encoding="utf-8")
    assert [(row.finished, row.failed) for row in list_runs(tmp_path)] == [(5, 1)]
