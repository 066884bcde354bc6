"""ReCoE's judge of fact recall: split a chain of thought into atomic facts, then label each fact
against the edits.
"""

from langchain_core.messages import HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.judging.base import Item, Verdict
from emend.agents.judging.recall import Atoms, Labels, Recall
from emend.graphs.execution import Graph
from emend.graphs.judges.graph import (
    RECURSION_LIMIT,
    Judge,
    JudgeContext,
    JudgeState,
    Question,
    ask_question,
    parse_items,
    retry_or,
    settle,
)

ROLE = Recall()
NO_FACT = "the thoughts state no fact"


def parse_item(state: JudgeState) -> Item:
    """Return the only item of the state."""
    return parse_items(state)[0]


def keep_atoms(reply: Atoms, state: JudgeState) -> JudgeState:
    """Keep the facts; a chain of thought without facts has no recall, and is not labelled."""
    facts = ROLE.read_atoms(reply)
    if isinstance(facts, str):
        return {"problem": facts}
    if not facts:
        return {"facts": [], "verdicts": [Verdict(problem=NO_FACT).model_dump()]}
    return {"facts": facts}


def keep_labels(reply: Labels, state: JudgeState) -> JudgeState:
    """Keep the verdict from the labels, or the problem with them."""
    verdict = ROLE.read_labels(reply, state["facts"])
    return {"problem": verdict.problem} if verdict.problem else {"verdicts": [verdict.model_dump()]}


SPLIT = Question(
    messages=lambda state: [HumanMessage(ROLE.split_prompt(parse_item(state)))],
    schema=Atoms,
    read=keep_atoms,
    read_words=lambda reply, state: keep_atoms(ROLE.words_to_atoms(reply), state),
    role=ROLE,
)
LABEL = Question(
    messages=lambda state: [HumanMessage(ROLE.label_prompt(parse_item(state), state["facts"]))],
    schema=Labels,
    read=keep_labels,
    read_words=lambda reply, state: keep_labels(
        ROLE.words_to_labels(reply, parse_item(state)), state
    ),
    role=ROLE,
)


def split(state: JudgeState, runtime: Runtime[JudgeContext]) -> JudgeState:
    """Ask for the atomic facts of the thoughts."""
    return ask_question(SPLIT, state, runtime.context.model)


def label(state: JudgeState, runtime: Runtime[JudgeContext]) -> JudgeState:
    """Ask how each fact relates to the edits."""
    return ask_question(LABEL, state, runtime.context.model)


def after_split(state: JudgeState) -> str:
    """Route to the labels if there are facts, else to the end."""
    return "label" if state.get("facts") else "settle"


def turn(state: JudgeState) -> JudgeState:
    """Reset the count of tries for the next question."""
    return {"tries": 0, "problem": "" if state.get("facts") else state["problem"]}


def build() -> Graph:
    """Split -> (retry) -> turn -> label -> (retry) -> settle; a chain of thought without facts goes
    from `turn` to `settle`.
    """
    graph = StateGraph(JudgeState, context_schema=JudgeContext)
    graph.add_node("split", split)
    graph.add_node("turn", turn)
    graph.add_node("label", label)
    graph.add_node("settle", settle)
    graph.add_edge(START, "split")
    graph.add_conditional_edges("split", retry_or("split", "turn"), ["split", "turn"])
    graph.add_conditional_edges("turn", after_split, ["label", "settle"])
    graph.add_conditional_edges("label", retry_or("label", "settle"), ["label", "settle"])
    graph.add_edge("settle", END)
    return graph.compile(name="recall").with_config(recursion_limit=RECURSION_LIMIT)


JUDGE = Judge(ROLE, build)
