"""Conversations are read from their published forms, and spoiled files are refused with place and field."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from emend.evals.data.conversations.beam import BEAM
from emend.evals.data.conversations.conversation import iso_date
from emend.evals.data.conversations.locomo import LoCoMo
from emend.evals.data.conversations.longmemeval import LongMemEval
from emend.evals.data.conversations.memory_agent_bench import MemoryAgentBench
from emend.memory.errors import BadData, MissingData
from tests.paths import DATA

CLASSES: dict[str, Any] = {
    "locomo": LoCoMo,
    "beam": BEAM,
    "longmemeval": LongMemEval,
    "memory_agent_bench": MemoryAgentBench,
}


def cases(name: str, folder: Path | None = None, **options: str) -> list[Any]:
    return list(CLASSES[name](folder or DATA / name, options).cases("turns"))


def test_locomos_turns_are_dated_edits_and_its_evidence_is_gold():
    case = cases("locomo")[0]
    assert [edit.id for edit in case.edits[:2]] == ["toy-1:D1:1", "toy-1:D1:2"]
    assert (
        case.edits[2].text
        == "Ida: How sweet! I started pottery classes in Brask. [shares a photo: a photo of a clay bowl]"
    )
    assert case.edits[2].time == "2023-05-08 13:56"
    kinds = {probe.kind: probe for probe in case.probes}
    assert kinds["multi_hop"].all_golds and not kinds["temporal"].all_golds
    assert kinds["multi_hop"].edit_ids == ("toy-1:D1:3", "toy-1:D2:2"), "two ids in one text are two"
    assert kinds["open_domain"].gold == ("1",), "an answer may be a number"
    assert kinds["open_domain"].edit_ids == ("toy-1:D1:2",), "evidence that names no turn is left out"
    assert (kinds["adversarial"].abstains, kinds["adversarial"].choices) == (True, ("a cat",))


def test_beams_messages_lose_their_bullet_and_take_the_date_of_their_batch():
    case = cases("beam")[0]
    assert case.edits[0].text == "user: I'm planning my work, and my catalogue has 45 entries by now."
    assert [edit.time for edit in case.edits] == ["2024-03-15"] * 4 + ["2024-04-05"] * 2
    update = next(probe for probe in case.probes if probe.kind == "knowledge_update")
    assert (update.newer_ids, update.outdated_ids) == (("beam-1:4",), ("beam-1:0",))
    users = cases("beam", roles="user")[0]
    assert {edit.text.partition(":")[0] for edit in users.edits} == {"user"}


def test_beam_is_also_read_from_a_chat_and_its_questions(tmp_path: Path):
    content = json.loads((DATA / "beam" / "1.json").read_text())
    folder = tmp_path / "100K" / "1"
    (folder / "probing_questions").mkdir(parents=True)
    (folder / "chat.json").write_text(json.dumps([{"plan-1": content["chat"]}]))  # as in the longest conversations
    (folder / "probing_questions" / "probing_questions.json").write_text(json.dumps(content["probing_questions"]))
    assert cases("beam", tmp_path / "100K") == cases("beam")[:1]
    assert [case.id for case in cases("beam", tmp_path)] == ["beam-100K-1"], "sizes are kept apart"


def test_a_history_is_a_conversation_of_its_own_by_the_dates_of_its_sessions():
    first, unknown, number = cases("longmemeval")
    assert [edit.text for edit in first.edits] == [
        "user: I live in Brask.",
        "assistant: Nice.",
        "user: I have moved to Halden, q1.",
    ]
    (probe,) = first.probes
    assert (probe.newer_ids, probe.outdated_ids) == (("q1:1:0",), ("q1:0:0",))
    assert probe.prompt == "[2023-06-01 09:00] Where do I live?"
    assert unknown.probes[0].kind == "abstention" and number.probes[0].gold == ("2",)


def test_all_splits_are_read_and_facts_of_conflicts_are_turns():
    by_kind = {probe.kind: (case, probe) for case in cases("memory_agent_bench") for probe in case.probes}
    assert set(by_kind) == {"retrieval", "learning", "understanding", "conflict", "conflict_multi_hop"}
    case, probe = by_kind["conflict"]
    assert len(case.edits) == 3 and probe.edit_ids == ("factconsolidation_sh_6k:1",)
    assert len(cases("memory_agent_bench", splits="conflict")) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:56 pm on 8 May, 2023", "2023-05-08 13:56"),
        ("12:05 am on 1 July, 2023", "2023-07-01 00:05"),
        ("March-15-2024", "2024-03-15"),
        ("2023/05/30 (Tue) 23:40", "2023-05-30 23:40"),
        ("", ""),
    ],
)
def test_dates_of_three_forms_become_iso_8601(text: str, expected: str):
    assert iso_date(text, "here") == expected


@pytest.mark.parametrize("text", ["May", "31 June 2023", "25:61 pm on 8 May, 2023", "February-31-2024", "Mars-15-2024"])
def test_no_date_is_refused(text: str):
    with pytest.raises(BadData, match="here"):
        iso_date(text, "here")


FILES = {"locomo": "locomo10.json", "beam": "1.json", "longmemeval": "longmemeval_s_cleaned.json"}
SESSION, QUESTION = "conversation.session_1", "probing_questions.knowledge_update.0"
# By reader: the path to a value, the value in its place (`...` takes it away), and the place that the message names.
SPOILED: list[tuple[str, str, Any, str]] = [
    ("locomo", "1.qa.0.evidence", ..., r"record 1, field 'qa\[0\].evidence'"),
    ("locomo", "0.qa.0.evidence", None, r"record 0, field 'qa\[0\].evidence'"),
    ("locomo", "0.qa.0.evidence", "D1:1", r"record 0, field 'qa\[0\].evidence'"),
    ("locomo", "0.qa.0.evidence", [1], r"record 0, field 'qa\[0\].evidence\[0\]'"),
    ("locomo", "0.qa.0.category", 9, r"record 0, field 'qa\[0\].category'"),
    ("locomo", "0.qa.0.category", "one", r"record 0, field 'qa\[0\].category'"),
    ("locomo", "0.qa.0.answer", ["a"], r"record 0, field 'qa\[0\].answer'"),
    ("locomo", "0.qa.0.answer", True, r"record 0, field 'qa\[0\].answer'"),
    ("locomo", "0.qa.0.answer", "", r"record 0, field 'qa\[0\].answer'"),
    ("locomo", "0.qa.0.question", " ", "record 0, question 0, field 'question'"),
    ("locomo", "0.qa", ..., "record 0, field 'qa'"),
    ("locomo", "0.conversation", ..., "record 0, field 'conversation'"),
    ("locomo", "0.conversation", [], "record 0, field 'conversation'"),
    ("locomo", "0.sample_id", 5, "record 0, field 'sample_id'"),
    ("locomo", "1.sample_id", "toy-1", "record 1, field 'sample_id'"),
    ("locomo", "0.conversation.session_1_date_time", "soon", "record 0, field 'session_1_date_time'"),
    ("locomo", "0.conversation.session_1_date_time", 20230508, "record 0, field 'session_1_date_time'"),
    ("locomo", "0.conversation.session_1_date_time", "1:56 pm on 31 June, 2023", "field 'session_1_date_time'"),
    ("locomo", "0.conversation.session_1", None, f"record 0, field '{SESSION}'"),
    ("locomo", "0.conversation.session_1.0.text", ..., f"record 0, field '{SESSION}.0.text'"),
    ("locomo", "0.conversation.session_1.0.text", 7, f"record 0, field '{SESSION}.0.text'"),
    ("locomo", "0.conversation.session_1.0.speaker", "", f"record 0, field '{SESSION}.0.speaker'"),
    ("locomo", "0.conversation.session_1.0.dia_id", "x", f"record 0, field '{SESSION}.0.dia_id'"),
    ("locomo", "0.conversation.session_2.0.dia_id", "D1:1", "record 0, message ids: 'D1:1'"),
    ("locomo", "0.conversation", {"session_1": []}, "record 0: every session is empty"),
    ("beam", "chat.1.turns.0.1.id", 1, "1.json, message ids: '1'"),
    ("beam", "chat.0.turns.0.0.id", "a", "field 'chat.0.turns.0.0.id'"),
    ("beam", "chat.0.turns.0.0.content", None, "field 'chat.0.turns.0.0.content'"),
    ("beam", "chat.0.turns.0.0.role", "", "field 'chat.0.turns.0.0.role'"),
    ("beam", "chat.0.turns", [{"role": "user", "id": 0, "content": "x"}], "field 'chat.0.turns.0'"),
    ("beam", "chat.0.time_anchor", "then", "field 'chat.0.time_anchor'"),
    ("beam", "chat.0.time_anchor", 5, "field 'chat.0.time_anchor'"),
    ("beam", "chat.0.time_anchor", "February-31-2024", "field 'chat.0.time_anchor'"),
    ("beam", "chat", [], "field 'chat'"),
    ("beam", "probing_questions", ..., "field 'probing_questions'"),
    ("beam", "probing_questions", [], "field 'probing_questions'"),
    ("beam", "probing_questions.odd", [], "unknown kind 'odd'"),
    ("beam", f"{QUESTION}.question", ..., f"field '{QUESTION}.question'"),
    ("beam", f"{QUESTION}.answer", ..., f"field '{QUESTION}.answer'"),
    ("beam", f"{QUESTION}.answer", [1], f"field '{QUESTION}.answer'"),
    ("beam", f"{QUESTION}.rubric", [5], f"field '{QUESTION}.rubric.0'"),
    ("beam", f"{QUESTION}.rubric", "[bad", f"field '{QUESTION}.rubric'"),
    ("beam", f"{QUESTION}.source_chat_ids", ["x"], f"field '{QUESTION}.source_chat_ids'"),
    ("beam", f"{QUESTION}.source_chat_ids", [True], f"field '{QUESTION}.source_chat_ids'"),
    ("beam", f"{QUESTION}.source_chat_ids.updated_info", [99], f"field '{QUESTION}.source_chat_ids'.*message 99"),
    ("longmemeval", "1.question_id", "q1", "record 1, field 'question_id'"),
    ("longmemeval", "0.question_id", ..., "record 0, field 'question_id'"),
    ("longmemeval", "0.question_id", 3, "record 0, field 'question_id'"),
    ("longmemeval", "0.question_type", "odd", "record 0, field 'question_type'"),
    ("longmemeval", "0.question_date", "2023/13/01", "record 0, field 'question_date'"),
    ("longmemeval", "0.question_date", None, "record 0, field 'question_date'"),
    ("longmemeval", "0.answer", None, "record 0, field 'answer'"),
    ("longmemeval", "0.answer", [], "record 0, field 'answer'"),
    ("longmemeval", "0.answer", "", "record 0, field 'answer'"),
    ("longmemeval", "0.haystack_dates", ["2023/05/30 (Tue) 23:40"], "record 0, field 'haystack_sessions'"),
    ("longmemeval", "0.haystack_dates.0", "May", "record 0, field 'haystack_dates.0'"),
    ("longmemeval", "0.haystack_dates.0", 3, r"record 0, field 'haystack_dates\[0\]'"),
    ("longmemeval", "0.haystack_sessions", [[], []], "record 0: every session is empty"),
    ("longmemeval", "0.haystack_sessions.0", {}, r"record 0, field 'haystack_sessions\[0\]'"),
    ("longmemeval", "0.haystack_sessions.0.0.role", ..., r"record 0, field 'haystack_sessions\[0\]\[0\].role'"),
    ("longmemeval", "0.haystack_sessions.0.0.content", 4, r"field 'haystack_sessions\[0\]\[0\].content'"),
    ("longmemeval", "0.haystack_sessions.0.0.has_answer", "maybe", "has_answer'"),
]  # fmt: skip


def put(content: Any, path: str, value: Any) -> None:
    """Put a value at a path of keys and numbers, or take away what is there."""
    *keys, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in keys:
        content = content[key]
    if value is ...:
        del content[last]
    else:
        content[last] = value


@pytest.mark.parametrize(("name", "path", "value", "place"), SPOILED)
def test_spoiled_files_end_in_place_and_field(name: str, path: str, value: Any, place: str, tmp_path: Path):
    folder = tmp_path / name
    shutil.copytree(DATA / name, folder)
    file = folder / FILES[name]
    content = json.loads(file.read_text())
    put(content, path, value)
    file.write_text(json.dumps(content))
    with pytest.raises(BadData, match=place):
        cases(name, folder)


FACTS = {"context": "'1. A is B.\n2. A is C.'", "questions": "['q']", "answers": "[['C']]", "metadata": "null"}


@pytest.mark.parametrize(
    ("columns", "place"),
    [
        ({"context": None}, "no column context"),
        ({"context": "null"}, "row 0, field 'context'"),
        ({"context": "''"}, "row 0, field 'context'"),
        ({"context": "'x'", "metadata": "{'source': 'factconsolidation_sh_6k'}"}, "row 0, field 'context'"),
        ({"questions": "['q', 'r']"}, "row 0, field 'answers'"),
        ({"questions": "[null]::varchar[]"}, "row 0, field 'questions.0'"),
        ({"answers": "[[]::varchar[]]"}, "row 0, field 'answers.0'"),
        ({"answers": "[[true]]"}, "row 0, field 'answers.0.0'"),
        ({"metadata": "'x'"}, "row 0, field 'metadata'"),
    ],
)
def test_spoiled_rows_of_a_parquet_file_end_in_row_and_field(
    columns: dict[str, str | None], place: str, tmp_path: Path
):
    import duckdb

    file = tmp_path / "Conflict_Resolution-00000-of-00001.parquet"
    chosen = {name: value for name, value in (FACTS | columns).items() if value is not None}
    selected = ", ".join(f"{value} {name}" for name, value in chosen.items())
    duckdb.execute(f"copy (select {selected}) to '{file}' (format parquet)")
    with pytest.raises(BadData, match=place):
        cases("memory_agent_bench", tmp_path, splits="conflict")


def test_answers_that_are_numbers_are_texts(tmp_path: Path):
    for name, path in (("locomo", "0.qa.0.answer"), ("beam", f"{QUESTION}.answer"), ("longmemeval", "0.answer")):
        folder = tmp_path / name
        shutil.copytree(DATA / name, folder)
        content = json.loads((folder / FILES[name]).read_text())
        put(content, path, 52)
        (folder / FILES[name]).write_text(json.dumps(content))
        assert any(probe.gold == ("52",) for case in cases(name, folder) for probe in case.probes)


def test_rubrics_and_criteria_go_to_the_judges():
    update = next(probe for probe in cases("beam")[0].probes if probe.kind == "knowledge_update")
    assert update.rubric == ("LLM response should state: 52",) and "equivalence" in update.scorers
    first, unknown, _ = cases("longmemeval")
    assert first.probes[0].criterion == "update" and unknown.probes[0].criterion == "abstention"
    assert {probe.scorers[1] for probe in cases("locomo")[0].probes} == {"locomo_f1"}


def test_a_folder_without_conversations_is_missing(tmp_path: Path):
    for name in CLASSES:
        with pytest.raises(MissingData, match=f"emend data pull {name}"):
            cases(name, tmp_path)


def test_a_conversation_of_beam_whose_file_is_gone_is_missing_data(tmp_path: Path):
    shutil.copytree(DATA / "beam", tmp_path / "beam")
    (tmp_path / "beam" / "2.json").unlink()
    (tmp_path / "beam" / "2.json").symlink_to(tmp_path / "none")
    with pytest.raises(MissingData, match=r"2\.json"):
        cases("beam", tmp_path / "beam")
