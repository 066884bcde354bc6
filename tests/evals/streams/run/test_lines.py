"""Lines of a stream: turns with what they cost and the store after them, and answers with typed gold."""

from pathlib import Path

import pytest

from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.evals.results.aggregate.rows import report
from emend.evals.streams.fairness import OracleReader
from emend.evals.streams.run.job import load_job, run_stream
from emend.evals.streams.run.line import JOB, AnswerLine, TurnsLine, read_stream_lines
from emend.evals.streams.stream_config import StreamConfig
from emend.memory.errors import BadSettings, RunRefused
from emend.memory.registry import trust_names
from tests.evals.streams.streams import READER, generated, questions_of, run_systems, stream_file, turns_of
from tests.evals.streams.writers import USAGE, FactWriter


def test_a_place_has_a_line_for_its_turns_and_one_for_each_answer(tmp_path: Path):
    items = generated(turns=30)
    run_systems(tmp_path, "grep", "empty", file=stream_file(tmp_path, items))
    lines = [line for line in read_stream_lines(tmp_path / "run") if line.editor == "grep"]
    turns = [line for line in lines if isinstance(line, TurnsLine)]
    observed = [turn for line in turns for turn in line.turns]
    assert observed == [turn.id for turn in turns_of(items)][: len(observed)]
    assert [line.store.items for line in turns] == [line.place for line in turns]
    answers = {line.probe: line for line in lines if isinstance(line, AnswerLine)}
    for question in questions_of(items):
        line = answers[question.id]
        assert (line.kind, line.hops, line.age, line.place) == (
            question.kind,
            question.hops,
            question.age,
            question.place,
        )
        assert (line.wrong, line.evidence, line.tags) == (question.wrong, question.evidence, {})
        assert line.abstains == question.abstains and (question.abstains or line.gold == question.gold)
    assert {record.probe for record in read_records(tmp_path / "run")} == answers.keys()


def test_calls_by_which_turns_are_read_are_in_the_line_and_in_the_costs_of_a_turn(tmp_path: Path):
    run_systems(tmp_path, "fact_agent", file=stream_file(tmp_path, generated(turns=12)), model=FactWriter())
    usages = [line.usage for line in read_stream_lines(tmp_path / "run") if isinstance(line, TurnsLine)]
    assert all(usage.calls > 0 for usage in usages)
    assert all(usage.input_tokens == USAGE["input_tokens"] * usage.calls for usage in usages)
    costs = {row.metric: row for row in report(tmp_path / "run").costs}
    assert costs["calls/turn"].mean and costs["calls/turn"].mean >= 1 and costs["s/turn"].n == len(usages)
    assert "s/edit" not in costs


def test_a_run_goes_on_from_its_folder_alone_and_asks_nothing_twice(tmp_path: Path):
    file = stream_file(tmp_path, generated(turns=20))
    trust_names([READER])
    config = StreamConfig(systems=("grep",), model=READER, limit=2, budget=200)
    run_stream(file, config, tmp_path / "run")
    assert Manifest.read(tmp_path / "run").job == JOB
    job = load_job(tmp_path / "run", {})
    assert (job.setup.config, job.setup.source.file) == (config, file)
    (lane,) = job.lanes()
    finished = {line.unit for line in read_stream_lines(tmp_path / "run")}
    assert {unit.key for unit in lane.units} == finished
    assert not list(job.tasks(finished, 2)) and len(list(job.tasks((), 2))) == 1
    job.close()


def test_a_folder_of_another_stream_is_refused(tmp_path: Path):
    run_systems(tmp_path, "empty", file=stream_file(tmp_path, generated(turns=20)), limit=1)
    with pytest.raises(RunRefused, match="cases"):
        run_systems(tmp_path, "empty", file=stream_file(tmp_path, generated(turns=20, seed=5)), limit=1)


def test_an_editor_that_changes_weights_is_no_memory_system(tmp_path: Path):
    with pytest.raises(BadSettings, match="rag"):
        run_systems(tmp_path, "rome", model=OracleReader())
