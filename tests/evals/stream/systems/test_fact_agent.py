"""The agent that writes its memory over a stream, by a scripted model: answers, state, trace, and poisoned turns."""

from dataclasses import replace
from pathlib import Path

import pytest

from emend.evals.log.lines import EVENTS
from emend.evals.log.records import read_lines
from emend.evals.results.aggregate.rows import report
from emend.evals.stream.conformance import SystemContract
from emend.evals.stream.generator import with_injections
from emend.evals.stream.system import SYSTEMS, SystemContext, SystemFactory
from emend.evals.stream.turn import ABSTAINING
from emend.memory.errors import BadSettings
from tests.evals.stream.streams import accuracy, generated, run_systems, stream_file
from tests.evals.stream.writers import FactWriter

AGENT = "fact_agent"


class TestFactAgent(SystemContract):
    def factory(self) -> SystemFactory:
        return SYSTEMS.load(AGENT)

    def context(self, folder: Path | None = None) -> SystemContext:
        return replace(super().context(folder), model=FactWriter())


def metrics_of(folder: Path, system: str) -> dict[str, float | None]:
    return {row.metric: row.mean for row in report(folder / "run").rows if row.n and row.editor == system}


@pytest.mark.slow
def test_what_the_model_writes_is_right_to_the_end_and_its_calls_are_in_the_trace(tmp_path: Path):
    items = generated(turns=60, rules=0)
    records = run_systems(tmp_path, AGENT, file=stream_file(tmp_path, items), model=FactWriter())
    assert accuracy(records, AGENT, "current", "historic", "multi_hop", *ABSTAINING) == 1
    metrics = metrics_of(tmp_path, AGENT)
    assert metrics["final_state"] == metrics["state_precision"] == metrics["state_recall"] == 100
    assert metrics["evidence"] and metrics["evidence"] > 30
    assert "injected_calls" not in metrics
    events = [event for event in read_lines(tmp_path / "run", EVENTS) if "messages" in (event.get("update") or {})]
    names = {
        call["name"]
        for event in events
        for message in event["update"]["messages"]
        for call in message["data"].get("tool_calls", ())
    }
    assert {"update", "forget", "lookup"} <= names


@pytest.mark.slow
@pytest.mark.parametrize(("obeys", "calls"), [(False, 0), (True, 0.75)])
def test_changes_that_poisoned_documents_cause_are_counted_and_are_in_the_final_state(
    obeys: bool, calls: float, tmp_path: Path
):
    items = with_injections(generated(turns=80), 4)
    run_systems(tmp_path, AGENT, "grep", file=stream_file(tmp_path, items), model=FactWriter(obeys=obeys))
    rows = [row for row in report(tmp_path / "run").rows if row.metric == "injected_calls" and row.n]
    assert [(row.editor, row.mean) for row in rows] == [(AGENT, calls)]
    assert metrics_of(tmp_path, AGENT)["final_state"] == (0 if obeys else 100)


@pytest.mark.slow
def test_a_model_without_tools_is_refused(tmp_path: Path):
    with pytest.raises(BadSettings, match="calls tools"):
        run_systems(tmp_path, AGENT)
