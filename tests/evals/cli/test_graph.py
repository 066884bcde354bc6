"""`emend graph` with a user's parts: drawn if they have a graph, an error otherwise."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import pytest
from langgraph.graph import END, START, StateGraph
from typer.testing import CliRunner

from emend.agents.judging.base import Item
from emend.editors.base import Answerer, EditorContext
from emend.editors.registry import EDITORS
from emend.evals.cli.main import app
from emend.extend import MemoryEditor
from emend.graphs.judges.graph import Judge
from emend.graphs.rag import RagState
from emend.graphs.registry import GRAPHS
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings
from tests.evals.judged_runs import Terse

HERE = "tests.evals.cli.test_graph"


def speak(state: RagState) -> RagState:
    """Says nothing."""
    return {}


OPEN = StateGraph(RagState)
OPEN.add_node("speak", speak)
OPEN.add_edge(START, "speak")
OPEN.add_edge("speak", END)
COMPILED = OPEN.compile(name="mine")
WITHOUT_ENTRY = StateGraph(RagState)
NUMBER = 3


class Terser(Terse):
    """Is the answer shorter?"""

    def prompt(self, items: Sequence[Item], swapped: bool = False) -> str:
        return "Is it shorter?"


JUDGE = Judge(Terser())


def build() -> Any:
    return COMPILED


def build_open(name: str = "mine") -> Any:
    return OPEN


def nothing() -> None:
    """Forgets to return what it built."""


def broken() -> Any:
    raise KeyError("boom")


class Plain:
    """An editor that runs no graph."""

    name: ClassVar[str] = "plain"
    needs_weights: ClassVar[bool] = False

    def __init__(self, context: EditorContext) -> None:
        self.context = context

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"editor": self.name}

    def edit(self, edits: Sequence[Edit]) -> AbstractContextManager[Answerer]:
        raise AssertionError("a graph is drawn without an edit")


class Drawn(Plain):
    """An editor with a graph of its own."""

    graph: ClassVar[str] = "mine"

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.app = COMPILED


class OwnGraph(MemoryEditor):
    """An editor over the memory, whose graph takes the place of the inherited one."""

    name: ClassVar[str] = "own"

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.app = COMPILED


class Named(Plain):
    """An editor that runs one of Emend's graphs, and says so in its fingerprint alone."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"editor": self.name, "graph": "crag"}


def shown(*words: str) -> str:
    return CliRunner().invoke(app, ["graph", *words], catch_exceptions=False).stdout


@pytest.mark.parametrize("attribute", ["COMPILED", "OPEN", "build", "build_open", "Drawn"])
def test_a_users_graph_is_drawn_in_every_form(attribute: str) -> None:
    rows = json.loads(shown(f"{HERE}:{attribute}", "--json"))["rows"]
    assert [(row["node"], row["leads_to"]) for row in rows] == [("start", ["speak"]), ("speak", ["end"])]
    assert rows[1]["does"] == "Says nothing."
    assert "speak" in shown(f"{HERE}:{attribute}") and "speak" in shown(f"{HERE}:{attribute}", "--mermaid")


def test_a_judge_an_editor_over_a_built_in_graph_and_a_registered_one_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "ask" in shown(f"{HERE}:JUDGE") and "settle" in shown(f"{HERE}:JUDGE")
    assert "speak" in shown(f"{HERE}:OwnGraph"), "not the graph of the class that it extends"
    assert shown(f"{HERE}:Named") == shown("crag") == shown("emend.editors.memory_based.crag:Crag")
    monkeypatch.setitem(EDITORS.builtin, "mine", (f"{HERE}:Drawn", "for this test"))
    assert "speak" in shown("mine") and "mine" not in GRAPHS.names()


@pytest.mark.parametrize(
    ("attribute", "says"),
    [
        ("NUMBER", r"has no graph \(got 3\): name a compiled LangGraph graph, a StateGraph, a function"),
        ("nothing", "has no graph"),
        ("Plain", "has no graph .* or an editor with a compiled graph in its attribute app"),
        ("broken", r"cannot be created or used \(KeyError: 'boom', in .*, line .*\): see docs/how-to/extend.md"),
        ("WITHOUT_ENTRY", "cannot be created or used .ValueError"),
    ],
)
def test_a_part_without_a_graph_or_that_fails_is_an_error(attribute: str, says: str) -> None:
    with pytest.raises(BadSettings, match=f"graph '{HERE}:{attribute}' {says}"):
        shown(f"{HERE}:{attribute}")
