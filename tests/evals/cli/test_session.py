"""`emend ask` and `emend graph`: answers and steps, many questions, a user's own parts, limits, and errors."""

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typer.testing import CliRunner

from emend.agents.llm import load_model
from emend.editors.base import Answerer, EditorContext
from emend.evals.api.session import reading_of
from emend.evals.cli.commands.ask import HINT, questions
from emend.evals.cli.main import app
from emend.graphs.execution import run_graph
from emend.graphs.rag import RagState
from emend.graphs.registry import GRAPHS
from emend.graphs.respond import RespondContext
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.base import Corpus, Entry, Hit
from emend.memory.store.chroma import ChromaMemory
from tests.evals.command_line import Output, caller
from tests.fakes import ScriptedChatModel, ScriptedScoringModel
from tests.params import first_quick
from tests.provider.protocols import Said, ToolCall
from tests.provider.server import Provider

RUN = CliRunner()
needs_client = pytest.mark.skipif(find_spec("langchain_openai") is None, reason="the extra 'openai' is not installed")
HERE = "tests.evals.cli.test_session"
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


class Piped(io.StringIO):
    """Where no one types."""


class Typed(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def ask(memory: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    """A function that calls `emend ask` with a memory and, as standard input, with lines."""
    call = caller(monkeypatch, capsys, "ask", "--memory", str(memory))

    def with_lines(*words: str, lines: str = "") -> Output:
        monkeypatch.setattr(sys, "stdin", Piped(lines))
        return call(*words)

    return with_lines


@pytest.mark.slow
def test_the_model_answers_from_the_memory_in_its_embedding_and_adds_nothing_to_it(ask, memory):
    assert ask("What is the capital of Vouna?").out.strip() == "Meburg"
    assert ask("--embedding", "lexical", "What is the capital of Vouna?").out.strip() == "Meburg"
    code, _, err = ask("--embedding", "minilm", "What is the capital of Vouna?")
    assert code == 2 and "--embedding lexical" in err

    def stored():
        with ChromaMemory(memory, None) as opened:
            return [edit.id for edit in opened.edits()]

    before = stored()
    ask("What is the capital of Vouna?")
    assert stored() == before


@pytest.mark.slow
@pytest.mark.parametrize("editor", first_quick(["rag", "in_context"]))
def test_superseded_edits_are_not_shown(ask, memory, editor):
    newer = Triplet(subject="Vouna", relation="capital", object="Oldport")
    with ChromaMemory(memory, LexicalEmbedding()) as opened:
        opened.add([Edit.from_triplet(newer, "The capital of {} is")])
    data = json.loads(ask("--editor", editor, "--json", "What is the capital of Vouna?").out)
    assert "Oldport" in data["prompt"] and "Meburg" not in data["prompt"]


@pytest.mark.slow
def test_without_a_question_each_line_is_one_and_a_text_may_be_continued(ask):
    output = ask("--continue", "--editor", "serac", lines="The capital of Vouna is\n\nThe capital of Vouna is\n")
    assert output.out.split() == ["Meburg", "Meburg"]


@pytest.mark.slow
def test_with_trace_every_step_is_shown_and_json_has_one_object_per_answer(ask):
    lines = ask("--trace", "--editor", "mello", "--set", "mello.hops=1", "What is the capital of Vouna?").out
    nodes = [line.split()[0] for line in lines.splitlines() if line and not line.startswith(" ")]
    assert nodes == ["decompose", "retrieve", "check", "decompose", "compose", "respond", "answer"]
    assert lines.splitlines()[-1].split() == ["answer", "Meburg"]
    data = json.loads(ask("--json", "What is the capital of Vouna?").out)
    assert data["text"] == "Meburg" and len(data["retrieved"]) == 1 and "steps" not in data
    assert json.loads(ask("--json", "--trace", "Where?").out)["steps"]


def test_a_wrong_name_is_refused_before_a_model_is_loaded_and_limits_of_a_local_model_are_too(ask):
    assert "unknown editor 'ragg': did you mean 'rag'" in ask("--model", "nothing", "--editor", "ragg", "x").err
    code, _, err = ask("--tpm", "1", "--rpm", "5", "Where?")
    assert code == 2 and "--rpm and --tpm with model 'tiny': a local model makes no API calls" in err


@pytest.mark.parametrize("question", ["", "  "])
def test_a_blank_question_is_refused(ask, question):
    code, _, err = ask(question)
    assert code == 2 and "the question is blank" in err


# --- graphs


@pytest.mark.parametrize("name", GRAPHS.names())
def test_every_graph_is_drawn_in_the_terminal_as_mermaid_and_as_json(name):
    shown = RUN.invoke(app, ["graph", name], env={"COLUMNS": "80"}).stdout
    rows = json.loads(RUN.invoke(app, ["graph", name, "--json"]).stdout)["rows"]
    mermaid = RUN.invoke(app, ["graph", name, "--mermaid"]).stdout
    assert max(map(len, shown.splitlines())) <= 80 and mermaid.startswith("---")
    for row in rows:
        assert row["node"] in shown and (row["node"] == "start" or (row["does"] and row["leads_to"])), row
        assert all(target in shown for target in row["leads_to"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("rag", "--mermaid", "--json"), "--mermaid and --json do not go together"),
        (("melo",), "unknown graph 'melo'"),
        (("romeo",), "unknown graph 'romeo'"),
    ],
)
def test_what_cannot_be_drawn_is_named(words, problem):
    with pytest.raises(BadSettings, match=problem):
        RUN.invoke(app, ["graph", *words], catch_exceptions=False)


def test_an_editors_graph_is_drawn_by_the_editors_name():
    assert RUN.invoke(app, ["graph", "input_aug"]).stdout == RUN.invoke(app, ["graph", "rag"]).stdout
    for name in ("unedited", "rome"):  # a model with edited weights is asked as it stands
        assert RUN.invoke(app, ["graph", name]).stdout == RUN.invoke(app, ["graph", "direct"]).stdout


# --- one question a line


def test_a_terminal_gets_a_hint_and_prompts_and_bytes_that_are_no_text_are_bad_data():
    screen = Typed()
    assert list(questions(Typed("Who?\n\n  Where?  \n"), screen)) == ["Who?", "Where?"]
    assert screen.getvalue() == f"{HINT}\n> > > > \n"
    with pytest.raises(BadData, match="the input is not UTF-8"):
        list(questions(io.TextIOWrapper(io.BytesIO(b"\xff\n"), "utf-8"), Piped()))


@pytest.mark.parametrize(("source", "target"), [(Piped, Typed), (Typed, Piped)])
def test_a_pipe_gets_no_prompts(source, target):
    output = target()
    assert list(questions(source("Who?\nWhere?"), output)) == ["Who?", "Where?"]
    assert output.getvalue() == ""


def fault(asked):
    """By a word of the question."""
    return next((name for name in ("overflow", "refusal", "401", "quota") if name in asked.prompt), "")


@pytest.mark.slow
@needs_client
def test_a_failed_question_is_reported_and_the_next_one_is_asked(ask):
    with Provider(lambda asked: "Meburg", strike=fault) as provider:
        model = ("--model", provider.spec("openai"))
        code, out, err = ask(*model, lines="Where?\noverflow\nrefusal\nWho?\n")
        assert (code, provider.count, out.split()) == (1, 4, ["Meburg", "Meburg"])
        first, second = err.splitlines()
        assert first.startswith("overflow: ") and "context window" in first
        assert second.startswith("refusal: ") and "declined" in second
        assert ask(*model, lines="Where?\n").code == 0
        code, _, err = ask(*model, "overflow")
        assert code == 2 and "error: " in err


@needs_client
@pytest.mark.parametrize("hopeless", ["401", "quota"])
def test_a_fatal_error_ends_the_session(ask, hopeless):
    with Provider(lambda asked: "Meburg", strike=fault) as provider:
        model = ("--model", provider.spec("openai"))
        code, out, err = ask(*model, lines=f"Where?\n{hopeless}\nWho?\n")
    assert (code, provider.count, out.split()) == (2, 2, ["Meburg"])
    assert err.startswith("error: ") and err.count("\n") == 1


@pytest.mark.slow
@needs_client
def test_limits_hold_over_all_questions_and_cached_replies_are_free(ask, tmp_path):
    with Provider(lambda asked: "Meburg") as provider:
        model = ("--model", provider.spec("openai"), "--cache", str(tmp_path / "kept"), "--max-calls", "2")
        code, _, err = ask(*model, lines="One?\nTwo?\nThree?\nFour?\n")
        assert (code, provider.count) == (2, 2) and "--max-calls 2" in err
        assert ask(*model, lines="One?\nTwo?\nThree?\n").code == 0
        assert provider.count == 3


@needs_client
def test_the_trace_of_an_agent_has_tool_calls_and_results(ask):
    def speak(asked):
        if asked.messages[-1][0] == "tool":
            again = Said(calls=[ToolCall("list_updates", {"entity": "Vouna"})])
            return "Meburg" if asked.prompt.count("<change>") > 1 else again
        return Said(calls=[ToolCall("lookup", {"subject": "Vouna", "relation": "capital"})])

    with Provider(speak) as provider:
        code, out, _ = ask("--model", provider.spec("openai"), "--editor", "agent", "--trace", "Where is it?")
    steps = out.split("\nplan ")
    assert (code, len(steps)) == (0, 3)
    for step, call in zip(steps, ('lookup({"subject": "Vouna", "relation": "capital"})', "list_updates"), strict=False):
        assert step.count("assistant: ") == step.count("tool: <change>") == step.count('"score"') == 1
        assert f"assistant: {call}" in step and "tool: <change>The capital of Vouna is Meburg" in step
    assert "final: Meburg" in steps[2] and "assistant: " not in steps[2] and "tool: " not in steps[2].split("prompt")[0]


def test_unedited_needs_no_memory_and_other_editors_do(ask, tmp_path):
    elsewhere = ("--memory", str(tmp_path / "none"), "What is the capital of Vouna?")
    code, out, _ = ask("--editor", "unedited", *elsewhere)
    assert code == 0 and out.strip() and not (tmp_path / "none").exists()
    code, _, err = ask("--editor", "in_context", *elsewhere)
    assert code == 2 and "none" in err


# --- a user's own parts


def own(editor: str) -> tuple[str, ...]:
    return "--model", f"{HERE}:CHAT", "--editor", f"{HERE}:{editor}"


@pytest.mark.parametrize(
    ("editor", "says"),
    [
        ("Unmade", "cannot be created or used (KeyError: 'boom', in "),
        ("Silent", "answered with None, not with an Answer"),
        ("Leaving", "cannot be created or used (KeyError: 'boom', in "),
    ],
)
def test_an_editor_that_cannot_be_used_is_named_and_ends_the_session(ask: Any, editor: str, says: str) -> None:
    code, _, err = ask(*own(editor), lines="Who?\nWhere?\n")
    assert code == 2 and err.startswith(f"error: editor '{HERE}:{editor}' {says}") and err.count("\n") == 1


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
    assert code == 1 and [item["question"] for item in (first, second, third)] == ["Who?", "break", "Where?"]
    assert first["text"] == third["text"] == LINES and "error" not in first
    assert second["error"].startswith("ModelError: model ") and "text" not in second
    assert [step["node"] for step in second["steps"]] == ["retrieve", "compose", "respond"]
    code, out, err = ask("--model", f"{HERE}:CHAT", "--json", "break")
    assert code == 2 and json.loads(out).keys() == {"question", "error"} and err.startswith("error: model ")
    code, out, err = ask(*own("Silent"), "--json", lines="Who?\nWhere?\n")
    (only,) = map(json.loads, out.splitlines())
    assert code == 2 and only["question"] == "Who?" and only["error"].startswith("BadSettings: ")


def test_the_calls_of_an_editor_without_a_graph_are_counted_and_traced(ask: Any) -> None:
    data = json.loads(ask(*own("Own"), "--json", "--trace", "Who?")[1])
    assert data["usage"]["calls"] == 1 and data["usage"]["output_tokens"] == len(LINES.split())
    (step,) = data["steps"]
    assert step["node"] == "answer" and len(step["calls"]) == 1
    out = ask(*own("Own"), "--trace", "Who?")[1]
    assert out.startswith("answer  ") and "  reply: The largest are:" in out and out.endswith(f"answer  {LINES}\n")


def test_a_state_that_json_cannot_hold_is_shown_and_an_answer_of_several_lines_cannot_steer(ask: Any) -> None:
    code, out, _ = ask(*own("Stateful"), "--trace", "Who?")
    assert code == 0 and "  seen: {'Meburg'}" in out and "  probe_itself: Marked(word='thing')" in out
    (step,) = json.loads(ask(*own("Stateful"), "--trace", "--json", "Who?")[1])["steps"]
    assert step["update"]["seen"] == "{'Meburg'}" and out.count("mark  ") == 1
    assert ask("--model", f"{HERE}:RUDE", "Who?")[1] == "one\n\\x1b[2Jtwo\n"


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
