"""Files of published benchmarks, written by hand in their shape."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from emend.evals.streams.loaders import load_stream
from emend.evals.streams.turn import StreamQuestion, Turn, segments, write_stream
from emend.memory.errors import BadData, MissingData
from tests.evals.streams.streams import accuracy, generated, run_systems

CONTEXT = """Here is a list of facts:
0. The author of Ostrim is Ana Rojo.
1. Aske Works is in Brask.
2. The author of Ostrim is Bo Vera.
"""


def parquet(folder: Path, **changed: Any) -> Path:
    """The conflict split, with one row about something else."""
    row = {
        "context": CONTEXT,
        "questions": ["Who is the author of Ostrim?", "Where is Aske Works?"],
        "answers": [["Bo Vera", "B. Vera"], ["Brask"]],
        "metadata": {"source": "factconsolidation_sh_6k", "qa_pair_ids": ["a", "b"]},
    }
    rows = [row | changed, row | {"metadata": {"source": "eventqa_full", "qa_pair_ids": []}}]
    source, file = folder / "rows.json", folder / "conflict.parquet"
    source.write_text(json.dumps(rows))
    with duckdb.connect() as database:
        database.execute(f"copy (select * from read_json('{source}')) to '{file}' (format parquet)")
    return file


ENTRY: dict[str, Any] = {
    "question_id": "q1",
    "question_type": "knowledge-update",
    "question": "Where do I live?",
    "answer": "Halden",
    "question_date": "2023/06/01 (Thu) 09:00",
    "haystack_session_ids": ["s2", "s1"],
    "haystack_dates": ["2023/05/30 (Tue) 23:40", "2023/05/20 (Sat) 02:21"],
    "haystack_sessions": [
        [{"role": "user", "content": "I moved to Halden.", "has_answer": True}],
        [{"role": "user", "content": "I live in Brask."}, {"role": "assistant", "content": "Nice."}],
    ],
    "answer_session_ids": ["s2"],
}


def longmemeval(folder: Path, *entries: dict[str, Any]) -> Path:
    file = folder / "longmemeval_s_cleaned.json"
    file.write_text(json.dumps(list(entries)))
    return file


def test_numbered_facts_of_the_conflict_split_are_turns(tmp_path: Path):
    items = [item for item in load_stream(parquet(tmp_path)) if item.stream == "factconsolidation_sh_6k"]
    assert [item.text for item in items if isinstance(item, Turn)] == CONTEXT.splitlines()[1:]
    questions = [item for item in items if isinstance(item, StreamQuestion)]
    assert [(each.kind, each.gold, each.place) for each in questions] == [
        ("current", ("Bo Vera", "B. Vera"), 3),
        ("current", ("Brask",), 3),
    ]


def test_questions_over_two_facts_are_told_by_the_source(tmp_path: Path):
    file = parquet(tmp_path, metadata={"source": "factconsolidation_mh_6k", "qa_pair_ids": []})
    kinds = {item.stream: item.kind for item in load_stream(file) if isinstance(item, StreamQuestion)}
    assert kinds == {"factconsolidation_mh_6k": "multi_hop", "eventqa_full": "current"}


def test_sessions_are_read_in_the_order_of_their_dates_with_a_stream_for_each_question(tmp_path: Path):
    unknown = ENTRY | {"question_id": "q2_abs", "answer": "You did not say."}
    first, second = segments(load_stream(longmemeval(tmp_path, ENTRY, unknown)))
    assert [turn.text for turn in first.turns] == ["I live in Brask.", "Nice.", "I moved to Halden."]
    assert [(turn.date, turn.role) for turn in first.turns][1:] == [
        ("2023-05-20 02:21", "assistant"),
        ("2023-05-30 23:40", "user"),
    ]
    (question,), (abstaining,) = first.questions, second.questions
    assert (question.kind, question.gold, question.evidence) == ("current", ("Halden",), (first.turns[2].id,))
    assert (abstaining.kind, abstaining.gold, abstaining.abstains) == ("abstention", (), True)
    assert {turn.stream for turn in second.turns} == {"q2_abs"}


EPISODE: dict[str, Any] = {
    "episode_id": "pl_001",
    "domain": "personal_life",
    "sessions": [
        {
            "session_id": "s1",
            "type": "evidence",
            "timestamp": "2023/03/03 (Fri) 11:55",
            "conversation": [
                {"role": "user", "content": "I take Zalvex. If my health changes, I take Thryne."},
                {"role": "assistant", "content": "Noted."},
            ],
            "gold_facts": [{"entity": "medication", "value": "Zalvex"}, {"entity": "health"}],
        },
        {"session_id": "f1", "type": "filler", "conversation": [{"role": "user", "content": "Tell me a joke."}]},
        {
            "session_id": "s2",
            "type": "evidence",
            "timestamp": "2023/03/20 (Mon) 08:00",
            "conversation": [{"role": "user", "content": "My health has changed. Forget my address."}],
            "gold_facts": [{"entity": "health"}],
        },
    ],
    "before_questions": {
        "timestamp": "2023/03/19 (Sun) 00:18",
        "position_after_session": 1,
        "questions": [
            {"task_type": "Cas", "entity": ["medication"], "question": "What do I take?", "expected_answer": "Zalvex"}
        ],
    },
    "after_questions": {
        "timestamp": "2023/03/27 (Mon) 06:29",
        "position_after_session": 2,
        "questions": [
            {
                "task_type": "Cas",
                "entity": ["medication"],
                "question": "What do I take now?",
                "gold_answer": "Thryne",
                "hop": 2,
            },
            {"task_type": "Del", "entity": "address", "question": "Where do I live?", "gold_answer": "not known"},
        ],
    },
}


def meme(folder: Path, *episodes: dict[str, Any]) -> Path:
    file = folder / "meme_filler32k.json"
    file.write_text(json.dumps(list(episodes)))
    return file


def test_questions_of_an_episode_come_after_the_sessions_at_which_they_are_asked(tmp_path: Path):
    before, after = segments(load_stream(meme(tmp_path, EPISODE)))
    assert [len(before.turns), len(after.turns)] == [3, 1]
    assert [(each.kind, each.gold, each.date) for each in before.questions] == [
        ("current", ("Zalvex",), "2023-03-19 00:18")
    ]
    cascade, deleted = after.questions
    assert (cascade.kind, cascade.gold, cascade.hops, cascade.place) == ("cascade", ("Thryne",), 2, 4)
    assert [(wrong.value, wrong.why) for wrong in cascade.wrong] == [("Zalvex", "stale")]
    assert cascade.evidence == tuple(turn.id for turn in before.turns[:2])
    assert (before.questions[0].age, cascade.age, deleted.age) == (1, 2, 0)
    assert (deleted.kind, deleted.gold, deleted.abstains, deleted.evidence) == ("deleted", (), True, ())
    assert {turn.role for turn in before.turns} == {"user", "assistant"}


def test_emends_own_lines_are_read_too(tmp_path: Path):
    items = generated(turns=20)
    write_stream(items, tmp_path / "own.jsonl")
    assert load_stream(tmp_path / "own.jsonl") == items


@pytest.mark.slow
def test_systems_are_asked_over_all(tmp_path: Path):
    from tests.evals.toys import ScriptedModel

    two = longmemeval(tmp_path, ENTRY, ENTRY | {"question_id": "q2"})
    for file, count in ((parquet(tmp_path), 8), (two, 4), (meme(tmp_path, EPISODE), 6)):
        records = run_systems(tmp_path / file.stem, "full_context", "memory", file=file, model=ScriptedModel())
        assert len(records) == count
        assert 0 <= accuracy(records, "full_context") <= 1


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("x.json", "{}", "not a list"),
        ("x.json", json.dumps([{"question_id": "q"}]), "entry 0, question_type"),
        ("x.json", json.dumps([ENTRY | {"haystack_dates": []}]), "entry 0"),
        ("x.json", json.dumps([ENTRY | {"question_type": "odd"}]), "entry 0"),
        ("x.json", json.dumps([EPISODE | {"sessions": [{}]}]), "entry 0, sessions.0"),
        ("x.json", json.dumps([EPISODE, EPISODE | {"episode_id": "x", "after_questions": {}}]), "entry 1, after_q"),
        ("x.parquet", "not parquet", "x.parquet"),
    ],
)
def test_another_file_is_refused_with_the_place(tmp_path: Path, name: str, content: str, place: str):
    (tmp_path / name).write_text(content)
    with pytest.raises(BadData, match=place) as error:
        load_stream(tmp_path / name)
    assert "huggingface.co/datasets" in str(error.value)


def test_a_conflict_context_without_facts_is_refused(tmp_path: Path):
    with pytest.raises(BadData, match="row 0, field 'context'"):
        load_stream(parquet(tmp_path, context="nothing numbered"))


@pytest.mark.parametrize("name", ["none.json", "none.parquet", "none.jsonl"])
def test_a_missing_file_is_an_error(tmp_path: Path, name: str):
    with pytest.raises(MissingData, match="none"):
        load_stream(tmp_path / name)
