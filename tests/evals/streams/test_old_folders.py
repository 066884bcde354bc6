"""Folders of streams as earlier versions wrote them, whose systems were editors, and questions probes."""

from typing import Any

import pytest

from emend.evals.results.aggregate.rows import report
from emend.evals.show.trace.case_trace import trace
from emend.evals.streams.run.line import AnswerLine, read_stream_lines
from emend.memory.errors import BadData
from tests.evals.cli.conftest import emend, shell  # noqa: F401
from tests.evals.streams.streams import READER
from tests.paths import DATA

OLD = DATA / "streams" / "old"


def test_answers_are_read_with_their_gold():
    lines = list(read_stream_lines(OLD))
    assert all(isinstance(line, AnswerLine) for line in lines) and len(lines) == 10
    line = next(line for line in lines if isinstance(line, AnswerLine) and line.abstains)
    assert (line.gold, line.values["correct"], line.job) == (("unknown",), 1.0, "stream")
    assert {type(line).__name__ for line in lines} == {"AnswerLine"} and lines[-1].place > 0


def test_a_folder_of_something_else_is_no_stream():
    with pytest.raises(BadData, match="emend stream run"):
        list(read_stream_lines(DATA / "built" / "fresh" / "run"))


def test_report_and_trace_show_it():
    rows = {(row.editor, row.metric): row for row in report(OLD).rows}
    assert rows["grep", "accuracy"].n == 5 and rows["empty", "answerable"].mean == 0
    steps = [step["node"] for probe in trace(OLD, "1").probes for step in probe.steps]
    assert {"retrieve", "compose", "respond"} <= {*steps}


@pytest.mark.usefixtures("emend")
@pytest.mark.parametrize(
    "words",
    [
        ("report", str(OLD), "--sql", "SELECT editor, count(*) AS n FROM records GROUP BY editor"),
        ("compare", str(OLD), "--editor-a", "grep", "--editor-b", "empty"),
        ("analyse", str(OLD), "memory"),
        ("report", str(OLD), "--all"),
    ],
)
def test_commands_read_it(emend: Any, words: tuple[str, ...]):  # noqa: F811
    output = emend(*words)
    assert (output.code, "grep" in output.out) == (0, True)


@pytest.mark.usefixtures("emend")
def test_it_is_not_continued(emend: Any):  # noqa: F811
    output = emend("resume", str(OLD), "--trust", READER)
    assert (output.code, "emend stream run stream.jsonl" in output.err) == (2, True)
