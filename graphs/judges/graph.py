"""The graph of every judge: ask for a verdict in a schema, ask again if it cannot be read, then settle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from emend.agents.judging.base import Item, Role, Verdict
from emend.agents.judging.fence import neutralise
from emend.agents.judging.replies import check_own
from emend.agents.structured import ask_structured
from emend.graphs.execution import Graph, run_graph
from emend.memory.errors import BadSettings, ContextOverflow, ModelReplyError, ReplyCutOff, ReplyRefused
from emend.memory.probe import Step, Usage

RECURSION_LIMIT = 40
"""Two questions, each of at most ten tries."""
MOST_TRIES = 10
AGAIN = "That reply is no verdict that can be used: {problem} Reply once more, with nothing but what was asked for."


class JudgeState(TypedDict, total=False):
    """The `items` and whether their parts are `swapped` go in; `verdicts`, one per item, come out.

    `problem` says why the last reply was unusable, and is empty if it was usable; `tries` counts the replies to the
    current question; `final` means that asking again would not help. `facts` are the atoms of a chain of thought.
    """

    items: list[dict[str, Any]]
    swapped: bool
    tries: int
    problem: str
    final: bool
    reply: str
    facts: list[str]
    verdicts: list[dict[str, Any]]
    usage: Annotated[Usage, Usage.plus]


@dataclass(frozen=True)
class JudgeContext:
    """The model that judges, and how often an unreadable reply is asked for again."""

    model: BaseChatModel
    retries: int = 1


class Question(NamedTuple):
    """A question to the judge: its prompt, its schema, and how replies are read.

    `read` makes the update from an instance of the schema; a `problem` in the update has the judge asked again.
    `read_words` makes it from a reply without JSON, and raises ModelReplyError where there is no verdict.
    """

    prompt: Callable[[JudgeState], str]
    schema: type[BaseModel]
    read: Callable[[Any, JudgeState], JudgeState]
    read_words: Callable[[str, JudgeState], JudgeState]
    role: Role


class ItemVerdict(Verdict):
    """A verdict on one item, with the reply as it came.

    The cost of a call that judged several items is on the first of them, and so are the graph's steps.
    """

    reply: str = ""
    usage: Usage = Usage()
    steps: tuple[Step, ...] = ()


class Judge:
    """A role and the graph that plays it.

    Args:
        role: what is asked and how it is read.
        build: makes the graph; by default one question about all items.
    """

    def __init__(self, role: Role, build: Callable[[], Graph] | None = None) -> None:
        self.role = role
        self.build: Callable[[], Graph] = build or partial(one_question, role)

    @property
    def name(self) -> str:
        """The name of the role."""
        return self.role.name

    @cached_property
    def graph(self) -> Graph:
        """The compiled graph."""
        return self.build()

    def judge(
        self, items: Sequence[Item], model: BaseChatModel, *, swapped: bool = False, retries: int = 1
    ) -> list[ItemVerdict]:
        """The model's verdict on each item; at most the role's `batch` of them go into one call.

        Raises:
            ModelError: the model could not be asked; an unusable reply is a `problem` instead.
            BadSettings: too many retries.
        """
        if not 0 <= retries < MOST_TRIES:
            raise BadSettings(f"retries is {retries}: give 0 to {MOST_TRIES - 1}.")
        if not 1 <= len(items) <= self.role.batch:
            raise ValueError(f"{len(items)} items: judge '{self.name}' takes 1 to {self.role.batch} at a time.")
        state = {"items": [item.model_dump() for item in items], "swapped": swapped}
        final, steps = run_graph(self.graph, state, JudgeContext(model, retries))
        first: dict[str, Any] = {"usage": final["usage"], "steps": steps}
        return [
            ItemVerdict.model_validate({**verdict, "reply": final["reply"], **({} if place else first)})
            for place, verdict in enumerate(final["verdicts"])
        ]


def parse_items(state: JudgeState) -> list[Item]:
    """The items, as the role takes them."""
    return [Item.model_validate(item) for item in state["items"]]


def ask_question(question: Question, state: JudgeState, model: BaseChatModel) -> JudgeState:
    """Ask the question once; where the reply holds no JSON at all, plain words are read."""
    value, reply, usage, problem, final = None, "", Usage(), "", False
    try:
        value, reply, usage = ask_structured(
            model, _messages(question.prompt(state), state), question.schema, retries=0
        )
    except ModelReplyError as error:
        problem, reply, usage = str(error), error.reply, error.usage
        final = isinstance(error, (ReplyRefused, ReplyCutOff))
    except ContextOverflow as error:
        problem, final = str(error), True
    update: JudgeState = {}
    try:
        if value is not None:
            judged = [text for item in parse_items(state) for text in item.texts]
            check_own(reply, [*judged, *map(neutralise, judged)], question.role.stated)
            update = question.read(value, state)
        elif not final and "{" not in reply and reply.strip():
            update = question.read_words(reply, state)
        else:
            update["problem"] = problem
    except ValidationError as error:
        update["problem"] = f"{problem} {error.errors()[0]['msg']}".strip()
    except ModelReplyError as error:
        update["problem"] = str(error)
    return {
        "tries": state.get("tries", 0) + 1,
        "problem": "",
        "final": final,
        "reply": reply,
        "usage": usage,
        **update,
    }


def retry_or(node: str, onward: str) -> Callable[[JudgeState, Runtime[JudgeContext]], str]:
    """A router: back to the node while there is a problem and a try is left, else onward."""

    def route(state: JudgeState, runtime: Runtime[JudgeContext]) -> str:
        left = state["tries"] <= runtime.context.retries
        return node if state["problem"] and left and not state["final"] else onward

    return route


def settle(state: JudgeState) -> JudgeState:
    """Give items that no try could judge the last problem."""
    missing = Verdict(problem=state["problem"] or "the judge found nothing").model_dump()
    return {"verdicts": state.get("verdicts") or [missing] * len(state["items"])}


def one_question(role: Role) -> Graph:
    """Ask, again if necessary, and settle."""

    def prompt(state: JudgeState) -> str:
        return role.prompt(parse_items(state), state.get("swapped", False))

    def keep(verdicts: list[Verdict], state: JudgeState) -> JudgeState:
        before = [Verdict.model_validate(verdict) for verdict in state.get("verdicts", [])] or verdicts
        best = [old if new.problem and not old.problem else new for new, old in zip(verdicts, before, strict=True)]
        problem = next((verdict.problem for verdict in best if verdict.problem), "")
        return {"verdicts": [verdict.model_dump() for verdict in best], "problem": problem}

    def ask(state: JudgeState, runtime: Runtime[JudgeContext]) -> JudgeState:
        """Ask about all items at once; an unreadable reply is asked for again, with what was wrong with it."""
        question = Question(
            prompt=prompt,
            schema=role.schema_of(len(state["items"])),
            read=lambda value, now: keep(role.read(value, parse_items(now)), now),
            read_words=lambda reply, now: keep(role.read_words(reply, parse_items(now)), now),
            role=role,
        )
        return ask_question(question, state, runtime.context.model)

    graph = StateGraph(JudgeState, context_schema=JudgeContext)
    graph.add_node("ask", ask)
    graph.add_node("settle", settle)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", retry_or("ask", "settle"), ["ask", "settle"])
    graph.add_edge("settle", END)
    return graph.compile(name=role.name).with_config(recursion_limit=RECURSION_LIMIT)


def _messages(prompt: str, state: JudgeState) -> list[BaseMessage]:
    """The prompt; after an unusable reply also that reply, and what was wrong with it."""
    messages: list[BaseMessage] = [HumanMessage(prompt)]
    if state.get("tries") and state.get("problem"):
        messages += [
            AIMessage(state["reply"].strip() or "(no reply)"),
            HumanMessage(AGAIN.format(problem=state["problem"])),
        ]
    return messages
