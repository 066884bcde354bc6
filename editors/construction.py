"""Construction of benchmark items, run as an editor is: each probe is an item of a source, and no edit is applied.

The runner thus gives a construction what it gives an evaluation: resume, budget, cache, workers, traces and progress.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from langchain_core.language_models import BaseChatModel
from pydantic import Field

from emend.agents.llm import fingerprint, load_model
from emend.agents.roles.author import load_prompts
from emend.editors.answerers import FunctionAnswerer
from emend.editors.base import Answerer, EditorContext
from emend.editors.built_item import BuiltItem
from emend.editors.hyperparameters import build_settings
from emend.graphs.construction.pipeline import AGENTS, ROUNDS, ConstructionContext, Pipeline
from emend.graphs.execution import run_graph
from emend.graphs.registry import CONSTRUCTIONS
from emend.memory.edit import Edit
from emend.memory.probe import Answer, Probe


@dataclass(frozen=True)
class ConstructionSettings:
    """Settings of a construction.

    Attributes:
        kind: of benchmark, a name of `CONSTRUCTIONS`.
        recipe: `paper` has exactly the paper's steps; `best` adds filters and further attempts.
        judge: model that checks what the author writes; empty for the author itself.
        prompts: TOML file with prompts that take the place of the shipped ones.
        attempts: maximum number of texts written for an item; 0 for the recipe's.
        language: of the texts, as a code such as `en`.
        queries: language of questions, where it is another one than that of documents; for kind docter.
        style: of documents, the name of a newspaper or magazine.
        words: length of documents.
        agents: number of agents in a debate, each of them the judge with a viewpoint of its own.
        rounds: maximum number of rounds of a debate.
    """

    kind: str = "akew"
    recipe: Literal["paper", "best"] = "best"
    judge: str = ""
    prompts: str = ""
    attempts: Annotated[int, Field(ge=0, le=9)] = 0
    language: str = "en"
    queries: str = ""
    style: str = "The Guardian"
    words: Annotated[int, Field(ge=60, le=2000)] = 250
    agents: Annotated[int, Field(ge=2, le=9)] = AGENTS
    rounds: Annotated[int, Field(ge=1, le=9)] = ROUNDS


class Construction:
    """Makes an item of each probe by the graph of a pipeline; the model under test is the author."""

    name: ClassVar[str] = "build"
    needs_weights: ClassVar[bool] = False
    schema: ClassVar[type[Any]] = ConstructionSettings

    def __init__(self, context: EditorContext) -> None:
        self.context = context
        self.settings: ConstructionSettings = build_settings(self.schema, context.settings, self.name)
        self.pipeline: Pipeline = CONSTRUCTIONS.load(self.settings.kind)
        self.prompts = load_prompts(self.settings.prompts)
        self.app = self.pipeline.build(self.settings.recipe)

    @cached_property
    def judge(self) -> BaseChatModel:
        """The model that checks; it shares the limits of the author."""
        name = self.settings.judge
        return load_model(name, self.context.policy) if name else self.context.model

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Settings, judge, graph, and the ids of the prompts."""
        prompts = {name: self.prompts[name].id for name in self.pipeline.prompts(self.settings.recipe)}
        judge = fingerprint(self.judge, self.settings.judge) if self.settings.judge else "the author"
        settings = asdict(self.settings) | {"judge": judge, "prompts": prompts, "attempts": self.attempts}
        return {"editor": self.name, "graph": str(self.app.name), "settings": settings}

    @property
    def attempts(self) -> int:
        """Maximum number of texts written for an item."""
        return self.settings.attempts or self.pipeline.attempts[self.settings.recipe]

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """An answerer that makes items; there is nothing to apply."""
        context = ConstructionContext(
            author=self.context.model,
            judge=self.judge,
            prompts=self.prompts,
            attempts=self.attempts,
            language=self.settings.language,
            queries=self.settings.queries,
            style=self.settings.style,
            words=self.settings.words,
            debaters=(self.judge,) * self.settings.agents,
            rounds=self.settings.rounds,
        )

        def make(probe: Probe, targets: Sequence[str] | None) -> Answer:
            item = json.loads(probe.query)
            final, steps = run_graph(self.app, {"item": item}, context)
            built = BuiltItem(
                item=item,
                result=final.get("result"),
                passed=final.get("passed", {}),
                rejections=tuple(final.get("rejections", ())),
                attempts=final.get("attempts", 1),
            )
            text = built.model_dump_json()
            return Answer(text=text, prompt=probe.prompt, usage=final["usage"], steps=steps)

        yield FunctionAnswerer(make)
