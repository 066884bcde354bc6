"""The agent that writes its memory over a stream, by a scripted model: answers, state, trace, and poisoned turns."""

from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from emend.evals.log.lines import EVENTS
from emend.evals.log.records import read_lines
from emend.evals.results.aggregate.rows import report
from emend.evals.streams.conformance import SystemContract
from emend.evals.streams.generator import with_injections
from emend.evals.streams.run.line import AnswerLine, TurnsLine, read_stream_lines
from emend.evals.streams.system import SYSTEMS, SystemContext, SystemFactory
from emend.evals.streams.turn import ABSTAINING
from emend.memory.errors import BadSettings
from tests.evals.streams.streams import accuracy, generated, run_systems, stream_file
from tests.evals.streams.writers import FactWriter
from tests.provider.models import asked_model
from tests.provider.protocols import Asked, Said, ToolCall
from tests.provider.server import Provider

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


def scripted(asked: Asked) -> Said:
    """The reply of the writer to a request, over the wire."""
    messages = [
        ToolMessage(text, tool_call_id="") if role == "tool" else HumanMessage(text) for role, text in asked.messages
    ]
    message = FactWriter().invoke(messages, tools=asked.tools)
    return Said(message.text, [ToolCall(call["name"], call["args"]) for call in message.tool_calls])


@pytest.mark.slow
def test_the_calls_at_the_server_are_those_in_the_lines_of_200_turns(tmp_path: Path):
    items = generated(turns=200)
    with Provider(scripted) as provider:
        run_systems(tmp_path, AGENT, file=stream_file(tmp_path, items), model=asked_model(provider))
        requests = len(provider.requests)
    calls = dict.fromkeys((TurnsLine, AnswerLine), 0)
    for line in read_stream_lines(tmp_path / "run"):
        calls[type(line)] += line.usage.calls if line.usage else 0
    assert calls[TurnsLine] >= 200
    assert calls[AnswerLine] > 0
    assert sum(calls.values()) == requests
