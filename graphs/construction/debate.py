"""Multi-agent debate (ReCoE, appendix A.2): agents answer a question, see each other's reasons,
revise, and vote.

Agents of the same model have different viewpoints, as in ChatEval. They debate for a number of
rounds or until all agree, as in Du et al. (2023); the verdict is the answer of more than half of
all agents. The graph can be run by itself; ReCoE's construction graph also contains its nodes, and
accepts a question if the verdict is the planned answer.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Annotated, Any, Literal, NamedTuple

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.roles.author import write_text
from emend.agents.roles.conversation import Prompt
from emend.graphs.construction.pipeline import ConstructionContext
from emend.graphs.execution import Graph
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import words

# Names of the prompts.
ANSWER, REVISE = "debate_answer", "debate_revise"
# Maximum number of new tokens of a local agent's reply.
TOKENS = 192
# Viewpoints assigned to the agents in turn, so that agents of the same model differ.
VIEWPOINTS = (
    "You check first what exactly is asked, word by word.",
    "You check first every fact and every number that the answer needs.",
    "You try first to prove the most obvious answer wrong.",
    "You work from the facts to the answer in small steps, and count again at the end.",
    "You look first for a fact that the others may have overlooked.",
)
_ANSWER = re.compile(
    r"^[\W_]*(?:final )?answer[\W_]*:[*_ ]*(.+?)[*_ "
    r"]*$",
    re.IGNORECASE | re.MULTILINE,
)


class Position(NamedTuple):
    """Answer of an agent, empty if its reply has none, and its reasons."""

    answer: str
    reason: str


class DebateState(TypedDict, total=False):
    """State of a debate with the inputs `question` and `facts` and the output `verdict`.

    `verdict` is the answer of more than half of the agents, or empty. `positions` has the position
    of each agent in the last round; `votes` are counts by answer.
    """

    question: str
    facts: list[str]
    positions: list[Position]
    round: int
    votes: dict[str, int]
    verdict: str
    usage: Annotated[Usage, Usage.plus]


def answer_alone(state: DebateState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Let each agent answer independently."""
    context = runtime.context
    prompts = (
        context.prompt(ANSWER).fill(viewpoint=viewpoint_of(place), **_subject(state))
        for place in range(len(context.debaters))
    )
    return {**_ask(context, prompts), "round": 1}


def revise(state: DebateState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Show each agent the answers and reasons of the others, and let it answer again."""
    context, positions = runtime.context, [Position(*each) for each in state["positions"]]
    prompts = (
        context.prompt(REVISE).fill(
            viewpoint=viewpoint_of(place),
            own=_shown(position),
            others="\n".join(
                _shown(each) for other, each in enumerate(positions) if other != place
            ),
            **_subject(state),
        )
        for place, position in enumerate(positions)
    )
    return {**_ask(context, prompts), "round": state["round"] + 1}


def vote(state: DebateState) -> dict[str, Any]:
    """Count the answers; an answer of more than half of the agents is the verdict."""
    positions = [Position(*each) for each in state["positions"]]
    first = {vote_key(each.answer): each.answer for each in reversed(positions) if each.answer}
    counts = Counter(vote_key(each.answer) for each in positions if each.answer)
    winner, count = next(iter(counts.most_common(1)), ("", 0))
    verdict = first[winner] if 2 * count > len(positions) else ""
    return {"votes": {first[key]: number for key, number in counts.items()}, "verdict": verdict}


def after_round(
    state: DebateState, runtime: Runtime[ConstructionContext]
) -> Literal["revise", "vote"]:
    """Return the next node: `vote` if all agents agree or the last round is over, else `revise`."""
    answers = {vote_key(answer) for answer, _ in state["positions"]}
    is_over = state["round"] >= runtime.context.rounds or (len(answers) == 1 and answers != {""})
    return "vote" if is_over else "revise"


def add_debate(graph: StateGraph[Any, Any, Any, Any]) -> None:
    """Add the nodes of a debate to a graph, from `answer_alone` to `vote`.

    The caller adds the edges to `answer_alone` and from `vote`.
    """
    for node in (answer_alone, revise, vote):
        graph.add_node(node.__name__, node)
    after: dict[Hashable, str] = {"revise": "revise", "vote": "vote"}
    graph.add_conditional_edges("answer_alone", after_round, after)
    graph.add_conditional_edges("revise", after_round, after)


def build() -> Graph:
    """Build the graph answer_alone -> revise, until all agree or the rounds are over -> vote."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(
        DebateState, context_schema=ConstructionContext
    )
    add_debate(graph)
    graph.add_edge(START, "answer_alone")
    graph.set_finish_point("vote")
    return graph.compile(name="debate")


def viewpoint_of(place: int) -> str:
    """Return the viewpoint of the agent at a 0-based position."""
    return VIEWPOINTS[place % len(VIEWPOINTS)]


def vote_key(answer: str) -> str:
    """Normalise an answer for comparison: no case, punctuation and articles."""
    return " ".join(word for word in words(answer) if word not in ("a", "an", "the"))


def read_position(reply: str) -> Position:
    """Parse the answer in the last answer line of a reply, and the reasons before it."""
    hits = list(_ANSWER.finditer(reply))
    if not hits:
        return Position("", " ".join(reply.split()))
    return Position(hits[-1][1].strip().rstrip("."), " ".join(reply[: hits[-1].start()].split()))


def _ask(context: ConstructionContext, prompts: Iterable[Prompt]) -> dict[str, Any]:
    """Ask all agents, and return their positions; an agent that refuses has an empty one."""
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
