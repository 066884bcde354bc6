"""How every judge works: ask for a verdict in a schema, ask again if it cannot be read, then say that there is none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from emend.agents.judging.base import Found, Item, Role
from emend.agents.judging.fence import neutralise
from emend.agents.judging.replies import check_own
from emend.agents.structured import ask_structured
from emend.graphs.running import Graph, run_graph
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, ContextOverflow, ModelReplyError, ReplyCutOff, ReplyRefused
from emend.memory.probe import Step, Usage

RECURSION_LIMIT = 40
"""Two stages, each of at most ten tries."""
MOST_TRIES = 10
AGAIN = "That reply is no verdict that can be used: {problem} Reply once more, with nothing but what was asked for."


class JudgeState(TypedDict, total=False):
    """JSON values: `items` and whether their parts are `swapped` go in; `found`, one per item, comes out.

    `problem` says why the last reply was no use, and is empty where it was; `tries` counts those of the stage; `over`
    where asking again is no use. `facts` are the atoms of a chain of thought.
    """

    items: list[dict[str, Any]]
    swapped: bool
    tries: int
    problem: str
    over: bool
    reply: str
    facts: list[str]
    found: list[dict[str, Any]]
    usage: dict[str, int]


@dataclass(frozen=True)
class JudgeContext:
    """The model that judges, and how often an unreadable reply is asked for again."""

    model: BaseChatModel
    retries: int = 1


Node = Callable[[JudgeState, Runtime[JudgeContext]], JudgeState]


class Stage(NamedTuple):
    """One question to the judge: its text, its schema, what is made of the value, and how plain words are read."""

    prompt: Callable[[JudgeState], str]
    schema: type[BaseModel]
    read: Callable[[Any, JudgeState], JudgeState]
    """The update; a `problem` in it has the judge asked again."""
    words: Callable[[str, JudgeState], JudgeState]
    """The same from a reply without JSON; raises ModelReplyError."""
    role: Role


class Said(NamedTuple):
    """What came of one call: a value or a problem, the reply, the cost, and whether asking again is no use."""

    value: Any
    problem: str
    reply: str
    usage: Usage
    over: bool = False


class Judged(FrozenModel):
    """A judge's finding on one item: numbers with the reason, or the problem; the reply is kept either way.

    The cost of a call that judged several items stands at the first of them, and so do the graph's steps.
    """

    values: dict[str, float] = {}
    reason: str = ""
    problem: str = ""
    reply: str = ""
    usage: Usage = Usage()
    steps: tuple[Step, ...] = ()


class Judge:
    """A role and the graph that plays it.

    Args:
        role: what is asked and how it is read.
        build: makes the graph.
    """

    def __init__(self, role: Role, build: Callable[[], Graph]) -> None:
        self.role, self.build = role, build

    @property
    def name(self) -> str:
        """The role's."""
        return self.role.name

    @cached_property
    def graph(self) -> Graph:
        """The compiled graph."""
        return self.build()

    def judge(
        self, items: Sequence[Item], model: BaseChatModel, *, swapped: bool = False, retries: int = 1
    ) -> list[Judged]:
        """What the model says of each item; at most the role's `batch` of them go into one call.

        Raises:
            ModelError: the model could not be asked; a reply that is no use is a `problem` instead.
            BadSettings: too many retries.
        """
        if not 0 <= retries < MOST_TRIES:
            raise BadSettings(f"retries is {retries}: give 0 to {MOST_TRIES - 1}.")
        if not 1 <= len(items) <= self.role.batch:
            raise ValueError(f"{len(items)} items: judge '{self.name}' takes 1 to {self.role.batch} at a time.")
        state = {"items": [item.model_dump() for item in items], "swapped": swapped}
        final, steps = run_graph(self.graph, state, JudgeContext(model, retries))
        found = [Found.model_validate(told) for told in final["found"]]
        first: dict[str, Any] = {"usage": Usage.model_validate(final["usage"]), "steps": steps}
        return [
            Judged(**told.model_dump(), reply=final["reply"], **({} if place else first))
            for place, told in enumerate(found)
        ]


def items_of(state: JudgeState) -> list[Item]:
    """The items, as the role takes them."""
    return [Item.model_validate(told) for told in state["items"]]


def asking(stage: Stage) -> Node:
    """The node that asks once."""

    def ask(state: JudgeState, runtime: Runtime[JudgeContext]) -> JudgeState:
        said = _call(runtime.context.model, _messages(stage.prompt(state), state), stage.schema)
        update, problem = _read(stage, said, state)
        told: JudgeState = {
            "tries": state.get("tries", 0) + 1,
            "problem": problem,
            "over": said.over,
            "reply": said.reply,
            "usage": Usage.model_validate(state.get("usage", {})).plus(said.usage).model_dump(),
        }
        return {**told, **update}

    return ask


def routing(node: str, onward: str) -> Callable[[JudgeState, Runtime[JudgeContext]], str]:
    """Back to the node while there is a problem and a try is left, else onward."""

    def route(state: JudgeState, runtime: Runtime[JudgeContext]) -> str:
        left = state["tries"] <= runtime.context.retries
        return node if state["problem"] and left and not state["over"] else onward

    return route


def settle(state: JudgeState) -> JudgeState:
    """What no try could find has the last problem."""
    missing = Found(problem=state["problem"] or "the judge found nothing").model_dump()
    return {"found": state.get("found") or [missing] * len(state["items"])}


def one_question(role: Role) -> CompiledStateGraph[JudgeState, JudgeContext, JudgeState, JudgeState]:
    """Ask, again if need be, and settle."""

    def prompt(state: JudgeState) -> str:
        return role.prompt(items_of(state), state.get("swapped", False))

    def keep(found: list[Found], state: JudgeState) -> JudgeState:
        before = [Found.model_validate(told) for told in state.get("found", [])] or found
        best = [old if new.problem and not old.problem else new for new, old in zip(found, before, strict=True)]
        problem = next((one.problem for one in best if one.problem), "")
        return {"found": [one.model_dump() for one in best], "problem": problem}

    def ask(state: JudgeState, runtime: Runtime[JudgeContext]) -> JudgeState:
        """One question to the judge about all items; what cannot be read is asked again, saying what was wrong."""
        stage = Stage(
            prompt=prompt,
            schema=role.schema_of(len(state["items"])),
            read=lambda value, now: keep(role.read(value, items_of(now)), now),
            words=lambda reply, now: keep(role.read_words(reply, items_of(now)), now),
            role=role,
        )
        return asking(stage)(state, runtime)

    graph = StateGraph(JudgeState, context_schema=JudgeContext)
    graph.add_node("ask", ask)
    graph.add_node("settle", settle)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", routing("ask", "settle"), ["ask", "settle"])
    graph.add_edge("settle", END)
    return graph.compile(name=role.name).with_config(recursion_limit=RECURSION_LIMIT)


def _messages(prompt: str, state: JudgeState) -> list[BaseMessage]:
    """The prompt; after a reply that was no use also that reply, and what was wrong with it."""
    asked: list[BaseMessage] = [HumanMessage(prompt)]
    if state.get("tries") and state.get("problem"):
        asked += [
            AIMessage(state["reply"].strip() or "(no reply)"),
            HumanMessage(AGAIN.format(problem=state["problem"])),
        ]
    return asked


def _call(model: BaseChatModel, messages: list[BaseMessage], schema: type[BaseModel]) -> Said:
    try:
        told = ask_structured(model, messages, schema, retries=0)
    except (ReplyRefused, ReplyCutOff) as error:
        return Said(None, str(error), error.reply, error.usage, over=True)
    except ModelReplyError as error:
        return Said(None, str(error), error.reply, error.usage)
    except ContextOverflow as error:
        return Said(None, str(error), "", Usage(), over=True)
    return Said(told.value, "", told.reply, told.usage)


def _read(stage: Stage, said: Said, state: JudgeState) -> tuple[JudgeState, str]:
    """The update, and what is wrong with the reply; where it holds no JSON at all, plain words are read."""
    given = [text for item in items_of(state) for text in item.texts]
    texts = [*given, *map(neutralise, given)]
    try:
        if said.value is not None:
            check_own(said.reply, texts, stage.role.stated)
            update = stage.read(said.value, state)
        elif said.over or "{" in said.reply or not said.reply.strip():
            return {}, said.problem
        else:
            update = stage.words(said.reply, state)
    except ValidationError as error:
        return {}, f"{said.problem} {error.errors()[0]['msg']}".strip()
    except ModelReplyError as error:
        return {}, str(error)
    return update, update.get("problem", "")
