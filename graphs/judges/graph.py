"""Graph of every judge: ask for a verdict in a schema, retry if it is unreadable, then settle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, NamedTuple, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from emend.agents.judging.base import Item, Role, Verdict
from emend.agents.judging.fence import neutralise
from emend.agents.judging.prompt_file import JudgePrompt
from emend.agents.judging.replies import check_own
from emend.agents.structured import ask_in_words, ask_structured
from emend.graphs.execution import Graph, run_graph
from emend.memory.errors import (
    BadSettings,
    ContextOverflow,
    ModelReplyError,
    ReplyCutOff,
    ReplyRefused,
)
from emend.memory.probe import Step, Usage

# Two questions, each of at most ten tries.
RECURSION_LIMIT = 40
MOST_TRIES = 10
AGAIN = (
    "That reply is not a usable verdict: {problem} Reply once more, with nothing but "
    "what was asked for."
)


class JudgeState(TypedDict, total=False):
    """State with `items` and `swapped` as input and `verdicts`, one per item, as output.

    `swapped` is true if the order of the items' parts is to be swapped.
    `problem` says why the last reply was unusable, and is empty if it was usable; `tries` counts
    the replies to the current question; `final` means that asking again would not help. `facts` are
    the atomic facts of a chain of thought.
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
    """Context with the judging model and the maximum number of retries after unreadable replies."""

    model: BaseChatModel
    retries: int = 1


class Question(NamedTuple):
    """Question to the judge: its messages, the schema of the reply, and functions to read replies.

    Without a schema the judge is asked for plain words. `read` returns the state update from an
    instance of the schema; if the update has a `problem`, the judge is asked again. `read_words`
    returns the update from a reply without JSON, and raises ModelReplyError if it has no verdict.
    """

    messages: Callable[[JudgeState], list[BaseMessage]]
    schema: type[BaseModel] | None
    read: Callable[[Any, JudgeState], JudgeState]
    read_words: Callable[[str, JudgeState], JudgeState]
    role: Role


class ItemVerdict(Verdict):
    """Verdict on one item, with the unchanged reply.

    If a call judged several items, the first one has the whole cost and all steps of the graph.
    """

    reply: str = ""
    usage: Usage = Usage()
    steps: tuple[Step, ...] = ()


class Judge:
    """Judge with a role and the graph that runs it.

    Args:
        role: the prompt, and how replies are read.
        build: function that builds the graph; by default one question about all items.
    """

    def __init__(self, role: Role, build: Callable[[], Graph] | None = None) -> None:
        self.role = role
        self.asks_once = build is None
        self.build: Callable[[], Graph] = build or partial(one_question, role)

    @property
    def name(self) -> str:
        """Name of the role."""
        return self.role.name

    @cached_property
    def graph(self) -> Graph:
        """Compiled graph."""
        return self.build()

    def with_prompt(self, prompt: JudgePrompt) -> Self:
        """Return the judge with a user's prompt instead of its own.

        Raises:
            BadSettings: the prompt does not fit, or the judge asks more than one question.
        """
        if not self.asks_once:
            raise BadSettings(
                f"judge '{self.name}' asks more than one question: it takes no prompt from a file."
            )
        return type(self)(self.role.with_prompt(prompt))

    def judge(
        self,
        items: Sequence[Item],
        model: BaseChatModel,
        *,
        swapped: bool = False,
        retries: int = 1,
    ) -> list[ItemVerdict]:
        """Return the model's verdict on each item of one call.

        Raises:
            ModelError: the model could not be asked; an unusable reply is a `problem` instead.
            BadSettings: too many retries.
            ValueError: there are no items, or more than the role's `batch_size`.
        """
        if not 0 <= retries < MOST_TRIES:
            raise BadSettings(f"retries is {retries}: give 0 to {MOST_TRIES - 1}.")
        if not 1 <= len(items) <= self.role.batch_size:
            raise ValueError(
                f"{len(items)} items: judge '{self.name}' takes 1 to "
                f"{self.role.batch_size} at a time."
            )
        state = {"items": [item.model_dump() for item in items], "swapped": swapped}
        final, steps = run_graph(self.graph, state, JudgeContext(model, retries))
        first: dict[str, Any] = {"usage": final["usage"], "steps": steps}
        return [
            ItemVerdict.model_validate(
                {**verdict, "reply": final["reply"], **({} if place else first)}
            )
            for place, verdict in enumerate(final["verdicts"])
        ]


def parse_items(state: JudgeState) -> list[Item]:
    """Return the items of the state as `Item` instances."""
    return [Item.model_validate(item) for item in state["items"]]


def ask_question(question: Question, state: JudgeState, model: BaseChatModel) -> JudgeState:
    """Ask the question once; a reply without any JSON is read as plain words."""
    value, reply, usage, problem, final = None, "", Usage(), "", False
    messages = _with_problem(question.messages(state), state)
    try:
        if question.schema is None:
            reply, usage = ask_in_words(model, messages)
            problem = "" if reply.strip() else "the reply is empty."
        else:
            value, reply, usage = ask_structured(model, messages, question.schema, retries=0)
    except ModelReplyError as error:
        problem, reply, usage = str(error), error.reply, error.usage
        final = isinstance(error, (ReplyRefused, ReplyCutOff))
    except ContextOverflow as error:
        problem, final = str(error), True
    update = _read(
        question, state, value, reply, problem, readable=not final and bool(reply.strip())
    )
    return {
        "tries": state.get("tries", 0) + 1,
        "problem": "",
        "final": final,
        "reply": reply,
        "usage": usage,
        **update,
    }


def _read(
    question: Question,
    state: JudgeState,
    value: BaseModel | None,
    reply: str,
    problem: str,
    readable: bool,
) -> JudgeState:
    """Return the update from an instance of the schema or from plain words, else the problem."""
    try:
        if value is not None:
            judged = [text for item in parse_items(state) for text in item.texts]
            check_own(reply, [*judged, *map(neutralise, judged)], question.role.stated)
            return question.read(value, state)
        if readable and (question.schema is None or "{" not in reply):
            return question.read_words(reply, state)
    except ValidationError as error:
        problem = f"{problem} {error.errors()[0]['msg']}".strip()
    except ModelReplyError as error:
        problem = str(error)
    return {"problem": problem}


def retry_or(node: str, onward: str) -> Callable[[JudgeState, Runtime[JudgeContext]], str]:
    """Return a router that goes back to `node` while there is a problem and a retry is left, else
    to `onward`.
    """

    def route(state: JudgeState, runtime: Runtime[JudgeContext]) -> str:
        left = state["tries"] <= runtime.context.retries
        return node if state["problem"] and left and not state["final"] else onward

    return route


def settle(state: JudgeState) -> JudgeState:
    """Set the last problem as the verdict on all items if no reply was usable."""
    missing = Verdict(problem=state["problem"] or "the judge found nothing").model_dump()
    return {"verdicts": state.get("verdicts") or [missing] * len(state["items"])}


def one_question(role: Role) -> Graph:
    """Build the graph: ask -> (retry) -> settle."""

    def messages(state: JudgeState) -> list[BaseMessage]:
        return role.messages(parse_items(state), state.get("swapped", False))

    def keep(verdicts: list[Verdict], state: JudgeState) -> JudgeState:
        before = [
            Verdict.model_validate(verdict) for verdict in state.get("verdicts", [])
        ] or verdicts
        best = [
            old if new.problem and not old.problem else new
            for new, old in zip(verdicts, before, strict=True)
        ]
        problem = next((verdict.problem for verdict in best if verdict.problem), "")
        return {"verdicts": [verdict.model_dump() for verdict in best], "problem": problem}

    def ask(state: JudgeState, runtime: Runtime[JudgeContext]) -> JudgeState:
        """Ask about all items at once; a retry shows the unreadable reply and its problem."""
        question = Question(
            messages=messages,
            schema=None if role.own_prompt else role.schema_of(len(state["items"])),
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


def _with_problem(messages: list[BaseMessage], state: JudgeState) -> list[BaseMessage]:
    """Return the messages, followed by the last reply and its problem if it was unusable."""
    if not state.get("tries") or not state.get("problem"):
        return messages
    reply = AIMessage(state["reply"].strip() or "(no reply)")
    return [*messages, reply, HumanMessage(AGAIN.format(problem=state["problem"]))]
