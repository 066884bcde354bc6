"""The turns and answers of a stream in SQL."""

from pathlib import Path

import pytest

from emend.evals.log.lines import RECORDS
from emend.evals.results.aggregate.database import open_database
from emend.evals.streams.run.line import AnswerLine, TurnsLine, read_stream_lines
from emend.memory.errors import BadData
from tests.evals.streams.streams import run_systems

TEXTS = """SELECT e.text FROM (SELECT unnest(turns) AS id FROM turns WHERE editor = 'empty') AS t
JOIN edits AS e USING (id) ORDER BY e.text"""


def test_turns_and_answers_of_a_stream_are_tables(tmp_path: Path) -> None:
    run_systems(tmp_path, "bm25_newest", "empty")
    lines = list(read_stream_lines(tmp_path / "run"))
    observed = [line for line in lines if isinstance(line, TurnsLine)]
    answered = [line for line in lines if isinstance(line, AnswerLine)]
    with open_database(tmp_path / "run") as tables:
        turns = tables.query("SELECT editor, place, turns, store_items FROM turns").rows
        answers = tables.query("SELECT probe, editor, user, date, evidence, retrieved, age FROM answers").rows
        texts = tables.query(TEXTS).rows
        assert {"turns", "answers"} < {name for name, *_ in tables.tables().rows}
    assert turns == [(line.editor, line.place, list(line.turns), line.store.items) for line in observed]
    assert answers == [
        (line.probe, line.editor, line.user, line.date, list(line.evidence), list(line.retrieved), line.age)
        for line in answered
    ]
    assert len(texts) == sum(len(line.turns) for line in observed if line.editor == "empty") > 0


def test_a_damaged_line_of_turns_is_named(tmp_path: Path) -> None:
    run_systems(tmp_path, "empty")
    file = tmp_path / "run" / RECORDS
    file.write_text(file.read_text("utf-8").replace('"turns":[', '"turns":7,"stream":[', 1), "utf-8")
    with pytest.raises(BadData, match="line 1, field"), open_database(tmp_path / "run"):
        pass
