"""Conversations of benchmarks as streams: who speaks, and the scores and judges of their benchmark."""

import json
from pathlib import Path
from typing import Any

import pytest

from emend.agents.judging.conversations import Nuggets
from emend.evals.data.conversations.conversation import (
    ConversationMessage,
    ConversationQuestion,
    DatedConversation,
)
from emend.evals.judging.items import plan
from emend.evals.judging.panel import load_judge
from emend.evals.streams.loaders import conversation_stream, load_stream
from emend.evals.streams.run.scores import score_answer
from emend.evals.streams.system import item_of
from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.probe import Answer
from tests.evals.streams.streams import Items, run_systems, stream_file
from tests.fakes import ScriptedChatModel

TALK: list[dict[str, Any]] = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ida",
            "speaker_b": "Tom",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ida", "dia_id": "D1:1", "text": "I moved to Oslo with two cats."},
                {"speaker": "Tom", "dia_id": "D1:2", "text": "What a pity!"},
            ],
        },
        "qa": [
            {"question": "Where did Ida move?", "answer": "Oslo, Norway", "evidence": ["D1:1"], "category": 1},
            {"question": "Where did Tom move?", "evidence": ["D1:1"], "category": 5, "adversarial_answer": "Oslo"},
        ],
    }
]


def test_the_age_of_a_question_is_the_number_of_turns_since_its_last_evidence(tmp_path: Path):
    questions = [item for item in load_stream(locomo(tmp_path)) if isinstance(item, StreamQuestion)]
    assert [(question.place, question.age) for question in questions] == [(2, 1), (2, 1)]


def locomo(folder: Path) -> Path:
    file = folder / "locomo10.json"
    file.write_text(json.dumps(TALK))
    return file


def without_scorers(folder: Path) -> Path:
    """The talk as a stream whose answers are scored by rules alone."""
    questions = {"scorers": ()}
    items = [
        item.model_copy(update=questions) if isinstance(item, StreamQuestion) else item
        for item in load_stream(locomo(folder))
    ]
    return stream_file(folder, items)


@pytest.mark.parametrize(
    ("answer", "right"),
    [("First to Norway. It was cold, and they now live in Oslo.", 1.0), ("To Oslo.", 0.0)],
)
def test_an_answer_of_several_parts_is_to_have_each_as_in_a_run(tmp_path: Path, answer: str, right: float):
    question = next(item for item in load_stream(without_scorers(tmp_path)) if isinstance(item, StreamQuestion))
    assert score_answer(question, Answer(text=answer)).values["correct"] == right


@pytest.mark.slow  # the trained scorer parses sentences
def test_answers_about_a_conversation_get_the_scores_of_its_benchmark(tmp_path: Path):
    model = ScriptedChatModel(reply=lambda text: "Oslo" if "Ida move?" in text else "It is not mentioned.")
    hop, trap = run_systems(tmp_path, "full_context", file=locomo(tmp_path), model=model)
    assert hop.values["locomo_f1"] == 0.5  # the mean of Oslo and Norway
    assert "equivalence" in {**hop.values, **hop.unscored}
    assert trap.values["locomo_f1"] == 1 and "equivalence" not in {**trap.values, **trap.unscored}


def test_all_speakers_of_a_talk_are_in_one_memory(tmp_path: Path):
    records = run_systems(
        tmp_path, "retrieval", "memory", file=without_scorers(tmp_path), model=ScriptedChatModel(reply=lambda _: "Oslo")
    )
    assert {record.editor: record.values["evidence"] for record in records if record.kind == "multi_hop"} == {
        "retrieval": 1,
        "memory": 1,
    }


def conversation(**question: Any) -> Items:
    asked = {"id": "0", "text": "What came first?", "gold": ("a, then b",), "evidence": ("1",)} | question
    return list(
        conversation_stream(
            DatedConversation(
                id="talk",
                messages=(ConversationMessage(id="1", session="1", speaker="Ida", text="First a, then b."),),
                questions=(ConversationQuestion.model_validate(asked),),
            )
        )
    )


def test_a_turn_is_shown_with_its_speaker_s_name():
    turn, _ = conversation(kind="event_ordering", stream_kind="historic")
    assert isinstance(turn, Turn)
    assert item_of(turn).text == "Ida: First a, then b."


def test_judges_see_rubric_and_kind_of_the_benchmark(tmp_path: Path):
    items = conversation(kind="event_ordering", stream_kind="historic", rubric=("a is first", "b is second"))
    run_systems(
        tmp_path,
        "full_context",
        file=stream_file(tmp_path, items),
        model=ScriptedChatModel(reply=lambda _: "1. a\n2. b"),
    )
    judges = {name: load_judge(name) for name in ("nuggets", "order", "remembered")}
    ((_, picked),) = plan(tmp_path / "run", judges)
    assert {*picked} == {Nuggets.name, "order"}
    item = picked["nuggets"]
    assert not isinstance(item, str) and item.text_of("rubric") == "1. a is first\n2. b is second"


def test_a_system_sees_nothing_that_the_benchmark_s_scores_need():
    _, question = conversation(kind="summarization", stream_kind="set", rubric=("a",), scorers=("event_order",))
    assert isinstance(question, StreamQuestion)
    seen = question.without_gold()
    assert (seen.rubric, seen.scorers, seen.category) == ((), (), "")
