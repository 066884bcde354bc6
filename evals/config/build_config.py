"""The configuration of a construction."""

import json
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from emend.evals.config.run_config import CallLimits, RunConfig
from emend.memory.errors import BadSettings


class BuildConfig(CallLimits):
    """Everything that decides what a construction makes, and how it is carried out.

    Raises:
        BadSettings: an impossible number.
    """

    source: str = Field(
        default="",
        description="File, folder or benchmark to build from; see docs/how-to/build.md.",
    )
    model: str = Field(default="", description="Model that writes, the author; as in emend run --model.")
    judge: str = Field(default="", description="Model that checks what the author writes; default: the author.")
    recipe: Literal["paper", "best"] = Field(
        default="best",
        description="How items are made; paper: as published, with people's review; best: filtered, with new attempts.",
    )
    language: str = Field(default="en", description="Language of the texts, as a code such as en or zh.")
    queries: str = Field(
        default="",
        description="With kind docter, language of the queries; default: that of the documents, English with zh.",
    )
    prompts: str = Field(default="", description="TOML file with prompts in place of Emend's own.")
    limit: int | None = Field(default=None, description="Maximum number of items; default: all.")
    since: str = Field(
        default="", description="With kind wikiupdate, the day from which on changes count, such as 2026-01-01."
    )
    contact: str = Field(
        default="",
        description="With kind wikiupdate, e-mail address or page that Wikimedia's servers are told, as they demand.",
    )
    relations: str = Field(
        default="",
        description="With kinds wikiupdate, chains, recoe and elken, TOML file of relations, templates or event types.",
    )
    leads: str = Field(
        default="", description="With kind wikiupdate, JSON lines of title and lead; default: asked of Wikipedia."
    )
    fact: Literal["new", "old"] = Field(
        default="new", description="With kind fresh, the objects asked for: those after the edits, or those before."
    )
    keep: Literal["unknown", "known"] = Field(
        default="unknown",
        description="With kind fresh, the facts that are kept: those unknown to the model, or known to it.",
    )
    hops: str = Field(default="2,3,4", description="With kind chains, numbers of facts in a chain.")
    edits: str = Field(default="1,2,3,4", description="With kind chains, numbers of edits of a chain.")
    cases: int = Field(default=100, ge=1, description="With kinds chains, elken and recoe, maximum number of items.")
    allow_conflicts: bool = Field(
        default=False, description="With kinds chains and recoe, let an edit of one item change a fact of another."
    )
    schemes: str = Field(default="", description="With kind recoe, schemes of questions; default: all six.")
    documents: str = Field(
        default="", description="With kind recoe, folder of documents with which the facts must be consistent."
    )
    retriever: str = Field(
        default="bm25", description="With kind recoe, retriever that finds the paragraphs of --documents for a fact."
    )
    benchmark_options: dict[str, str] = Field(
        default={}, description="Option of the benchmark that --from names; repeatable."
    )
    data: str | None = Field(default=None, description="Folder with the files of the benchmark that --from names.")
    seed: int = Field(default=0, description="Random seed.")
    concurrency: int = Field(default=4, description="Number of items at the same time.")
    workers: str = Field(default="auto", description="Where items are made, as in emend run --workers.")
    fail_on_error: str = Field(
        default="0.1", description="Failed items at which the construction stops, as in emend run --fail-on-error."
    )
    overrides: dict[str, dict[str, Any]] = Field(
        default={}, description="Setting of the author (model.KEY=VALUE) or of the construction (build.attempts=2)."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if unknown := sorted(set(self.overrides) - {"model", "build"}):
            raise BadSettings(f"--set {unknown[0]}: only model and build have settings here.")
        if self.queries and "en" not in (self.language, self.queries) and self.language != self.queries:
            raise BadSettings(
                f"--queries {self.queries} with --language {self.language}: facts are translated once, from English; "
                f"give --queries en or {self.language}, or --language en."
            )
        return self

    def require_source(self, *, needs_author: bool = True) -> None:
        """Check that the source is named, and the author where one is needed.

        Raises:
            BadSettings: one of them is not.
        """
        required = [("--from", self.source, "source"), *([("--model", self.model, "author")] if needs_author else [])]
        for option, value, meaning in required:
            if not value:
                raise BadSettings(f"no {meaning} is named: give {option}; see docs/how-to/build.md.")

    def run_config(self, kind: str) -> RunConfig:
        """The configuration of the run that makes the items.

        Raises:
            BadSettings: see `RunConfig`.
        """
        settings = {
            "kind": kind,
            "recipe": self.recipe,
            "judge": self.judge,
            "prompts": self.prompts,
            "language": self.language,
            "queries": self.queries,
        }
        return RunConfig(
            benchmark="items",
            benchmark_options={
                "kind": kind,
                "source": self.source,
                "recipe": self.recipe,
                "language": self.language,
            },
            editors=("build",),
            overrides=self.overrides | {"build": settings | self.overrides.get("build", {})},
            form="chat",
            **self._shared(),
        )

    def knowledge_config(self) -> RunConfig:
        """The configuration of the run that asks what the model knows.

        Raises:
            BadSettings: see `RunConfig`.
        """
        options = json.dumps(self.benchmark_options, sort_keys=True)
        return RunConfig(
            benchmark="knowledge",
            benchmark_options={"source": self.source, "fact": self.fact, "options": options},
            data=self.data,
            editors=("unedited",),
            overrides={name: values for name, values in self.overrides.items() if name == "model"},
            **self._shared(),
        )

    def _shared(self) -> dict[str, Any]:
        """The fields that both runs have."""
        names = {"model", "limit", "seed", "concurrency", "workers", "fail_on_error"}
        return {name: getattr(self, name) for name in sorted(names | set(CallLimits.model_fields))}
