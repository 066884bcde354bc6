"""Graphiti over a generated stream: dates, ends and partitions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emend.evals.streams.fairness import answer_prompt
from emend.evals.streams.system import SystemContext
from emend.evals.streams.systems.graphiti import Graphiti
from emend.evals.streams.turn import StreamQuestion, Turn
from tests.evals.streams.extraction import write_down
from tests.evals.streams.streams import accuracy, generated, run_systems, stream_file
from tests.provider.models import asked_model
from tests.provider.server import Provider

pytestmark = pytest.mark.slow
SAID = (
    Turn(date="2025-01-01", text="The employer of Ana is Calder."),
    Turn(date="2025-02-01", text="Update: The employer of Ana is Tarn."),
    Turn(date="2025-02-02", user="ben", text="The employer of Ana is Zemla."),
)
QUESTION = StreamQuestion(text="What is the employer of Ana?", kind="current")


@pytest.fixture
def provider() -> Iterator[Provider]:
    pytest.importorskip("graphiti_core", reason="graphiti-core is not installed")
    with Provider(lambda asked: write_down(asked) or answer_prompt(asked.prompt)) as provider:
        yield provider


def test_a_fact_that_another_contradicts_has_an_end_and_users_are_apart(provider: Provider):
    system = Graphiti(SystemContext(model=asked_model(provider)))
    for turn in SAID:
        system.observe(turn)
    items = {item.text: (item.turn, item.date) for item in system.context_for(QUESTION, "")}
    assert items == {
        "user: The employer of Ana is Calder. (until 2025-02-01)": (SAID[0].id, "2025-01-01"),
        "user: Update: The employer of Ana is Tarn.": (SAID[1].id, "2025-02-01"),
    }
    assert {(fact.user, fact.object) for fact in system.state()} == {("user", "Tarn"), ("ben", "Zemla")}
    system.close()


def test_every_turn_of_a_stream_is_read(provider: Provider, tmp_path: Path):
    file = stream_file(tmp_path, generated(turns=60, seed=2))
    records = run_systems(tmp_path, "graphiti", file=file, model=asked_model(provider))
    assert accuracy(records, "graphiti", "current", "set", "historic") == 1
    assert not (tmp_path / "run" / "errors.jsonl").read_text()
