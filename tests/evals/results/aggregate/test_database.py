"""A run's tables give what its files hold, and nothing else can be reached by them."""

import _thread
import json
import signal
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from emend.evals.case import Record
from emend.evals.log.lines import ERRORS, RECORDS
from emend.evals.log.records import read_records
from emend.evals.results.aggregate import database
from emend.evals.results.aggregate.database import TABLES, check_file, open_database
from emend.evals.results.aggregate.rows import report
from emend.memory.errors import BadData, BadSettings
from emend.memory.probe import Usage
from tests.evals.made import case_line, record, write_run

EDIT = {"id": "e", "form": "triplet", "text": "Rome is in Gaul.", "subject": "Rome", "target_new": "Gaul"}
LINES = [
    record("1", values={"em": 1.0}, usage=Usage(input_tokens=7), answer="Gaul", tags={"hops": 2}),
    record("1", editor="ike", values={"em": 0.0}, unscored={"judge": "no verdict"}),
    record("2", kind="paraphrase", values={"em": 0.0}),
    record("3", values={"em": 1.0}, excluded="right before the edit"),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of four records, with a case that has an edit."""
    return write_run(tmp_path / "a * run's [folder]", LINES, cases=[case_line("1", edits=[EDIT]), case_line("2")])


def rows_of(folder: Path, sql: str) -> list[Any]:
    """The rows of a query."""
    with open_database(folder) as tables:
        return tables.query(sql).rows


def test_the_tables_hold_what_the_files_hold(run: Path) -> None:
    assert rows_of(run, "SELECT case_id, editor, answer, usage_input_tokens, usage_calls FROM records LIMIT 2") == [
        ("1", "rag", "Gaul", 7, 0),
        ("1", "ike", None, 0, 0),
    ]
    assert rows_of(run, "SELECT tags->>'hops', gold FROM records WHERE editor = 'rag' LIMIT 1") == [("2", ["gold"])]
    assert rows_of(run, "SELECT case_id, subject, target_new, target_true FROM edits") == [("1", "Rome", "Gaul", None)]
    assert rows_of(run, "SELECT count(*) FROM cases") == [(2,)]
    assert rows_of(run, "SELECT count(*) FROM errors") == [(0,)]


def test_scores_have_a_value_or_a_reason_and_leave_out_what_no_figure_counts(run: Path) -> None:
    scores = rows_of(run, "SELECT case_id, editor, name, value, reason FROM scores ORDER BY ALL")
    assert scores == [
        ("1", "ike", "em", 0.0, None),
        ("1", "ike", "judge", None, "no verdict"),
        ("1", "rag", "em", 1.0, None),
        ("2", "rag", "em", 0.0, None),
    ]
    mean = rows_of(run, "SELECT 100 * avg(value) FROM scores WHERE name = 'em' AND editor = 'rag'")[0][0]
    assert mean == next(row.mean for row in report(run).rows if row.editor == "rag" and row.metric == "EM")


def test_every_field_of_a_record_is_a_column_with_its_value(run: Path) -> None:
    first = next(read_records(run))
    with open_database(run) as tables:
        result = tables.query("SELECT * FROM record_lines LIMIT 1")
    row = dict(zip(result.columns, result.rows[0], strict=True))
    for name, value in first.model_dump(mode="json").items():
        if name in ("usage", "edit_cost"):
            assert {part: row[f"{name}_{part}"] for part in value} == value
        elif name == "tags":
            assert json.loads(row[name]) == value
        else:
            assert row["case_id" if name == "case" else name] == value, name


def test_older_names_and_left_out_fields_are_read_as_records_are(run: Path) -> None:
    old = {"unit": "u", "of": 1, "case": "9", "probe": "p", "kind": "efficacy", "editor": "rag", "model": "m"}
    old |= {"setting": "doc", "mode": "all", "prompt": "?", "gold": [], "kept": True, "standing": 4}
    (run / RECORDS).write_text(json.dumps(old) + "\n", encoding="utf-8")
    row = rows_of(run, "SELECT from_baseline, active_edits, checkpoint, answer, log_probs FROM records")
    as_record = Record.model_validate(old)
    assert row == [(as_record.from_baseline, as_record.active_edits, as_record.checkpoint, as_record.answer, [])]


def test_a_torn_or_incomplete_unit_is_left_out_as_in_the_report(run: Path) -> None:
    incomplete = record("4", unit="u", of=2).model_dump_json() + "\n"
    with (run / RECORDS).open("a", encoding="utf-8") as file:
        file.write(incomplete + '{"unit": "torn')
    assert rows_of(run, "SELECT count(*), count(DISTINCT unit) FROM records") == [(4, 4)]
    assert len(list(read_records(run))) == 4


def test_a_damaged_line_is_named_with_its_file(run: Path) -> None:
    content = (run / RECORDS).read_text(encoding="utf-8").replace('"seconds":0.0', '"seconds":"long"', 1)
    (run / RECORDS).write_text(content, encoding="utf-8")
    with pytest.raises(BadData, match=RECORDS):
        rows_of(run, "SELECT 1")
    (run / RECORDS).unlink()
    with pytest.raises(BadData, match="emend resume"):
        rows_of(run, "SELECT 1")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hosts')",
        "COPY records TO '{out}'",
        "ATTACH '{out}' AS other",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM 'https://127.0.0.1:9/x.parquet'",
    ],
)
def test_a_query_reaches_no_file_and_no_server(run: Path, tmp_path: Path, sql: str) -> None:
    out = tmp_path / "out.csv"
    with pytest.raises(BadSettings, match="query"):
        rows_of(run, sql.format(out=out))
    assert not out.exists()


@pytest.mark.parametrize("sql", ["", "SELEC 1", "SELECT nothing FROM records", "SELECT 1; DROP TABLE x"])
def test_a_wrong_query_is_refused_with_the_tables(run: Path, sql: str) -> None:
    with pytest.raises(BadSettings, match=", ".join(TABLES)):
        rows_of(run, sql)


def test_the_rows_of_a_query_are_written_to_the_file_that_was_named_and_to_no_other(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "it's.parquet"
    with open_database(run, out) as tables:
        tables.write("SELECT case_id, editor FROM records", out)
        with pytest.raises(BadSettings):
            tables.write("SELECT 1", tmp_path / "other.parquet")
    import duckdb

    with duckdb.connect() as connection:
        assert connection.read_parquet(str(out)).fetchall()[1] == ("1", "ike")
    for wrong in ("out.xlsx", "nowhere/out.csv"):
        with pytest.raises(BadSettings, match="give"):
            check_file(tmp_path / wrong)


def test_errors_are_a_table_and_a_torn_one_is_left_out(run: Path) -> None:
    line = {"unit": "u", "case": "7", "editor": "rag", "setting": "doc", "error": "Timeout", "message": "late"}
    (run / ERRORS).write_text(json.dumps(line) + '\n{"unit": ', encoding="utf-8")
    assert rows_of(run, "SELECT case_id, error, message, probe FROM errors") == [("7", "Timeout", "late", None)]


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".json"])
def test_a_file_that_is_there_is_replaced_when_all_is_written(run: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"rows{ending}"
    for _ in range(2):
        with open_database(run, out) as tables:
            tables.write("SELECT case_id FROM records", out)
    before = out.read_bytes()
    with open_database(run, out) as tables, pytest.raises(BadSettings, match="query failed"):
        tables.write("SELECT error('late') FROM records", out)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith((".rows", "tmp"))] == []


def test_a_file_that_two_queries_write_at_once_is_one_of_their_results(run: Path, tmp_path: Path, monkeypatch) -> None:
    out, write_rows, meanwhile = tmp_path / "rows.csv", database._write_rows, ["SELECT 2 AS second"]

    def write_between(names: list[str], cursor: Any, path: Path) -> None:
        write_rows(names, cursor, path)
        if meanwhile:
            other.write(meanwhile.pop(), out)
            assert out.read_text() == "second\n2\n"

    monkeypatch.setattr(database, "_write_rows", write_between)
    with open_database(run, out) as tables, open_database(run, out) as other:
        tables.write("SELECT 1 AS first", out)
    assert out.read_text() == "first\n1\n"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".rows")] == []


def test_no_cell_of_a_written_table_is_a_formula_and_no_number_of_json_is_none(run: Path, tmp_path: Path) -> None:
    texts = "'=HYPERLINK(1)' AS a, chr(27) || '[31m' AS \"=b\""
    odd = f"SELECT {texts}, 'nan'::DOUBLE AS c, 1/0 AS d, 2.5::DOUBLE AS e, [1, 2] AS f"
    for ending, expected in (
        (".csv", "a,'=b,c,d,e,f\n'=HYPERLINK(1),\\x1b[31m,,,2.5,\"[1, 2]\"\n"),
        (".json", '{"a": "=HYPERLINK(1)", "=b": "\\u001b[31m", "c": null, "d": null, "e": 2.5, "f": [1, 2]}\n'),
    ):
        out = tmp_path / f"odd{ending}"
        with open_database(run, out) as tables:
            tables.write(odd, out)
        assert out.read_text("utf-8") == expected


def test_a_query_that_is_interrupted_ends_as_any_command_does(run: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    timer = Timer(0.05, _thread.interrupt_main)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
    with pytest.raises(KeyboardInterrupt), open_database(run) as tables:
        timer.start()
        tables.query(endless)
    timer.join()
    signal.signal(signal.SIGINT, before)
