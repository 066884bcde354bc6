"""`emend ask` with a user's editor, model or strategy: errors as in a run; one question ends no session."""

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.llm import load_model
from emend.editors.base import Answerer, EditorContext
from emend.evals.components.session import reading_of
from emend.graphs.execution import run_graph
from emend.graphs.rag import RagState
from emend.graphs.respond import RespondContext
from emend.memory.edit import Edit
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.base import Corpus, Entry, Hit
from tests.evals.command_line import emend
from tests.fakes import ScriptedChatModel, ScriptedScoringModel

HERE = "tests.evals.cli.test_session_own"
LINES = "The largest are:\n- Meburg\n- Salk"


def speak(prompt: str) -> str:
    """Several lines, or nothing at all where it is asked to break."""
    if "break" in prompt:
        raise KeyError("boom")
    return LINES


CHAT = ScriptedChatModel(reply=speak)
RUDE = ScriptedChatModel(reply=lambda prompt: "one\n\x1b[2Jtwo")


class Own:
    """Asks the model without a graph, and tells neither steps nor cost."""

    name: ClassVar[str] = "own"
    needs_weights: ClassVar[bool] = False
    fingerprint: ClassVar[dict[str, Any]] = {"editor": "own"}

    def __init__(self, context: EditorContext) -> None:
        self.model = context.model

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        yield self

    def answer(self, probe: Probe) -> Answer:
        return Answer(text=str(self.model.invoke(probe.prompt).text), prompt=probe.prompt)


class Unmade(Own):
    """Cannot be made."""

    def __init__(self, context: EditorContext) -> None:
        raise KeyError("boom")


class Silent(Own):
    """Forgets to return its answer."""

    def answer(self, probe: Probe) -> Any:
        return None


class Leaving(Own):
    """Fails when its edits are to be taken back."""

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        yield self
        raise KeyError("boom")


class SetState(RagState, total=False):
    """With values that JSON has not."""

    seen: set[str]
    probe_itself: object


@dataclass(frozen=True)
class Marked:
    """Has no JSON."""

    word: str


class Stateful(Own):
    """A graph of its own whose state holds a set and an object."""

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        graph = StateGraph(SetState, context_schema=RespondContext)
        graph.add_node("mark", _mark)
        graph.add_edge(START, "mark")
        graph.add_edge("mark", END)
        self.app = graph.compile()

    def answer(self, probe: Probe) -> Answer:
        final, steps = run_graph(self.app, {"prompt": probe.prompt}, RespondContext(self.model))
        return Answer(text=final["reply"], prompt=probe.prompt, steps=steps)


def _mark(state: SetState, runtime: Runtime[RespondContext]) -> SetState:
    return {"seen": {"Meburg"}, "probe_itself": Marked("thing"), "reply": "Meburg"}


class Failing:
    """A strategy that fails on one question."""

    def __init__(self, corpus: Corpus) -> None:
        self.entry: Entry = corpus.entries()[0]

    def search(self, query: str, k: int) -> list[Hit]:
        if "break" in query:
            raise KeyError("boom")
        return [Hit(entry=self.entry, score=1.0)]


@pytest.fixture
def ask(memory: Any, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[Any, str, str]]:
    def call(*words: str, lines: str = "") -> tuple[Any, str, str]:
        before, sys.stdin = sys.stdin, io.StringIO(lines)
        try:
            code = emend("ask", "--memory", str(memory), *words)
        finally:
            sys.stdin = before
        return (code, *capsys.readouterr())

    return call


def own(editor: str) -> tuple[str, ...]:
    return "--model", f"{HERE}:CHAT", "--editor", f"{HERE}:{editor}"


@pytest.mark.parametrize(
    ("editor", "says"),
    [
        ("Unmade", "error: editor 'tests.evals.cli.test_session_own:Unmade' cannot be made or used (KeyError: 'boom')"),
        (
            "Silent",
            "error: editor 'tests.evals.cli.test_session_own:Silent' answered with None, and not with an Answer",
        ),
        (
            "Leaving",
            "error: editor 'tests.evals.cli.test_session_own:Leaving' cannot be made or used (KeyError: 'boom')",
        ),
    ],
)
def test_an_editor_that_cannot_be_used_is_named_and_ends_the_session(ask: Any, editor: str, says: str) -> None:
    code, _, err = ask(*own(editor), lines="Who?\nWhere?\n")
    assert code == 2 and err.startswith(says) and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "whose"),
    [
        (own("Own"), f"editor '{HERE}:Own' fails on 'break'"),
        (("--model", f"{HERE}:CHAT"), f"model '{HERE}:CHAT' fails on 'break'"),
        (("--model", f"{HERE}:CHAT", "--retriever", f"{HERE}:Failing"), f"strategy '{HERE}:Failing' fails on 'break'"),
    ],
)
def test_a_question_on_which_a_plug_in_fails_is_reported_and_the_next_one_is_asked(
    ask: Any, words: Any, whose: str
) -> None:
    code, out, err = ask(*words, lines="Who?\nbreak\nWhere?\n")
    assert code == 1 and out == f"{LINES}\n" * 2
    assert err.startswith(f"break: {whose} (KeyError: 'boom')") and err.count("\n") == 1


def test_json_names_every_question(ask: Any) -> None:
    code, out, _ = ask("--model", f"{HERE}:CHAT", "--json", "--trace", lines="Who?\nbreak\nWhere?\n")
    first, second, third = map(json.loads, out.splitlines())
    assert code == 1 and [one["question"] for one in (first, second, third)] == ["Who?", "break", "Where?"]
    assert first["text"] == third["text"] == LINES and "error" not in first
    assert second["error"].startswith("ModelError: model ") and "text" not in second
    assert [step["node"] for step in second["steps"]] == ["retrieve", "compose", "respond"]
    code, out, err = ask("--model", f"{HERE}:CHAT", "--json", "break")
    assert code == 2 and json.loads(out).keys() == {"question", "error"} and err.startswith("error: model ")
    code, out, err = ask(*own("Silent"), "--json", lines="Who?\nWhere?\n")
    (only,) = map(json.loads, out.splitlines())
    assert code == 2 and only["question"] == "Who?" and only["error"].startswith("BadSettings: ")


def test_the_calls_of_an_editor_without_a_graph_are_counted_and_traced(ask: Any) -> None:
    told = json.loads(ask(*own("Own"), "--json", "--trace", "Who?")[1])
    assert told["usage"]["calls"] == 1 and told["usage"]["output_tokens"] == len(LINES.split())
    (step,) = told["steps"]
    assert step["node"] == "answer" and len(step["calls"]) == 1
    out = ask(*own("Own"), "--trace", "Who?")[1]
    assert out.startswith("answer  ") and "  reply: The largest are:" in out and out.endswith(f"answer  {LINES}\n")


def test_a_state_that_json_cannot_hold_is_shown_as_a_run_stores_it(ask: Any) -> None:
    code, out, _ = ask(*own("Stateful"), "--trace", "Who?")
    assert code == 0 and "  seen: {'Meburg'}" in out and "  probe_itself: Marked(word='thing')" in out
    (step,) = json.loads(ask(*own("Stateful"), "--trace", "--json", "Who?")[1])["steps"]
    assert step["update"]["seen"] == "{'Meburg'}" and out.count("mark  ") == 1


def test_the_answer_is_a_chat_models_whole_reply_or_the_first_line_of_a_continuation(ask: Any) -> None:
    code, out, _ = ask("--model", f"{HERE}:CHAT", "Which are the largest?")
    assert code == 0 and out == f"{LINES}\n"
    assert ask("--model", f"{HERE}:CHAT", "--continue", "The largest are:")[1] == f"{LINES}\n"
    assert ask("--model", "tiny", "What is the capital of Vouna?")[1] == "Meburg\n"
    scoring = ScriptedScoringModel(reply=speak, log_prob=lambda prompt, target: -1.0)
    assert (reading_of(CHAT), reading_of(scoring)) == ("whole", "line")
    tiny: Any = load_model("tiny")
    try:
        assert reading_of(tiny) == "line" and reading_of(tiny.model_copy(update={"chat": True})) == "whole"
    finally:
        tiny.close()


def test_an_answer_of_several_lines_cannot_steer_the_terminal(ask: Any) -> None:
    assert ask("--model", f"{HERE}:RUDE", "Who?")[1] == "one\n\\x1b[2Jtwo\n"
