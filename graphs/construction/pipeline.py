"""The base of construction graphs: state, context, rejections by filters, and what is known of a pipeline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, or_
from typing import Annotated, Any, Literal

from langchain_core.language_models import BaseChatModel
from typing_extensions import TypedDict

from emend.agents.roles.author import SHIPPED, AuthorPrompt, Prompts
from emend.graphs.execution import Graph
from emend.memory.edit import FrozenModel
from emend.memory.probe import Usage

Recipe = Literal["paper", "best"]
ATTEMPTS: Mapping[Recipe, int] = {"paper": 1, "best": 3}
"""Maximum number of texts that are written for an item; the papers' pipelines write one."""


AGENTS, ROUNDS = 3, 2
"""Agents of a debate, and the maximum number of its rounds."""


class Rejection(FrozenModel):
    """A filter that an attempt did not pass, and why."""

    filter: str
    reason: str
    attempt: int = 1


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


def accept(*filters: str) -> dict[str, Any]:
    """The update of a node whose filters the attempt passes."""
    return {"passed": dict.fromkeys(filters, True), "problem": ""}


def reject(state: ConstructionState, filter_name: str, reason: str, *passed: str) -> dict[str, Any]:
    """The update of a node whose filter the attempt does not pass, after those that it passed."""
    rejection = Rejection(filter=filter_name, reason=reason, attempt=state.get("attempts", 1))
    return {
        "passed": dict.fromkeys(passed, True) | {filter_name: False},
        "problem": reason,
        "rejections": [rejection.model_dump()],
    }


def may_retry(state: ConstructionState, context: ConstructionContext) -> bool:
    """True if another attempt is allowed."""
    return state.get("attempts", 1) < context.attempts


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
