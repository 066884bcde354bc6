"""Conversations are asked by `emend run` and `emend stream run` alike, with corrected answers."""

import json
from pathlib import Path

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.judging.scorings.search import find_scoring
from emend.evals.judging.scorings.verdicts import judged_records
from emend.evals.log.records import read_records
from emend.evals.streams.loaders import load_stream
from emend.evals.streams.run.job import run_stream
from emend.evals.streams.stream_config import StreamConfig
from emend.evals.streams.turn import StreamQuestion, Turn
from tests.evals.toys import ScriptedModel
from tests.fakes import ScriptedChatModel
from tests.paths import DATA

ENTRY = {"question_id": "locomo_0_qa0", "question": "Which pet did Tom adopt?", "correct_answer": "a grey cat"}


@pytest.fixture
def corrections(tmp_path: Path) -> str:
    file = tmp_path / "errors.json"
    file.write_text(json.dumps([ENTRY]))
    return str(file)


@pytest.mark.parametrize("file", ["locomo/locomo10.json", "beam", "beam/1.json"])
def test_conversations_are_streams_with_evidence(file: str):
    items = load_stream(DATA / file)
    turns = {item.id for item in items if isinstance(item, Turn)}
    questions = [item for item in items if isinstance(item, StreamQuestion)]
    assert all(set(question.evidence) <= turns for question in questions)
    assert any(question.evidence for question in questions) and any(question.abstains for question in questions)


@pytest.mark.slow
def test_a_run_and_a_stream_have_the_corrected_answer(corrections: str, tmp_path: Path):
    config = RunConfig(
        benchmark="locomo",
        data=str(DATA / "locomo"),
        editors=("rag",),
        retriever="conversation",
        embedding="lexical",
        corrections=corrections,
        limit=1,
    )
    run(config, tmp_path / "run", model=ScriptedModel())
    golds = {record.probe: record.gold for record in read_records(tmp_path / "run")}
    assert golds["toy-1:q0"] == ("a grey cat",) and len(golds) == 5
    stream = StreamConfig(systems=("full_context",), corrections=corrections, limit=1)
    run_stream(DATA / "locomo" / "locomo10.json", stream, tmp_path / "stream", model=ScriptedModel())
    golds = {record.probe: record.gold for record in read_records(tmp_path / "stream")}
    assert golds["toy-1:q0"] == ("a grey cat",)


@pytest.mark.slow
def test_published_scores_stand_beside_and_judges_find_their_questions(tmp_path: Path):
    config = RunConfig(
        benchmark="beam", data=str(DATA / "beam"), editors=("rag",), retriever="conversation", embedding="lexical"
    )
    run(config, tmp_path / "run", model=ScriptedModel())
    outputs = {record.kind: {*record.values, *record.unscored} for record in read_records(tmp_path / "run")}
    assert "equivalence" in outputs["knowledge_update"] and "equivalence" not in outputs["abstention"]
    judge = ScriptedChatModel(reply=lambda _: '{"statements": [{"number": 1, "reason": "said", "score": 0.5}]}')
    summary = score_run(tmp_path / "run", Panel(judges=("a",)), ["nuggets"], models={"a": judge})
    assert summary.items["nuggets"] >= 1
    scoring = find_scoring(tmp_path / "run")
    judged = [record.values for record in judged_records(tmp_path / "run", scoring) if "nuggets" in record.values]
    assert judged and all((values["nuggets"], values["nuggets_code"]) == (0.5, 0.0) for values in judged)
    long = config.model_copy(update={"benchmark": "longmemeval", "data": str(DATA / "longmemeval")})
    run(long, tmp_path / "long", model=ScriptedModel())
    judge = ScriptedChatModel(reply=lambda _: '{"reason": "It is.", "verdict": "yes"}')
    summary = score_run(tmp_path / "long", Panel(judges=("a",)), ["remembered"], models={"a": judge})
    assert summary.items["remembered"] == 3 and summary.unscored == 0
