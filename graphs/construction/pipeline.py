"""Base of construction graphs: state, context, filter outcomes, graph builder and pipeline."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, or_
from typing import Annotated, Any, Literal, TypeVar

from langchain_core.language_models import BaseChatModel
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel
from typing_extensions import TypedDict

from emend.agents.roles.author import SHIPPED, AuthorPrompt, Prompts, decide
from emend.agents.roles.conversation import Prompt
from emend.agents.scoring import is_chat_model
from emend.agents.structured import Structured, ask_structured
from emend.graphs.construction.filters.texts import first_fault
from emend.graphs.execution import Graph
from emend.memory.edit import FrozenModel
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage
from emend.memory.registry import summary_of

LANGUAGES = {
    "en": "English",
    "zh": "Chinese",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "ja": "Japanese",
}
Reply = TypeVar("Reply", bound=BaseModel)
Recipe = Literal["paper", "best"]
# Maximum number of texts written per item; the papers' pipelines write one.
ATTEMPTS: Mapping[Recipe, int] = {"paper": 1, "best": 3}


# Default number of debate agents, and maximum number of debate rounds.
AGENTS, ROUNDS = 3, 2


class FilterInfo(FrozenModel):
    """Description of what a filter rejects, and the pass rate that the paper reports, if any."""

    rejects: str
    published: str = ""
    sums_up: bool = False
    """True if the filter sums up other filters, which count the attempts that they reject."""


def add_counts(counts: Mapping[str, int], further: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of counts by name."""
    return dict(Counter(counts) + Counter(further))


class ConstructionState(TypedDict, total=False):
    """State of a construction graph: `item` is the input, `result` and `rejections` the outputs.

    `passed` has the outcome of each filter for the last attempt that reached it. For items with
    several texts, `tries` counts the texts that reached each filter, over all attempts.
    """

    item: dict[str, Any]
    attempts: int
    problem: str
    passed: Annotated[dict[str, bool], or_]
    tries: Annotated[dict[str, int], add_counts]
    rejections: Annotated[list[dict[str, Any]], add]
    result: dict[str, Any]
    usage: Annotated[Usage, Usage.plus]


@dataclass(frozen=True)
class ConstructionContext:
    """Runtime context of a graph: author and judge, prompts, maximum number of attempts, language,
    and style and length (in words) of documents.

    `queries` is the language of questions if it differs from the documents'; empty for the kind's
    default. `debaters` are the agents of a debate, and `rounds` the maximum number of its rounds.
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
        """Return a prompt by name."""
        return self.prompts[name]

    def fill(self, name: str, state: "ConstructionState", **values: str) -> Prompt:
        """Return a prompt filled with values, the language, and the problem of the last attempt."""
        language = LANGUAGES.get(self.language, self.language)
        return self.prompts[name].fill(
            state.get("problem", "").partition(":")[0], **{"language": language, **values}
        )

    def ask_author(self, prompt: Prompt, schema: type[Reply], new_tokens: int) -> Structured[Reply]:
        """Ask the author for a reply in a schema, once.

        Raises:
            ModelReplyError: the reply cannot be parsed.
        """
        sent = prompt.turns if is_chat_model(self.author) else prompt.text
        return ask_structured(self.author, sent, schema, retries=0, new_tokens=new_tokens)

    def ask_judge(
        self, name: str, refusal: str, expected: bool = True, **values: str
    ) -> tuple[str, Usage]:
        """Ask the judge for a yes or no decision.

        Args:
            name: name of the prompt.
            refusal: reason to return if the decision is not the expected one.
            expected: expected decision.
            values: values of the prompt.

        Returns:
            The reason, empty if the decision is as expected, and the usage. For an unusable reply,
            the reason is the error message.
        """
        try:
            decision = decide(self.judge, self.prompts[name].fill(**values))
        except ModelReplyError as error:
            return str(error) or refusal, error.usage
        return "" if (decision.word == "True") == expected else refusal, decision.usage


def accept(*filters: str) -> dict[str, Any]:
    """Return the state update of a node if the attempt passes its filters."""
    return {"passed": dict.fromkeys(filters, True), "problem": ""}


def rejection(state: ConstructionState, filter_name: str, reason: str) -> dict[str, Any]:
    """Return a rejection of the current attempt by a filter, with the reason."""
    return {"filter": filter_name, "reason": reason, "attempt": state.get("attempts", 1)}


def count_tries(filters: Iterable[str], texts: int, faults: Iterable[str]) -> dict[str, int]:
    """Return the number of texts that reach each filter, having passed all earlier ones.

    Args:
        filters: names in the order in which they are applied.
        texts: number of texts that reach the first filter.
        faults: name of the rejecting filter for each rejected text.
    """
    rejected, tries = Counter(faults), dict[str, int]()
    for name in filters:
        tries[name] = texts
        texts -= rejected[name]
    return tries


def outcomes_of(
    tries: Mapping[str, int], rejections: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the state update with the number of texts that reached each filter, and whether all of
    them passed it.
    """
    passed = {name: True for name, count in tries.items() if count}
    return {"tries": {**tries}, "passed": passed | failures(rejections)}


def failures(rejections: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """Return the filters of rejections, mapped to False."""
    return {each["filter"]: False for each in rejections}


def reject(state: ConstructionState, filter_name: str, reason: str, *passed: str) -> dict[str, Any]:
    """Return the state update of a node whose filter rejects the attempt.

    Args:
        state: state of the item.
        filter_name: the rejecting filter.
        reason: reason of the rejection.
        passed: filters that the attempt passed before.
    """
    return {
        "passed": dict.fromkeys(passed, True) | {filter_name: False},
        "problem": reason,
        "rejections": [rejection(state, filter_name, reason)],
    }


Filters = Mapping[str, Callable[..., str]]


def apply_filters(
    state: ConstructionState, draft: Any, filters: Filters, suffix: str = ""
) -> dict[str, Any]:
    """Apply filters to a draft up to the first that rejects it, and return the state update.

    Args:
        state: state of the item.
        draft: argument of the filters.
        filters: filters by name, in order.
        suffix: text appended to the reason.
    """
    name, reason = first_fault(draft, filters)
    names = list(filters)
    if name:
        return reject(state, name, reason + suffix, *names[: names.index(name)])
    return accept(*names)


def describe(filters: Filters, rejects: Mapping[str, str] | None = None) -> dict[str, FilterInfo]:
    """Return the descriptions of filters, which default to the summaries of their docstrings."""
    return {
        name: FilterInfo(rejects=(rejects or {}).get(name) or summary_of(find))
        for name, find in filters.items()
    }


def is_prompt(name: str, text: str) -> bool:
    """Return whether a text is an instance of the shipped prompt with that name."""
    return SHIPPED[name].task.partition("{")[0][:40] in text


def last_line(text: str, label: str) -> str:
    """Return the rest of the line after the last occurrence of a label in a prompt."""
    return text.rpartition(f"{label}: ")[2].partition("\n")[0].strip()


def may_retry(
    state: Mapping[str, Any], context: ConstructionContext, counter: str = "attempts"
) -> bool:
    """Return whether another attempt is allowed."""
    return bool(state.get(counter, 1) < context.attempts)


Node = Callable[..., Any]


def add_nodes(
    graph: StateGraph[Any, Any, Any, Any],
    *nodes: Node,
    checks: Mapping[Node, Node | None],
    end: str = END,
    counter: str = "attempts",
) -> None:
    """Add a sequence of nodes to a graph, each named after its function.

    Args:
        graph: graph to extend.
        nodes: nodes in order.
        checks: nodes that may set `problem`, mapped to the node to retry from while attempts are
            left; without one, or without attempts left, the graph ends.
        end: node after the last one.
        counter: state key with the number of attempts.
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


def checking_graph(
    name: str, state: type, *nodes: Node, checks: Mapping[Node, Node | None]
) -> Graph:
    """Return a compiled graph of a sequence of nodes with checks, see `add_nodes`."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(state, context_schema=ConstructionContext)
    add_nodes(graph, *nodes, checks=checks)
    graph.add_edge(START, nodes[0].__name__)
    return graph.compile(name=name)


@dataclass(frozen=True)
class Pipeline:
    """Pipeline of a construction kind: graph, filters and prompts by recipe, and sample replies.

    Attributes:
        name: name of the kind.
        build: builds the graph of a recipe.
        filters: returns the filters of a recipe by name, in the order in which they are applied.
        prompts: returns the names of the prompts that a recipe uses.
        sample: returns a typical reply to a prompt of the pipeline, for estimates.
        attempts: maximum number of texts written per item, by recipe.
        own_prompts: prompts of another package by name, in addition to `SHIPPED`.
    """

    name: str
    build: Callable[[Recipe], Graph]
    filters: Callable[[Recipe], Mapping[str, FilterInfo]]
    prompts: Callable[[Recipe], Sequence[str]]
    sample: Callable[[str], str]
    attempts: Mapping[Recipe, int] = field(default_factory=lambda: ATTEMPTS)
    own_prompts: Prompts = field(default_factory=dict)

    @property
    def available_prompts(self) -> Prompts:
        """Emend's prompts and the pipeline's own, by name."""
        return {**SHIPPED, **self.own_prompts}

    @property
    def graph(self) -> Graph:
        """Graph of recipe `best`, for drawing."""
        return self.build("best")
