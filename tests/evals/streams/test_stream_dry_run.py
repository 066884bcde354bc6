"""Estimates of runs over streams beside what the same runs then need."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from emend.evals.log.records import read_records
from emend.evals.results.dry_run.stand_in import StandIn
from emend.evals.streams.estimate import estimate_stream
from emend.evals.streams.run.job import run_stream
from emend.evals.streams.stream_config import StreamConfig
from emend.evals.streams.system import ContextItem, SystemContext, item_of
from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.errors import MissingData
from emend.memory.registry import name_object
from tests.evals.streams.streams import generated, questions_of, stream_file


class TurnReader:
    """Asks the model about each turn, and recalls the last one."""

    def __init__(self, context: SystemContext) -> None:
        self.model = context.model
        self.last: list[Turn] = []

    def observe(self, turn: Turn) -> None:
        assert self.model is not None
        self.model.invoke(turn.text)
        self.last = [turn]

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        return [item_of(turn) for turn in self.last]


READER = name_object("TurnReader", TurnReader)
SYSTEMS = ("full_context", "grep", READER, "empty")


def config_of(**fields: Any) -> StreamConfig:
    fields = {"systems": SYSTEMS, "model": "openai:none", "embedding": "lexical"} | fields
    return StreamConfig(**fields)


@pytest.mark.slow
def test_an_estimate_is_near_what_the_run_needs_also_of_a_system_that_reads_turns(tmp_path: Path):
    items = generated(turns=150)
    file, config = stream_file(tmp_path, items), config_of()
    model = StandIn(text="a word")
    run_stream(file, config, tmp_path / "run", model=model)
    tokens = dict.fromkeys(SYSTEMS, 0)
    for record in read_records(tmp_path / "run"):
        tokens[record.editor] += record.usage.input_tokens
    tokens[READER] += model.usage.input_tokens - sum(tokens.values())
    questions = len(questions_of(items))
    turns = model.usage.calls - len(SYSTEMS) * questions

    rows = {row.editor: row for row in estimate_stream(str(file), config).rows}
    assert turns > 100 and rows[READER].calls == pytest.approx(questions + turns, abs=1)
    assert {name: rows[name].calls for name in ("full_context", "grep", "empty")} == dict.fromkeys(
        ("full_context", "grep", "empty"), questions
    )
    assert {name: row.input_tokens for name, row in rows.items()} == pytest.approx(tokens, rel=0.25)
    assert not (tmp_path / "systems").exists()


@pytest.mark.slow
def test_repeats_and_limits_change_the_estimate_as_they_change_the_run(tmp_path: Path):
    file = stream_file(tmp_path, generated(turns=40))
    whole, twice, few = (
        estimate_stream(str(file), config_of(systems=("empty",), **fields))
        for fields in ({}, {"repeats": 2}, {"limit": 3})
    )
    assert twice.total("calls") == 2 * whole.total("calls") and twice.total("units") == 2 * whole.total("units")
    assert few.total("units") == 3


def test_a_stream_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(MissingData, match="emend stream new"):
        estimate_stream(str(tmp_path / "none.jsonl"), config_of())
