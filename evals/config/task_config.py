"""Configurations of constructions, measurements, trainings, sessions and streams, from which options are made."""

import json
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from emend.evals.config.run_config import OVERRIDES, CallLimits, RunConfig
from emend.memory.edit import FrozenModel
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


class BenchmarkConfig(FrozenModel):
    """The benchmark whose cases are used."""

    benchmark: str = Field(description="Benchmark; see: emend list benchmarks.")
    data: str | None = Field(
        default=None, description="Folder with the benchmark's files; default: BENCHMARK in EMEND_DATA or in ./data."
    )
    benchmark_options: dict[str, str] = Field(default={}, description="Option of the benchmark; repeatable.")
    limit: int | None = Field(default=None, ge=1, description="Maximum number of cases; default: all.")
    seed: int = Field(default=0, ge=0, description="Random seed, also of the sample that --limit takes.")


class RetrievalConfig(BenchmarkConfig):
    """Retrieval strategies to measure on a benchmark's probes."""

    settings: tuple[str, ...] = Field(
        default=(), description="Form of the stored edits; repeatable; default: the benchmark's first setting."
    )
    strategies: tuple[str, ...] = Field(
        default=(),
        description="Retriever, or a chain of them (a>b); repeatable; default: default; see: emend list retrievers.",
    )
    embedding: str = Field(
        default="auto",
        description="Embedding: auto, lexical, minilm, a sentence-transformers folder, or module:attribute.",
    )
    calibrate: str | None = Field(
        default=None, description="Find a threshold for each strategy on the correct hits of this kind of probe."
    )
    keep: float | None = Field(
        default=None, description="With --calibrate, proportion of those hits that the threshold keeps; default: 0.95."
    )


class ExtractionConfig(BenchmarkConfig):
    """How triplets are extracted from a benchmark's documents, and how they are scored."""

    setting: str | None = Field(
        default=None, description="Form of the edits whose texts are read; default: the first setting with texts."
    )
    method: str = Field(default="rules", description="Extraction method: rules, spacy or llm.")
    model: str | None = Field(default=None, description="Chat model of method llm, or pipeline of method spacy.")
    reply_format: str | None = Field(
        default=None, description="Format of a chat model's reply: json, lines or tuples; default: json."
    )
    validation: str = Field(
        default="both", description="Ends of a triplet that must be entities: both, subject or off."
    )
    coreference: bool = Field(default=True, description="Replace pronouns by names.")
    deduplication: bool = Field(default=True, description="Keep only the first of similar triplets.")
    normalisation: bool = Field(default=True, description="Merge triplets that word one fact differently.")
    attempts: int = Field(default=3, description="Maximum number of model calls per document.")
    judge: str | None = Field(default=None, description="Chat model that classifies errors; default: rules do.")
    embedding: str = Field(
        default="auto",
        description="Embedding that compares triplets: auto, lexical, minilm, a sentence-transformers folder, or "
        "module:attribute.",
    )
    concurrency: int = Field(default=1, ge=1, description="Number of documents read at the same time.")
    overrides: dict[str, dict[str, Any]] = Field(
        default={}, description="Setting of the chat models: model.KEY=VALUE or judge.KEY=VALUE; repeatable."
    )


class TrainingConfig(BenchmarkConfig):
    """The benchmark's questions on which a scope classifier or an encoder is trained and checked."""

    setting: str | None = Field(default=None, description="Form of the edits; default: the benchmark's first setting.")
    also_check: dict[str, str] = Field(
        default={}, description="Option of the benchmark whose questions are used for checking only; repeatable."
    )
    embedding: str = Field(
        default="auto", description="Encoder: auto, lexical, minilm, or a sentence-transformers folder."
    )
    epochs: int = Field(default=1, ge=1, description="Number of passes over the questions (encoders only).")


class ScopeConfig(TrainingConfig):
    """How a scope classifier is trained."""

    classifier: str = Field(
        default="embedding",
        description="Kind of classifier: embedding (seconds to minutes), cross-encoder, or elken (as ELKEN's).",
    )
    group: str = Field(
        default="",
        description="Tag of the cases; cases with the same value are held out together to choose the threshold.",
    )


class EncoderConfig(TrainingConfig):
    """How a sentence encoder is fine-tuned."""

    rank: int = Field(default=16, ge=1, description="Rank of the LoRA adapter.")


class TuneConfig(BenchmarkConfig):
    """How an editor's settings are searched."""

    benchmark: str = Field(default="counterfact", description="Benchmark; see: emend list benchmarks.")
    model: str = Field(description="Local model: tiny or hf:FOLDER.")
    limit: int | None = Field(
        default=20,
        ge=1,
        description="Number of facts of the test: those of a run with the same limit and seed; none is searched on.",
    )
    train: int = Field(default=12, ge=4, description="Number of facts that settings are searched on.")
    trials: int = Field(default=16, ge=2, description="Number of settings to try, the defaults among them.")
    budget: float | None = Field(
        default=None, gt=0, description="Minutes after which nothing new is tried; the test comes on top."
    )
    overrides: dict[str, dict[str, Any]] = Field(default={}, description=OVERRIDES)


class SessionConfig(CallLimits):
    """A model under an editor, over the edits of a memory."""

    model: str = Field(
        default="tiny",
        description="Model: tiny, hf:FOLDER, openai:NAME, openai:NAME@URL, anthropic:NAME or vllm:NAME@URL.",
    )
    editor: str = Field(default="rag", description="Memory-based editor, or unedited; see: emend list editors.")
    memory: str = Field(default="emend-memory", description="Memory: a folder, or http://HOST:PORT.")
    retriever: str = Field(default="dense", description="Retriever; see: emend list retrievers.")
    embedding: str | None = Field(
        default=None, description="The memory's embedding, if it is not auto or lexical; default: the memory's own."
    )
    overrides: dict[str, dict[str, Any]] = Field(default={}, description=OVERRIDES)


class StreamConfig(CallLimits):
    """Everything that decides the answers over a stream, and how they are asked for.

    Raises:
        BadSettings: an impossible number.
    """

    systems: tuple[str, ...] = Field(
        default=("full_context", "bm25_newest", "oracle", "empty"),
        description="Memory system or editor to ask; repeatable; see: emend list systems.",
    )
    model: str = Field(default="tiny", description="Model that reads the context and answers; as in emend run --model.")
    budget: int | None = Field(
        default=None, ge=1, description="Maximum number of tokens of context a question; default: no limit."
    )
    embedding: str = Field(
        default="auto", description="Embedding of systems that search by vectors; as in emend run --embedding."
    )
    limit: int | None = Field(default=None, description="Maximum number of places with questions; default: all.")
    places: int | None = Field(
        default=None,
        ge=1,
        description="Number of places, spread evenly, at which questions are asked; all turns before them are "
        "observed; default: all.",
    )
    form: str | None = Field(
        default=None, description="How a model with a chat template is asked: plain or chat; as in emend run --form."
    )
    repeats: int = Field(default=1, description="Number of repeated passes over the stream.")
    seed: int = Field(default=0, description="Random seed.")
    concurrency: int = Field(default=4, description="Number of API calls at the same time.")
    workers: str = Field(default="auto", description="Where systems are asked, as in emend run --workers.")
    fail_on_error: str = Field(
        default="0.1", description="Failed places at which the run stops, as in emend run --fail-on-error."
    )
    overrides: dict[str, dict[str, Any]] = Field(default={}, description=OVERRIDES)

    def run_config(self, file: str) -> RunConfig:
        """The configuration of the run over a file.

        Raises:
            BadSettings: see `RunConfig`.
        """
        numbers = {"budget": self.budget, "places": self.places}
        options = {name: str(value) for name, value in numbers.items() if value is not None}
        return RunConfig(
            benchmark="stream",
            benchmark_options={"file": file} | options,
            editors=tuple(dict.fromkeys(self.systems)),
            **self.model_dump(include=set(RunConfig.model_fields)),
        )


class StreamOptions(FrozenModel):
    """Options of a generated stream; shares are of all turns, and what they leave are new facts."""

    turns: int = Field(default=100, ge=2, le=200_000, description="Number of turns.")
    facts: str = Field(
        default="", description="Table of subject, relation and object to tell; default: an invented world."
    )
    updates: float = Field(default=0.3, ge=0, le=1, description="Share of turns that update or correct a fact.")
    deletions: float = Field(default=0.1, ge=0, le=1, description="Share of turns that take a fact back.")
    rules: float = Field(default=0.08, ge=0, le=1, description="Share of turns with a rule for a derived fact.")
    backdated: float = Field(default=0.04, ge=0, le=1, description="Share of turns with a former value of a fact.")
    chatter: float = Field(default=0.1, ge=0, le=1, description="Share of turns that state nothing.")
    questions: float = Field(default=0.4, gt=0, le=5, description="Number of questions per turn.")
    users: int = Field(default=1, ge=1, le=100, description="Number of users, each with facts of its own.")
    difficulty: Literal["easy", "normal", "hard"] = Field(
        default="normal",
        description="Wordings and chatter; easy: one wording of each relation; normal: three; hard: also chatter that "
        "names facts.",
    )
    seed: int = Field(default=0, description="Random seed.")
