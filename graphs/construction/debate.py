"""A debate (ReCoE, appendix A.2): several agents answer a question, see each other's reasons, revise, and vote.

Agents of one model differ by their viewpoint, as in ChatEval. They debate for a number of rounds, or until all agree,
as in Du et al. (2023); an answer counts if more than half of all agents give it in the end. The graph runs alone, and
its nodes also stand in the graph of a construction, which accepts a question if the debate ends on the planned answer.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.roles.author import write_text
from emend.agents.roles.conversation import Prompt
from emend.graphs.construction.pipeline import ROUNDS, ConstructionContext
from emend.graphs.execution import Graph, run_graph
from emend.memory.errors import BadSettings
from emend.memory.probe import Step, Usage
from emend.memory.retrieval.tokens import words

ANSWER, REVISE = "debate_answer", "debate_revise"
"""Names of the prompts."""
TOKENS = 192
"""Limit of new tokens of a local agent's reasons and answer."""
VIEWPOINTS = (
    "You check first what exactly is asked, word by word.",
    "You check first every fact and every number that the answer needs.",
    "You try first to prove the most obvious answer wrong.",
    "You work from the facts to the answer in small steps, and count again at the end.",
    "You look first for a fact that the others may have overlooked.",
)
"""Viewpoints of the agents in turn, so that agents of one model do not all say the same."""
_ANSWER = re.compile(r"^[\W_]*(?:final )?answer[\W_]*:[*_ ]*(.+?)[*_ ]*$", re.IGNORECASE | re.MULTILINE)


class Position(NamedTuple):
    """An agent's answer, empty where its reply has none, and the reasons that it gives."""

    answer: str
    reason: str


class DebateState(TypedDict, total=False):
    """`question` and `facts` go in; `verdict`, the answer of more than half of the agents or an empty text, comes out.

    `positions` are those of the last round, one of each agent; `votes` are counts by answer.
    """

    question: str
    facts: list[str]
    positions: list[Position]
    round: int
    votes: dict[str, int]
    verdict: str
    usage: Annotated[Usage, Usage.plus]


class DebateOutcome(NamedTuple):
    """The answer of more than half of the agents, or an empty text; their positions, the cost, and the steps."""

    verdict: str
    positions: tuple[Position, ...]
    usage: Usage
    steps: tuple[Step, ...]


def debate_question(
    models: Sequence[BaseChatModel],
    question: str,
    facts: Sequence[str],
    rounds: int = ROUNDS,
    graph: Graph | None = None,
) -> DebateOutcome:
    """Let models debate a question, on the facts alone.

    Args:
        models: one for each agent.
        question: to be answered.
        facts: sentences from which the answer follows.
        rounds: maximum number of rounds.
        graph: the debate's, if it was built before.

    Raises:
        BadSettings: there are fewer than two models, or no round.
        ModelError: a call failed.
    """
    if len(models) < 2 or rounds < 1:
        raise BadSettings(f"{len(models)} models in {rounds} rounds are no debate: give at least two, and one round.")
    context = ConstructionContext(models[0], models[0], debaters=(*models,), rounds=rounds)
    state, steps = run_graph(graph or build(), {"question": question, "facts": [*facts]}, context)
    return DebateOutcome(state["verdict"], tuple(state["positions"]), state["usage"], steps)


def answer_alone(state: DebateState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Let each agent answer by itself."""
    context = runtime.context
    prompts = (
        context.prompt(ANSWER).fill(viewpoint=viewpoint_of(place), **_subject(state))
        for place in range(len(context.debaters))
    )
    return {**_ask(context, prompts), "round": 1}


def revise(state: DebateState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Show each agent what the others answer and why, and let it answer again."""
    context, positions = runtime.context, [Position(*each) for each in state["positions"]]
    prompts = (
        context.prompt(REVISE).fill(
            viewpoint=viewpoint_of(place),
            own=_shown(position),
            others="\n".join(_shown(each) for other, each in enumerate(positions) if other != place),
            **_subject(state),
        )
        for place, position in enumerate(positions)
    )
    return {**_ask(context, prompts), "round": state["round"] + 1}


def vote(state: DebateState) -> dict[str, Any]:
    """Count the answers; the verdict is that of more than half of the agents."""
    positions = [Position(*each) for each in state["positions"]]
    first = {vote_key(each.answer): each.answer for each in reversed(positions) if each.answer}
    counts = Counter(vote_key(each.answer) for each in positions if each.answer)
    winner, count = next(iter(counts.most_common(1)), ("", 0))
    verdict = first[winner] if 2 * count > len(positions) else ""
    return {"votes": {first[key]: number for key, number in counts.items()}, "verdict": verdict}


def after_round(state: DebateState, runtime: Runtime[ConstructionContext]) -> Literal["revise", "vote"]:
    """Vote once all agents agree or the last round is over."""
    answers = {vote_key(answer) for answer, _ in state["positions"]}
    is_over = state["round"] >= runtime.context.rounds or (len(answers) == 1 and answers != {""})
    return "vote" if is_over else "revise"


def add_debate(graph: StateGraph[Any, Any, Any, Any]) -> None:
    """Add the nodes of a debate to a graph, which leads to `answer_alone` and goes on after `vote`."""
    for node in (answer_alone, revise, vote):
        graph.add_node(node.__name__, node)
    after: dict[Hashable, str] = {"revise": "revise", "vote": "vote"}
    graph.add_conditional_edges("answer_alone", after_round, after)
    graph.add_conditional_edges("revise", after_round, after)


def build() -> Graph:
    """Each agent answers -> they revise, until all agree or the rounds are over -> vote."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(DebateState, context_schema=ConstructionContext)
    add_debate(graph)
    graph.add_edge(START, "answer_alone")
    graph.set_finish_point("vote")
    return graph.compile(name="debate")


def viewpoint_of(place: int) -> str:
    """The viewpoint of the agent at a place, counted from 0."""
    return VIEWPOINTS[place % len(VIEWPOINTS)]


def vote_key(answer: str) -> str:
    """The form in which answers are compared: without case, punctuation and articles."""
    return " ".join(word for word in words(answer) if word not in ("a", "an", "the"))


def read_position(reply: str) -> Position:
    """The answer in the last line of a reply that gives one, and the reasons before it."""
    hits = list(_ANSWER.finditer(reply))
    if not hits:
        return Position("", " ".join(reply.split()))
    return Position(hits[-1][1].strip().rstrip("."), " ".join(reply[: hits[-1].start()].split()))


def _ask(context: ConstructionContext, prompts: Iterable[Prompt]) -> dict[str, Any]:
    """The positions of all agents; one that declines has none."""
    positions, usage = list[Position](), Usage()
    for model, prompt in zip(context.debaters, prompts, strict=True):
        written = write_text(model, prompt, TOKENS)
        positions.append(Position("", "") if written.is_refused else read_position(written.text))
        usage = usage.plus(written.usage)
    return {"positions": positions, "usage": usage}


def _subject(state: DebateState) -> dict[str, str]:
    return {"question": state["question"], "facts": "\n".join(state["facts"])}


def _shown(position: Position) -> str:
    return f"- {position.answer or 'no answer'}: {position.reason or 'no reason'}"
