"""Item maker, which runs the graph of a kind on each item."""

import time
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel
from pydantic import Field, ValidationError

from emend.agents.roles.author import Prompts, load_prompts
from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.items.line import BuildItem, FilterRejection, ItemOutcome
from emend.evals.construction.registry import load_pipeline
from emend.graphs.construction.pipeline import AGENTS, ROUNDS, ConstructionContext, Pipeline
from emend.graphs.execution import Graph, run_graph
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import (
    BadSettings,
    ContextOverflow,
    ModelReplyError,
    NotApplicable,
    problem_of,
)
from emend.memory.probe import Step, Usage
from emend.memory.redaction import hide_keys
from emend.memory.registry import nearest
from emend.memory.steps import steps_of, usage_until

# Errors that leave an item unscored: the reply is unusable, or no reply is possible.
UNUSABLE = (ModelReplyError, ContextOverflow, NotApplicable)
# Name of the settings in `--set build.KEY=VALUE`.
SETTINGS = "build"


class ConstructionSettings(FrozenModel):
    """Settings of a construction.

    Attributes:
        kind: kind of benchmark, a name of `CONSTRUCTIONS` or `module:attribute`.
        recipe: `paper` has exactly the paper's steps; `best` adds filters and further attempts.
        judge: model that checks the author's texts; empty for the author itself.
        prompts: TOML file with prompts that replace the shipped ones.
        attempts: maximum number of texts written per item; None for the recipe's default.
        language: language code of the texts, such as `en`.
        queries: language of the questions if it differs from the documents'; for kind docter.
        style: style of the documents, the name of a newspaper or magazine.
        words: length of the documents in words.
        agents: number of debate agents; each is the judge model with its own viewpoint.
        rounds: maximum number of debate rounds.
    """

    kind: str = "akew"
    recipe: Literal["paper", "best"] = "best"
    judge: str = ""
    prompts: str = ""
    attempts: Annotated[int, Field(ge=1, le=9)] | None = None
    language: str = "en"
    queries: str = ""
    style: str = "The Guardian"
    words: Annotated[int, Field(ge=60, le=2000)] = 250
    agents: Annotated[int, Field(ge=2, le=9)] = AGENTS
    rounds: Annotated[int, Field(ge=1, le=9)] = ROUNDS


def construction_settings(kind: str, config: BuildConfig) -> ConstructionSettings:
    """Return the settings of a construction, overridden by `--set build.KEY=VALUE`.

    Raises:
        BadSettings: a setting is unknown, or its value is invalid.
    """
    names = ConstructionSettings.model_fields.keys() & BuildConfig.model_fields.keys()
    values = {name: getattr(config, name) for name in names}
    values |= {"kind": kind} | config.overrides.get(SETTINGS, {})
    known = list(ConstructionSettings.model_fields)
    if unknown := sorted(values.keys() - set(known)):
        raise BadSettings(f"--set build.{unknown[0]} is unknown: {nearest(unknown[0], known)}")
    try:
        return ConstructionSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name, value = ".".join(map(str, first["loc"])), first["input"]
        raise BadSettings(f"--set build.{name}={value}: {problem_of(first)}.") from error


class BuiltItem(NamedTuple):
    """Outcome of an item, with the steps of its graph, its usage and its duration in seconds."""

    outcome: ItemOutcome
    steps: tuple[Step, ...]
    usage: Usage
    seconds: float


class ItemMaker:
    """Thread-safe maker of items by the graph of a pipeline.

    Args:
        settings: settings of the construction.
        author: model that writes the texts.
        author_fingerprint: identifying fields of the author.
        judge: model that checks the texts.
        judge_fingerprint: identifying fields of the judge.

    Raises:
        BadSettings: the kind is unknown.
        BadData: the prompt file cannot be read.
    """

    def __init__(
        self,
        settings: ConstructionSettings,
        author: BaseChatModel,
        author_fingerprint: Mapping[str, Any],
        judge: BaseChatModel,
        judge_fingerprint: Any,
    ) -> None:
        self.settings = settings
        self.pipeline: Pipeline = load_pipeline(settings.kind)
        self.prompts: Prompts = load_prompts(settings.prompts, self.pipeline.available_prompts)
        self.app: Graph = self.pipeline.build(settings.recipe)
        self._author_fingerprint, self._judge_fingerprint = author_fingerprint, judge_fingerprint
        self._context = ConstructionContext(
            author=author,
            judge=judge,
            prompts=self.prompts,
            attempts=self.attempts,
            language=settings.language,
            queries=settings.queries,
            style=settings.style,
            words=settings.words,
            debaters=(judge,) * settings.agents,
            rounds=settings.rounds,
        )

    @property
    def attempts(self) -> int:
        """Maximum number of texts written per item."""
        return self.settings.attempts or self.pipeline.attempts[self.settings.recipe]

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Graph name and settings, including the judge, the prompt ids and the attempts."""
        prompts = {
            name: self.prompts[name].id for name in self.pipeline.prompts(self.settings.recipe)
        }
        changed = {"judge": self._judge_fingerprint, "prompts": prompts, "attempts": self.attempts}
        return {"graph": str(self.app.name), "settings": self.settings.model_dump() | changed}

    @cached_property
    def _content_id(self) -> str:
        return content_id("construction", self.fingerprint, self._author_fingerprint)

    def unit_key(self, item: BuildItem) -> str:
        """Return a key computed from the item and everything else that determines its outcome."""
        return content_id("unit", item.id, self._content_id)

    def make(self, item: BuildItem) -> BuiltItem:
        """Run the graph on an item.

        Raises:
            Exception: any error of a node, except for unusable replies, which leave the item
                unscored.
        """
        start = time.perf_counter()
        try:
            final, steps = run_graph(self.app, {"item": item.fields}, self._context)
        except UNUSABLE as error:
            steps, usage = steps_of(error), usage_until(error)
            outcome = ItemOutcome(unscored=hide_keys(str(error)) or type(error).__name__)
        else:
            usage = final["usage"]
            outcome = ItemOutcome(
                result=final.get("result"),
                passed=final.get("passed", {}),
                tries=final.get("tries", {}),
                rejections=tuple(map(FilterRejection.model_validate, final.get("rejections", ()))),
                attempts=final.get("attempts", 1),
            )
        return BuiltItem(outcome, steps, usage, round(time.perf_counter() - start, 6))
