"""Answers are found by being right or wrong, by a score, and by the answers of several editors to one probe."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emend.evals.show.report.traces.answer_list import MAX_ROWS, show_answers
from emend.evals.show.trace.answers import list_answers
from emend.evals.show.trace.filters import AnswerFilter, RecordFilter
from emend.memory.errors import BadSettings
from tests.evals.command_line import caller
from tests.evals.made import case_line, record, write_run

SCORES: dict[str, list[float | None]] = {"rag": [1.0, 0.0, 1.0, None], "ike": [0.0, 0.0, 1.0, 1.0]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    records = [
        record(
            f"c{place}", editor=editor, kind="paraphrase" if place == 2 else "efficacy", answer=f"{editor} {place}",
            values={} if score is None else {"em": score, "length": place * 2.5},
            unscored={"em": "no reply"} if score is None else {},
        )
        for editor, scores in SCORES.items()
        for place, score in enumerate(scores)
    ]  # fmt: skip
    cases = [case_line(f"c{place}", number=place + 1) for place in range(4)]
    return write_run(tmp_path / "run", records, cases=cases)


@pytest.mark.parametrize(
    ("answers", "records", "expected"),
    [
        ({"wrong": True}, {}, ["ike 0", "rag 1", "ike 1"]),
        ({"right": True}, {"kind": "efficacy"}, ["rag 0", "ike 3"]),
        ({"wrong": True, "right": True}, {"editor": "rag"}, ["rag 0", "rag 1", "rag 2"]),
        ({"score": ("em=1", "length>0")}, {}, ["rag 2", "ike 2", "ike 3"]),
        ({"score": ("length<=2.5",)}, {"editor": "ike"}, ["ike 0", "ike 1"]),
        ({"where": "rag right, ike wrong"}, {}, ["rag 0", "ike 0"]),
        ({"where": "ike right,rag unscored"}, {}, ["rag 3", "ike 3"]),
        ({"where": "rag wrong", "right": True}, {}, []),
    ],
)
def test_answers_that_fit(folder: Path, answers: dict[str, Any], records: dict[str, Any], expected: list[str]) -> None:
    rows = list_answers(folder, AnswerFilter(**answers), RecordFilter(**records))
    assert [row.answer for row in rows] == expected


def test_answers_are_sorted_by_case_and_then_by_probe_in_whatever_order_units_finished(tmp_path: Path) -> None:
    asked = [("c2", "b", "rag"), ("c2", "a", "rag"), ("c1", "b", "ike"), ("c2", "b", "ike"), ("c1", "b", "rag")]
    records = [record(case, probe=probe, editor=editor, values={"em": 0.0}) for case, probe, editor in asked]
    cases = [case_line(f"c{number}", number=number) for number in (1, 2)]
    rows = list_answers(write_run(tmp_path / "run", records, cases=cases), AnswerFilter(wrong=True))
    expected = [("c1", "b", "ike"), ("c1", "b", "rag"), ("c2", "b", "rag"), ("c2", "b", "ike"), ("c2", "a", "rag")]
    assert [(row.case, row.probe, row.editor) for row in rows] == expected


def test_a_row_has_question_answer_gold_and_the_score_or_why_there_is_none(folder: Path) -> None:
    rows = list_answers(folder, AnswerFilter(where="rag unscored, ike right"))
    assert [(row.number, row.verdict, row.score, row.gold) for row in rows] == [
        (4, "unscored", "no reply", ("gold",)), (4, "right", "em=1", ("gold",)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"score": ("emm=0",)}, "did you mean 'em'"),
        ({"score": ("em",)}, "such as em=0"),
        ({"where": "rag good"}, "right, wrong or unscored"),
        ({"where": "rga right"}, "did you mean 'rag'"),
    ],
)
def test_conditions_of_another_form_are_named(folder: Path, answers: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        list_answers(folder, AnswerFilter(**answers))


@pytest.mark.parametrize("width", [60, 120])
def test_the_table_shows_the_first_answers_and_how_to_trace_one(folder: Path, width: int) -> None:
    rows = list_answers(folder, AnswerFilter(wrong=True))
    file = io.StringIO()
    show_answers(rows * MAX_ROWS, folder, Console(file=file, width=width))
    text = file.getvalue()
    assert "em=0" in text and f"and {2 * MAX_ROWS} more" in text
    assert "1 --editor ike --probe p" in " ".join(text.split())


def test_the_command_lists_answers_and_refuses_what_does_not_go_with_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    emend = caller(monkeypatch, capsys)
    assert [row["answer"] for row in emend("trace", folder, "--wrong", "--editor", "rag", "--json").rows] == ["rag 1"]
    for words in (("1",), ("--errors",), ("--mermaid",)):
        assert "leave out" in emend("trace", folder, *words, "--wrong").err
