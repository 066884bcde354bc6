"""Which edited facts does a chain of thought recall? ReCoE's judge: split into atomic facts, then label each."""

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from emend.agents.judging.base import Found, Item
from emend.agents.judging.recall import Atoms, Labels, Recall
from emend.graphs.judges.graph import (
    RECURSION_LIMIT,
    Judge,
    JudgeContext,
    JudgeState,
    Stage,
    asking,
    items_of,
    routing,
    settle,
)

ROLE = Recall()
NO_FACT = "the thoughts state no fact"


def item_of(state: JudgeState) -> Item:
    """The one item."""
    return items_of(state)[0]


def keep_atoms(reply: Atoms, state: JudgeState) -> JudgeState:
    """The facts; a chain without any has no recall, and is not asked about further."""
    facts = ROLE.read_atoms(reply)
    if isinstance(facts, str):
        return {"problem": facts}
    if not facts:
        return {"facts": [], "found": [Found(problem=NO_FACT).model_dump()]}
    return {"facts": facts}


def keep_labels(reply: Labels, state: JudgeState) -> JudgeState:
    """The shares, or what is wrong with the labels."""
    found = ROLE.read_labels(reply, state["facts"])
    return {"problem": found.problem} if found.problem else {"found": [found.model_dump()]}


SPLIT = Stage(
    prompt=lambda state: ROLE.split_prompt(item_of(state)),
    schema=Atoms,
    read=keep_atoms,
    words=lambda reply, state: keep_atoms(ROLE.words_to_atoms(reply, item_of(state)), state),
    role=ROLE,
)
LABEL = Stage(
    prompt=lambda state: ROLE.label_prompt(item_of(state), state["facts"]),
    schema=Labels,
    read=keep_labels,
    words=lambda reply, state: keep_labels(ROLE.words_to_labels(reply, item_of(state)), state),
    role=ROLE,
)


def split(state: JudgeState, runtime: Runtime[JudgeContext]) -> JudgeState:
    """The atomic facts of the thoughts."""
    return asking(SPLIT)(state, runtime)


def label(state: JudgeState, runtime: Runtime[JudgeContext]) -> JudgeState:
    """How each fact stands to the edits."""
    return asking(LABEL)(state, runtime)


def after_split(state: JudgeState) -> str:
    """What has facts is labelled."""
    return "label" if state.get("facts") else "settle"


def begin_label(state: JudgeState) -> JudgeState:
    """The next question has tries of its own."""
    return {"tries": 0, "problem": "" if state.get("facts") else state["problem"]}


def build() -> CompiledStateGraph[JudgeState, JudgeContext, JudgeState, JudgeState]:
    """Split -> (again) -> turn -> label -> (again) -> settle; a chain without facts goes from turn to settle."""
    graph = StateGraph(JudgeState, context_schema=JudgeContext)
    graph.add_node("split", split)
    graph.add_node("turn", begin_label)
    graph.add_node("label", label)
    graph.add_node("settle", settle)
    graph.add_edge(START, "split")
    graph.add_conditional_edges("split", routing("split", "turn"), ["split", "turn"])
    graph.add_conditional_edges("turn", after_split, ["label", "settle"])
    graph.add_conditional_edges("label", routing("label", "settle"), ["label", "settle"])
    graph.add_edge("settle", END)
    return graph.compile(name="recall").with_config(recursion_limit=RECURSION_LIMIT)


JUDGE = Judge(ROLE, build)
