"""Files of streams."""

from pathlib import Path

import pytest

from emend.evals.streams.generator import generate_stream
from emend.evals.streams.stream_config import StreamOptions
from emend.evals.streams.turn import StreamQuestion, Turn, read_stream, segments, write_stream
from emend.memory.errors import BadData, MissingData


def test_a_stream_is_read_as_it_was_written(tmp_path: Path):
    items = list(generate_stream(StreamOptions(turns=80, users=2)))
    write_stream(items, tmp_path / "stream.jsonl")
    assert read_stream(tmp_path / "stream.jsonl") == items


def test_a_short_stream_can_be_written_by_hand(tmp_path: Path):
    file = tmp_path / "stream.jsonl"
    file.write_text(
        '{"turn": {"date": "2025-01-01", "text": "I moved to Brask."}}\n\n'
        '{"question": {"text": "Where do I live?", "kind": "current", "gold": ["Brask"]}}\n'
        '{"turn": {"date": "2025-01-02", "text": "I moved to Halden."}}\n'
        '{"question": {"text": "Where do I live?", "kind": "current", "gold": ["Halden"]}}\n'
        '{"turn": {"text": "Bye."}}\n',
        encoding="utf-8",
    )
    first, second = segments(read_stream(file))
    assert [turn.text for turn in first.turns + second.turns] == ["I moved to Brask.", "I moved to Halden."]
    assert [question.place for question in first.questions + second.questions] == [1, 2]
    assert first.questions[0].id != second.questions[0].id


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (["[]"], "line 1"),
        (['{"turn": {"text": "a"}}', '{"turn": {"texts": "b"}}'], "line 2, text"),
        (['{"turn": {"text": "a"}}', '{"turn": {"text": "a"}}'], "line 2"),
        (['{"role": "user", "content": "a"}'], "line 1: .*emend data chats"),
        (['{"question": {"text": "a", "kind": "odd"}}'], "line 1, kind"),
        (['{"turn": {"text": "a"}}'], "question"),
        (['{"question": {"text": "a", "kind": "current", "gold": ["x"]}}'], "turn"),
        (['{"question": {"text": "a", "kind": "current"}}', '{"turn": {"text": "b"}}'], "line 1: a question before"),
        (
            ['{"turn": {"text": "b", "stream": "x"}}', '{"question": {"text": "a", "kind": "current"}}'],
            "line 2: a quest",
        ),
        (['{"turn": {"text": "a", "date": "2026-13-45"}}'], "line 1, date: '2026-13-45' is not a date"),
        (
            ['{"turn": {"text": "a", "claims": [{"subject": "s", "relation": "r", "object": "o", "since": "May"}]}}'],
            "since",
        ),
        (['{"turn": {"text": "a"}}', '{"question": {"text": "a", "kind": "historic", "on": "x"}}'], "line 2, on"),
        (['{"turn": {"text": "a"}}', '{"question": {"text": "a", "kind": "current", "place": -5}}'], "line 2, place"),
        (['{"turn": {"text": "a"}}', '{"question": {"text": "a", "kind": "current", "place": 999}}'], "line 2, place"),
        (['{"turn": {"text": "a"}}', '{"question": {"text": "a", "kind": "current", "place": []}}'], "line 2, place"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, lines: list[str], place: str):
    file = tmp_path / "stream.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(BadData, match=place):
        read_stream(file)


def test_a_missing_file_is_an_error_with_the_remedy(tmp_path: Path):
    with pytest.raises(MissingData, match="emend stream new"):
        read_stream(tmp_path / "none.jsonl")


def test_turns_and_questions_without_gold_show_none():
    turn, question = (
        next(item for item in generate_stream(StreamOptions(turns=40)) if isinstance(item, kind) and item.date)
        for kind in (Turn, StreamQuestion)
    )
    assert "claims" not in turn.without_gold().model_dump_json(exclude_defaults=True)
    assert set(question.without_gold().model_dump(exclude_defaults=True)) <= {"id", "date", "text", "kind", "user"}
