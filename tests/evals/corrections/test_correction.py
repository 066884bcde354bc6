"""A person's scores stand beside a run's own, are counted in its report and change nothing of it."""

import csv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from emend.evals.case import Metric
from emend.evals.corrections.correction import CORRECTIONS, ScoreCorrection, add_corrections, read_corrections
from emend.evals.log.lines import RECORDS
from emend.evals.results.aggregate.rows import report
from emend.evals.show.trace.case_trace import trace
from emend.evals.show.trace.correction_table import read_table
from emend.memory.errors import BadData, BadSettings
from tests.evals.command_line import emend
from tests.evals.made import case_line, record, write_run

METRIC = Metric(name="efficacy", value="contains", kinds=("efficacy",), scale=100.0, protocol="contains")
SCORES: dict[str, list[float | None]] = {"rag": [1.0, 0.0, None], "ike": [0.0, 0.0, 1.0]}
ONE = ("--editor", "rag", "--kind", "efficacy")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    records = [
        record(
            f"c{place}", editor=editor, answer=f"=answer {place}",
            values={} if score is None else {"contains": score, "length": 3.0},
            unscored={"contains": "no reply"} if score is None else {},
        )
        for editor, scores in SCORES.items()
        for place, score in enumerate(scores)
    ]  # fmt: skip
    cases = [case_line(f"c{place}", number=place + 1) for place in range(3)]
    return write_run(tmp_path / "run", records, cases=cases, metrics=[METRIC])


def means(folder: Path) -> list[tuple[str, float | None, float | None, int]]:
    """Editor, mean as scored, mean with corrections, and how many there are."""
    return [(row.editor, row.scored.mean, row.corrected.mean, row.corrections) for row in report(folder).corrected]


def test_a_correction_is_counted_beside_the_score_and_changes_no_line_of_the_run(folder: Path, capsys: Any) -> None:
    records, rows = (folder / RECORDS).read_bytes(), report(folder).rows
    assert not emend("judge", "correct", str(folder), "2", *ONE, "--to", "right", "--note", "a river", "--by", "Ada")
    assert means(folder) == [("rag", 50.0, 100.0, 1)]
    assert (folder / RECORDS).read_bytes() == records
    assert report(folder).rows == rows
    assert not emend("report", str(folder))
    assert "with manual corrections" in capsys.readouterr().out


def test_commands_that_correct_one_run_at_once_lose_nothing(tmp_path: Path) -> None:
    one = ScoreCorrection(
        unit="u", probe="p", case="c", setting="s", editor="rag", kind="efficacy", score="contains", was=0, value=1
    )

    def lines(writer: int) -> list[ScoreCorrection]:
        long = one.model_copy(update={"unit": f"u{writer}", "note": "n" * 200})
        return [long.model_copy(update={"probe": f"p{number}"}) for number in range(400)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda writer: add_corrections(tmp_path, lines(writer)), range(80)))
    assert len(read_corrections(tmp_path)) == 80 * 400


def test_an_unscored_answer_gets_a_score(folder: Path) -> None:
    assert not emend("judge", "correct", str(folder), "3", *ONE, "--to", "0.5")
    (row,) = report(folder).corrected
    assert (row.scored.n, row.scored.unscored) == (2, 1)
    assert (row.corrected.n, row.corrected.unscored) == (3, 0)
    assert row.corrected.mean == pytest.approx(50)


def test_the_last_correction_holds_and_can_be_taken_back(folder: Path) -> None:
    for to in ("right", "0.25"):
        assert not emend("judge", "correct", str(folder), "2", *ONE, "--to", to)
    assert means(folder) == [("rag", 50.0, 62.5, 1)]
    assert not emend("judge", "correct", str(folder), "2", *ONE, "--to", "scored")
    assert means(folder) == []
    assert len((folder / CORRECTIONS).read_text().splitlines()) == 3  # nothing is overwritten


@pytest.mark.parametrize("left", [1, 60, -1])
def test_a_correction_that_was_killed_half_way_spoils_no_later_one(folder: Path, left: int) -> None:
    for case in "12":
        assert not emend("judge", "correct", str(folder), case, *ONE, "--to", "right")
    whole = (folder / CORRECTIONS).read_bytes()
    first = whole.index(b"\n") + 1
    (folder / CORRECTIONS).write_bytes(whole[: first + left] if left > 0 else whole[:left])
    assert len(read_corrections(folder)) == 1
    assert not emend("judge", "correct", str(folder), "2", *ONE, "--to", "0.5")
    assert means(folder) == [("rag", 50.0, 75.0, 2)]


def test_a_trace_shows_who_corrected_what(folder: Path, capsys: Any) -> None:
    assert not emend("judge", "correct", str(folder), "2", *ONE, "--to", "right", "--note", "a river", "--by", "Ada")
    (line,) = [line for probe in trace(folder, "2").probes for line in probe.corrections]
    assert (line.editor, line.was, line.value, line.by, line.note) == ("rag", 0.0, 1.0, "Ada", "a river")
    capsys.readouterr()
    assert not emend("trace", str(folder), "2")
    assert "contains 0 is 1 by Ada: a river" in capsys.readouterr().out


def filled(path: Path, labels: dict[tuple[str, str], str]) -> Path:
    """The table with these corrections, by case and editor."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["corrected"] = labels.get((row["case"], row["editor"]), "")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_table_takes_the_corrections_of_a_spreadsheet(folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "answers.csv"
    assert not emend("judge", "correct", str(folder), "--export", str(table), "--wrong")
    assert table.read_text(encoding="utf-8-sig").count("'=answer") == 3  # no formula, and the wrong ones alone
    filled(table, {("c1", "rag"): "Right", ("c0", "ike"): "1"})
    assert not emend("judge", "correct", str(folder), "--table", str(table), "--by", "Ada")
    assert sorted(means(folder)) == [
        ("ike", pytest.approx(100 / 3), pytest.approx(200 / 3), 1),
        ("rag", 50.0, 100.0, 1),
    ]


def test_names_in_an_exported_table_are_escaped(tmp_path: Path) -> None:
    names = {"editor": "x\x1b[2J", "kind": "y\x07"}
    folder = write_run(
        tmp_path / "run", [record("c0", values={"contains": 0.0}, **names)], cases=[case_line("c0")], metrics=[METRIC]
    )
    assert not emend("judge", "correct", str(folder), "--export", str(tmp_path / "answers.csv"))
    text = (tmp_path / "answers.csv").read_text(encoding="utf-8-sig")
    assert "x\\x1b[2J" in text and "\x1b" not in text and "\x07" not in text
    filled(tmp_path / "answers.csv", {("c0", "x\\x1b[2J"): "right"})
    assert not emend("judge", "correct", str(folder), "--table", str(tmp_path / "answers.csv"))
    (line,) = read_corrections(folder).values()
    assert (line.editor, line.kind, line.score) == ("x\x1b[2J", "y\x07", "contains")


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("2", *ONE, "--to", "perhaps"), "write right, wrong, a number from 0 to 1"),
        (("2", *ONE, "--to", "nan"), "a number from 0 to 1"),
        (("2", *ONE, "--to", "-1"), "a number from 0 to 1"),
        (("2", "--to", "right"), "name one by --editor: ike, rag"),
        (("2", "--editor", "rog", "--to", "right"), "did you mean 'rag'?"),
        (("2", *ONE, "--score", "contain", "--to", "right"), "did you mean 'contains'?"),
        (("9", *ONE, "--to", "right"), "give a number from 1 to 3"),
        (("2", *ONE), "--to right"),
        (("--to", "right"), "emend judge correct RUN 1"),
        (("2", "--to", "right", "--table", "t.csv"), "exclude each other"),
        (("--table", "none.csv"), "cannot read 'none.csv'"),
    ],
)
def test_a_wrong_correction_names_its_remedy(folder: Path, capsys: Any, words: tuple[str, ...], remedy: str) -> None:
    assert emend("judge", "correct", str(folder), *words) == 2
    assert remedy in " ".join(capsys.readouterr().err.split())
    assert not (folder / CORRECTIONS).exists()


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("a,b\n1,2\n", "no column 'unit'"),
        ("unit,probe,score,corrected,note\nu,p,contains,right,\n", "line 2: the run has no such answer"),
        (f"unit,probe,score,corrected,note\nu,p,contains,right,{'a' * 200_000}\n", "is not a table"),
        ('unit,probe,score,corrected,note\nu,p,contains,right,"no\nu,p,contains,wrong,\n', "is not a table"),
        ("", "no column 'unit'"),
    ],
)
def test_a_table_of_another_run_is_refused(folder: Path, tmp_path: Path, capsys: Any, text: str, remedy: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert emend("judge", "correct", str(folder), "--table", str(tmp_path / "t.csv")) == 2
    assert remedy in " ".join(capsys.readouterr().err.split())


def test_a_cell_of_several_lines_is_told_in_one(folder: Path, tmp_path: Path, capsys: Any) -> None:
    assert not emend("judge", "correct", str(folder), "--export", str(tmp_path / "t.csv"))
    filled(tmp_path / "t.csv", {("c1", "rag"): "ri\nght\x1b[2J"})
    capsys.readouterr()
    with pytest.raises(BadSettings, match=r"'ri\\nght\\x1b\[2J': write right") as caught:
        read_table(folder, tmp_path / "t.csv")
    assert "\n" not in str(caught.value)


def test_an_existing_table_is_kept(folder: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "t.csv").write_text("mine")
    assert emend("judge", "correct", str(folder), "--export", str(tmp_path / "t.csv")) == 2
    assert (tmp_path / "t.csv").read_text() == "mine"
    assert "another --export" in capsys.readouterr().err


def test_a_damaged_line_is_named(folder: Path) -> None:
    (folder / CORRECTIONS).write_text('{"unit": 3}\n')
    with pytest.raises(BadData, match=f"{CORRECTIONS}.*line 1"):
        read_corrections(folder)
