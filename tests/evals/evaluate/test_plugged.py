"""What a user's own editor, model or strategy does in a run is told of like everything else."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, StateGraph

from emend.editors.base import EditorContext
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.lines import ERRORS, EVENTS, RECORDS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines, read_records
from emend.evals.results.aggregate.rows import report
from emend.graphs.rag import RagState
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings, EditorUnusable, MissingData
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.base import Corpus, Hit
from tests.evals.toys import BENCHMARK
from tests.fakes import ScriptedChatModel


class Asking:
    """Asks the model inside a graph of its own, and tells neither steps nor cost."""

    name: ClassVar[str] = "asking"
    needs_weights: ClassVar[bool] = False

    def __init__(self, context: EditorContext) -> None:
        self.context = context
        graph = StateGraph(RagState)
        graph.add_node("speak", lambda state: {"reply": str(context.model.invoke(state["prompt"]).text)})
        graph.add_edge(START, "speak")
        graph.add_edge("speak", END)
        self.app = graph.compile(name="mine")

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"editor": self.name, "graph": "mine"}

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Any]:
        yield self

    def answer(self, probe: Probe) -> Answer:
        return Answer(text=self.app.invoke({"prompt": probe.prompt})["reply"], prompt=probe.prompt)


class Chatty(Asking):
    """Answers with a text, which is no `Answer`."""

    def answer(self, probe: Probe) -> Any:
        return "New-0"


class Undrawn(Asking):
    """Names a graph that is nowhere."""

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        del self.app

    def answer(self, probe: Probe) -> Answer:
        return Answer(text="New-0", prompt=probe.prompt)


class Failing:
    """A strategy with a mistake in it."""

    def __init__(self, corpus: Corpus) -> None:
        pass

    def search(self, query: str, k: int) -> list[Hit]:
        raise KeyError("boom")


class Stringy(Failing):
    """A strategy that returns texts."""

    def search(self, query: str, k: int) -> Any:
        return ["The capital of Land0 is New-0."]


class Silent(BaseChatModel):
    """A model that does not tell its tokens."""

    @property
    def _llm_type(self) -> str:
        return "silent"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("New-0"))])


def config(**changed: Any) -> RunConfig:
    fields = {"benchmark": BENCHMARK, "editors": ("tests.evals.evaluate.test_plugged:Asking",), "embedding": "lexical"}
    return RunConfig.model_validate(fields | {"model": "scripted", "fail_on_error": "false"} | changed)


def test_an_editors_calls_are_counted_and_traced_and_its_own_graph_is_drawn(tmp_path: Path) -> None:
    run(
        config(benchmark_options={"cases": "2"}),
        tmp_path / "run",
        model=ScriptedChatModel(reply=lambda prompt: "New-0"),
    )
    records = [record for record in read_records(tmp_path / "run") if record.kind == "efficacy"]
    assert all(record.usage.calls == 1 and record.usage.input_tokens > 0 for record in records)
    assert all(record.path == ("answer",) for record in records)
    events = [line for line in read_lines(tmp_path / "run", EVENTS) if line.get("node") == "answer"]
    assert all(len(event["calls"]) == 1 for event in events) and events
    assert "speak" in Manifest.read(tmp_path / "run").graphs["mine"]["mermaid"]


def test_a_graph_that_is_not_there_is_left_out_of_the_manifest(tmp_path: Path) -> None:
    plan = config(editors=("tests.evals.evaluate.test_plugged:Undrawn",), benchmark_options={"cases": "1"})
    run(plan, tmp_path / "run", model=ScriptedChatModel(reply=lambda prompt: "New-0"))
    assert Manifest.read(tmp_path / "run").graphs == {}


def test_an_editor_that_answers_with_something_else_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="test_plugged:Chatty' answered with 'New-0', not with an Answer"):
        run(config(editors=("tests.evals.evaluate.test_plugged:Chatty",)), tmp_path / "run", model=Silent())


@pytest.mark.parametrize(("strategy", "says"), [("Failing", "KeyError: 'boom'"), ("Stringy", "not a list of hits")])
def test_a_strategy_that_fails_is_named(tmp_path: Path, strategy: str, says: str) -> None:
    plan = config(
        editors=("rag",), retriever=f"tests.evals.evaluate.test_plugged:{strategy}", benchmark_options={"cases": "1"}
    )
    assert run(plan, tmp_path / "run", model=Silent()).failed == 1
    (line,) = read_lines(tmp_path / "run", ERRORS)
    assert line["error"] == "BadData" and f"test_plugged:{strategy}' fails on" in line["message"]
    assert says in line["message"]


def test_tokens_that_nobody_told_are_unscored_and_not_0(tmp_path: Path) -> None:
    run(config(editors=("rag",), benchmark_options={"cases": "2"}, concurrency=1), tmp_path / "run", model=Silent())
    reported = report(tmp_path / "run")
    assert {"s/probe"} <= {row.metric for row in reported.costs} and "in/probe" not in {
        row.metric for row in reported.costs
    }
    assert reported.spent and reported.spent.untold == reported.spent.calls > 0


@pytest.mark.slow
def test_intervals_do_not_depend_on_the_order_in_which_threads_wrote(tmp_path: Path) -> None:
    replies = {f"Land{n}": f"New-{n}" if n % 3 else "no" for n in range(30)}
    model = ScriptedChatModel(reply=lambda prompt: next((replies[w] for w in prompt.split() if w in replies), "no"))
    run(config(editors=("rag",), benchmark_options={"cases": "30"}), tmp_path / "run", model=model)
    first = report(tmp_path / "run").rows
    lines = (tmp_path / "run" / RECORDS).read_text(encoding="utf-8").splitlines(keepends=True)
    units = [lines[at : at + 2] for at in range(0, len(lines), 2)]
    random.Random(0).shuffle(units)
    (tmp_path / "run" / RECORDS).write_text("".join(line for unit in units for line in unit), encoding="utf-8")
    assert report(tmp_path / "run").rows == first
    assert any(row.low != row.high for row in first)


class Lacking(Asking):
    """Needs a file that is not there."""

    def __init__(self, context: EditorContext) -> None:
        raise MissingData("no covariance of layers [4, 5]: emend prepare covariance --model hf:FOLDER")


class Toolless(Asking):
    """Needs a model that calls tools."""

    def __init__(self, context: EditorContext) -> None:
        raise EditorUnusable("needs a model that calls tools: take another.")


def test_an_editor_that_cannot_work_with_the_model_does_not_stop_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asking, lacking, toolless = (
        f"tests.evals.evaluate.test_plugged:{name}" for name in ("Asking", "Lacking", "Toolless")
    )
    config = {"benchmark": BENCHMARK, "model": "scripted"}
    chosen = RunConfig.model_validate(config | {"editors": (lacking, asking, toolless)})
    summary = run(chosen, tmp_path / "run", model=ScriptedChatModel(reply=lambda prompt: "New-0"))
    assert not summary.failed
    records = list(read_records(tmp_path / "run"))
    assert {record.editor for record in records if not record.unscored} == {asking}
    assert all("covariance" in str(record.unscored) for record in records if record.editor == lacking)
    notes = "\n".join(report(tmp_path / "run").notes)
    for editor, remedy in ((lacking, "emend prepare covariance"), (toolless, "take another")):
        assert editor in notes and remedy in notes and remedy in caplog.text
    with pytest.raises(MissingData, match="emend prepare covariance"):
        alone = RunConfig.model_validate(config | {"editors": (lacking, toolless)})
        run(alone, tmp_path / "alone", model=ScriptedChatModel(reply=lambda prompt: "New-0"))
