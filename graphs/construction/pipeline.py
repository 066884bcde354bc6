"""The base of construction graphs: state, context, rejections by filters, and what is known of a pipeline."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, or_
from typing import Annotated, Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.roles.author import SHIPPED, AuthorPrompt, Prompts, decide
from emend.agents.roles.conversation import Prompt
from emend.graphs.construction.filters.texts import first_fault, summary_of
from emend.graphs.execution import Graph
from emend.memory.edit import FrozenModel
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage

LANGUAGES = {"en": "English", "zh": "Chinese", "de": "German", "fr": "French", "es": "Spanish", "ja": "Japanese"}
Recipe = Literal["paper", "best"]
ATTEMPTS: Mapping[Recipe, int] = {"paper": 1, "best": 3}
"""Maximum number of texts that are written for an item; the papers' pipelines write one."""


AGENTS, ROUNDS = 3, 2
"""Agents of a debate, and the maximum number of its rounds."""


class FilterInfo(FrozenModel):
    """A filter of a pipeline: what it rejects, and the share that the paper kept at this step, where it says so."""

    rejects: str
    published: str = ""


class ConstructionState(TypedDict, total=False):
    """An `item` of the source goes in; a `result`, or the rejections of all attempts, come out.

    `passed` says of each filter whether the last attempt that reached it passed.
    """

    item: dict[str, Any]
    attempts: int
    problem: str
    passed: Annotated[dict[str, bool], or_]
    rejections: Annotated[list[dict[str, Any]], add]
    result: dict[str, Any]
    usage: Annotated[Usage, Usage.plus]


@dataclass(frozen=True)
class ConstructionContext:
    """The models that write and judge, the prompts, how often an item is tried, and style and length of documents.

    `queries` is the language of questions, where it is another one than that of documents; empty for the kind's own.
    `debaters` are the agents of a debate, and `rounds` the maximum number of its rounds.
    """

    author: BaseChatModel
    judge: BaseChatModel
    prompts: Prompts = field(default_factory=lambda: SHIPPED)
    attempts: int = 1
    language: str = "en"
    style: str = "The Guardian"
    words: int = 250
    queries: str = ""
    debaters: tuple[BaseChatModel, ...] = ()
    rounds: int = ROUNDS

    def prompt(self, name: str) -> AuthorPrompt:
        """The prompt of that name."""
        return self.prompts[name]

    def fill(self, name: str, state: "ConstructionState", **values: str) -> Prompt:
        """The prompt with the values, the language of texts, and what was wrong with the attempt before."""
        language = LANGUAGES.get(self.language, self.language)
        return self.prompts[name].fill(state.get("problem", "").partition(":")[0], **{"language": language, **values})

    def ask_judge(self, name: str, refusal: str, expected: bool = True, **values: str) -> tuple[str, Usage]:
        """Why the judge's decision is not the expected one, empty if it is; and the cost.

        Args:
            name: of the prompt.
            refusal: the reason for another decision; an unusable reply has a reason of its own.
            expected: the decision.
            values: that are filled into the prompt.
        """
        try:
            decision = decide(self.judge, self.prompts[name].fill(**values))
        except ModelReplyError as error:
            return str(error) or refusal, error.usage
        return "" if decision.holds == expected else refusal, decision.usage


def accept(*filters: str) -> dict[str, Any]:
    """The update of a node whose filters the attempt passes."""
    return {"passed": dict.fromkeys(filters, True), "problem": ""}


def rejection(state: ConstructionState, filter_name: str, reason: str) -> dict[str, Any]:
    """The note that the attempt does not pass a filter, and why."""
    return {"filter": filter_name, "reason": reason, "attempt": state.get("attempts", 1)}


def failures(rejections: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """The filters of rejections as those that were not passed."""
    return {each["filter"]: False for each in rejections}


def reject(state: ConstructionState, filter_name: str, reason: str, *passed: str) -> dict[str, Any]:
    """The update of a node whose filter the attempt does not pass, after those that it passed."""
    return {
        "passed": dict.fromkeys(passed, True) | {filter_name: False},
        "problem": reason,
        "rejections": [rejection(state, filter_name, reason)],
    }


Filters = Mapping[str, Callable[..., str]]


def apply_filters(state: ConstructionState, draft: Any, filters: Filters, suffix: str = "") -> dict[str, Any]:
    """The update of a node that applies filters to a draft, up to the first that rejects it.

    Args:
        state: of the item.
        draft: what the filters take.
        filters: by name.
        suffix: of the reason.
    """
    name, reason = first_fault(draft, filters)
    names = list(filters)
    return reject(state, name, reason + suffix, *names[: names.index(name)]) if name else accept(*names)


def describe(filters: Filters, rejects: Mapping[str, str] | None = None) -> dict[str, FilterInfo]:
    """The filters with what they reject, by their docstrings or, for some, in other words."""
    return {name: FilterInfo(rejects=(rejects or {}).get(name) or summary_of(find)) for name, find in filters.items()}


def is_prompt(name: str, text: str) -> bool:
    """True for the text of the shipped prompt of that name."""
    return SHIPPED[name].task.partition("{")[0][:40] in text


def last_line(text: str, label: str) -> str:
    """The text behind the last such label of a prompt, up to the end of the line."""
    return text.rpartition(f"{label}: ")[2].partition("\n")[0].strip()


def may_retry(state: Mapping[str, Any], context: ConstructionContext, counter: str = "attempts") -> bool:
    """True if another attempt is allowed."""
    return bool(state.get(counter, 1) < context.attempts)


Node = Callable[..., Any]


def add_nodes(
    graph: StateGraph[Any, Any, Any, Any],
    *nodes: Node,
    checks: Mapping[Node, Node | None],
    end: str = END,
    counter: str = "attempts",
) -> None:
    """Add nodes that run one after the other, each named after its function.

    Args:
        graph: gets them.
        nodes: in their order.
        checks: nodes that may leave a problem. It leads back to the node that is named here, while attempts are left,
            and else to the end.
        end: node after the last one.
        counter: number of attempts in the state.
    """
    for node, following in zip(nodes, [*(each.__name__ for each in nodes[1:]), end], strict=True):
        graph.add_node(node.__name__, node)
        if node in checks:
            again = getattr(checks[node], "__name__", END)
            ends: dict[Hashable, str] = {each: each for each in (following, again, END)}
            graph.add_conditional_edges(node.__name__, _route(following, again, counter), ends)
        else:
            graph.add_edge(node.__name__, following)


def _route(following: str, again: str, counter: str) -> Callable[..., str]:
    def choose(state: dict[str, Any], runtime: Runtime[ConstructionContext]) -> str:
        if not state["problem"]:
            return following
        return again if may_retry(state, runtime.context, counter) else END

    return choose


def checking_graph(name: str, state: type, *nodes: Node, checks: Mapping[Node, Node | None]) -> Graph:
    """The graph of nodes in a row with checks, see `add_nodes`."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(state, context_schema=ConstructionContext)
    add_nodes(graph, *nodes, checks=checks)
    graph.add_edge(START, nodes[0].__name__)
    return graph.compile(name=name)


@dataclass(frozen=True)
class Pipeline:
    """A kind of construction: its graph by recipe, its filters in order, its prompts, and a stand-in's replies.

    Attributes:
        name: of the kind.
        build: makes the graph of a recipe.
        filters: by recipe, the filters by name in the order in which they are applied.
        prompts: by recipe, names of the prompts that it uses.
        sample: a usual reply to a prompt of the pipeline's, for estimates.
        attempts: by recipe, the maximum number of texts that are written for an item.
    """

    name: str
    build: Callable[[Recipe], Graph]
    filters: Callable[[Recipe], Mapping[str, FilterInfo]]
    prompts: Callable[[Recipe], Sequence[str]]
    sample: Callable[[str], str]
    attempts: Mapping[Recipe, int] = field(default_factory=lambda: ATTEMPTS)

    @property
    def graph(self) -> Graph:
        """The graph of the recipe `best`, for drawing."""
        return self.build("best")
