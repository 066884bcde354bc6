"""Chat logs of several formats become a benchmark and a stream; what cannot be read is named by position and field."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, messages_to_dict

from emend.evals.data.conversations.chat_logs import read_chat_log
from emend.evals.data.conversations.chats import OwnChats, make_chats
from emend.evals.streams.loaders import load_stream
from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.errors import BadData, BadSettings, MissingData

MESSAGES = [HumanMessage("I moved to Halden."), AIMessage("Nice."), SystemMessage("Be brief.")]
OPENAI = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "I moved to Halden."}, {"type": "image_url", "image_url": {}}],
    },
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "content": "42", "tool_call_id": "1"},
    {"role": "assistant", "content": "Nice."},
]
MOVED = {"author": {"role": "user"}, "content": {"parts": ["I moved to Halden."]}, "create_time": 1767603600.0}
CHATGPT = {
    "id": "c1",
    "current_node": "c",
    "mapping": {
        "a": {"message": None, "parent": None},
        "b": {"message": MOVED, "parent": "a"},
        "x": {"message": {"author": {"role": "user"}, "content": {"parts": ["Another branch."]}}, "parent": "a"},
        "c": {"message": {"author": {"role": "assistant"}, "content": {"parts": ["Nice."]}}, "parent": "b"},
    },
}

LOOP = CHATGPT | {"mapping": {"c": {"message": MOVED, "parent": "b"}, "b": {"message": MOVED, "parent": "b"}}}


def log(folder: Path, *values: Any, name: str = "log.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(value) for value in values), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "values",
    [
        ({"role": "user", "content": "I moved to Halden."}, {"role": "assistant", "content": "Nice."}),
        ({"messages": OPENAI},),
        (OPENAI,),
        tuple(messages_to_dict(MESSAGES)),
        (messages_to_dict(MESSAGES),),
        (dumpd(MESSAGES),),
        ([CHATGPT],),
        ([{"role": "user", "content": [{"type": "text", "text": {"value": "I moved to Halden."}}]}, OPENAI[-1]],),
    ],
)
def test_messages_of_every_format_are_the_same_conversation(values: tuple[Any, ...], tmp_path: Path):
    (messages,) = read_chat_log(log(tmp_path, *values)).values()
    assert [(each.role, each.text) for each in messages] == [("user", "I moved to Halden."), ("assistant", "Nice.")]


def test_conversations_are_told_apart_by_their_lines_or_names(tmp_path: Path):
    assert list(read_chat_log(log(tmp_path, {"messages": OPENAI}, {"id": "b", "messages": OPENAI}))) == ["log", "b"]
    rows = [{"role": "user", "content": "x", "conversation": name} for name in ("a", "b", "a")]
    assert {name: len(chat) for name, chat in read_chat_log(log(tmp_path, *rows)).items()} == {"a": 2, "b": 1}


def test_a_pause_or_a_name_begins_a_session_which_has_the_date_of_its_first_message(tmp_path: Path):
    times = ("2026-01-05T09:00", "2026-01-05T10:30", "2026-01-05T19:00+01:00", 1767639600)
    rows = [{"role": "user", "content": str(time), "time": time} for time in times]
    (messages,) = read_chat_log(log(tmp_path, *rows)).values()
    assert [each.session for each in messages] == ["1", "1", "2", "2"]
    assert [each.date for each in messages] == ["2026-01-05 09:00"] * 2 + ["2026-01-05 18:00"] * 2
    rows = [{"role": "user", "content": "x", "session": name} for name in "aab"]
    (messages,) = read_chat_log(log(tmp_path, *rows)).values()
    assert [each.id for each in messages] == ["1:0", "1:1", "2:2"]


QUESTIONS = (
    {"question": "Where do I live?", "answer": "Halden", "evidence": "moved to halden"},
    {"question": "How many?", "answer": 3, "evidence": ["1:1"]},
    {"question": "What is my brother called?"},
)


def test_logs_with_questions_are_a_benchmark_and_a_stream_of_the_same_ids(tmp_path: Path):
    chat = log(tmp_path, *messages_to_dict(MESSAGES), name="chat.jsonl")
    counts = make_chats([chat], log(tmp_path, *QUESTIONS), tmp_path / "own")
    assert (counts.conversations, counts.messages, counts.undated) == (1, 2, 2)
    assert (counts.questions, counts.without_evidence) == (3, 1)
    (case,) = OwnChats(tmp_path / "own").cases("turns")
    assert [edit.text for edit in case.edits] == ["user: I moved to Halden.", "assistant: Nice."]
    assert [probe.gold for probe in case.probes] == [("Halden",), ("3",), ("unknown",)]
    items = load_stream(tmp_path / "own" / "chats.jsonl")
    questions = [item for item in items if isinstance(item, StreamQuestion)]
    assert {item.id for item in items if isinstance(item, Turn)} == {edit.id for edit in case.edits}
    assert [item.id for item in questions] == [probe.id for probe in case.probes]
    assert [item.evidence for item in questions] == [probe.edit_ids for probe in case.probes]


@pytest.mark.parametrize(
    ("values", "place"),
    [
        (({"role": "owl", "content": "x"},), r"log\.jsonl, message 0, field 'role': 'owl'"),
        (({"content": "x"},), "field 'role'"),
        (({"role": "user", "content": 7},), "field 'content': 7"),
        (({"role": "user", "content": "x", "time": "soon"},), "field 'time': 'soon'"),
        (({"role": "user", "content": "x"}, {"role": "user", "content": 7}), "line 2, message 0, field 'content'"),
        (([1],), "message 0: 1 is not a message"),
        (({"role": "system", "content": "x"},), "no message of a user"),
        (({"type": "human", "data": "I moved."}, [1]), "line 2, message 0: 1 is not"),
        (({"lc": 1, "id": 7, "kwargs": ["I moved."]},), "field 'role': ''"),
        (({"lc": 1, "id": {"a": 1}, "kwargs": {"content": "x"}},), "field 'role': ''"),
        (({"role": "user", "content": "x", "time": "0001-01-01T00:00+14:00"},), "field 'time'"),
        (({"role": "user", "content": "x", "time": "z" * 9_000},), r"field 'time': 'z{59}\.\.\. is not"),
        (({"role": "y" * 9_000, "content": "x"},), r"field 'role': 'y{59}\.\.\. is not"),
        (([CHATGPT | {"current_node": ["c"]}],), "field 'current_node'"),
        (([CHATGPT | {"current_node": None}],), "field 'current_node': None is not in 'mapping'"),
        (([LOOP],), "field 'mapping': 'b' is its own parent"),
        (([CHATGPT, CHATGPT],), "conversation 1: a second conversation 'c1'"),
    ],
)
def test_spoiled_logs_end_in_position_and_field(values: tuple[Any, ...], place: str, tmp_path: Path):
    with pytest.raises(BadData, match=place):
        read_chat_log(log(tmp_path, *values))


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ({"question": "x", "answer": "y", "evidence": "Oslo"}, "line 1, field 'evidence': 'Oslo' is in 0 messages"),
        ({"question": "x", "answer": "y", "evidence": "i"}, "field 'evidence': 'i' is in 2 messages"),
        ({"question": "x", "conversation": "zzz"}, "field 'conversation'"),
        ({"question": "x", "answer": True}, "field 'answer"),
        ({"question": ""}, "field 'question'"),
        ({"question": "x", "kind": "odd"}, "field 'kind'"),
        ({"question": "x", "asnwer": "y"}, "field 'asnwer'"),
        ({"question": "x", "date": "2026-99-99"}, "field 'date': .*2026-03-01"),
        ({"question": "x", "conversation": "z" * 9_000}, r"unknown conversation 'z{59}\.\.\.; known"),
    ],
)
def test_spoiled_questions_end_in_line_and_field(question: dict[str, Any], place: str, tmp_path: Path):
    chat = log(tmp_path, *messages_to_dict(MESSAGES), name="chat.jsonl")
    with pytest.raises(BadData, match=place):
        make_chats([chat], log(tmp_path, question), tmp_path / "own")
    assert not (tmp_path / "own").exists()


def test_positions_count_blank_lines_and_a_file_without_questions_is_refused(tmp_path: Path):
    chat = log(tmp_path, *messages_to_dict(MESSAGES), name="chat.jsonl")
    (questions := tmp_path / "questions.jsonl").write_text('\n\n{"question": "x", "evidence": "Oslo"}\n')
    with pytest.raises(BadData, match=r"questions\.jsonl, line 3, field 'evidence'"):
        make_chats([chat], questions, tmp_path / "own")
    questions.write_text("\n")
    with pytest.raises(BadData, match="has no question"):
        make_chats([chat], questions, tmp_path / "own")


def test_what_is_read_is_not_overwritten_and_an_earlier_output_is_replaced_whole(tmp_path: Path):
    chat = log(tmp_path, *messages_to_dict(MESSAGES), name="chats.jsonl")
    before = chat.read_bytes()
    with pytest.raises(BadSettings, match="would be overwritten"):
        make_chats([chat], log(tmp_path, *QUESTIONS), tmp_path)
    assert chat.read_bytes() == before
    (folder := tmp_path / "own").mkdir()
    (folder / "chats.jsonl").symlink_to(chat)
    with pytest.raises(BadSettings, match="would be overwritten"):
        make_chats([chat], log(tmp_path, *QUESTIONS), folder)
    other = log(tmp_path, *messages_to_dict(MESSAGES), name="other.jsonl")
    make_chats([other], log(tmp_path, *QUESTIONS), folder)
    assert chat.read_bytes() == before and not (folder / "chats.jsonl").is_symlink()


def test_what_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(MissingData, match="chat log"):
        read_chat_log(tmp_path / "none.jsonl")
    chat = log(tmp_path, *messages_to_dict(MESSAGES), name="chat.jsonl")
    with pytest.raises(MissingData, match="questions"):
        make_chats([chat], tmp_path / "none.jsonl", tmp_path / "own")
    with pytest.raises(MissingData, match="emend data chats"):
        OwnChats(tmp_path)
