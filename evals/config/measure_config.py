"""Configurations of measurements, trainings, sessions and streams; the command line makes its options from them."""

from typing import Any

from pydantic import Field

from emend.evals.config.run_config import OVERRIDES, CallLimits, RunConfig
from emend.memory.edit import FrozenModel


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


SHARED = (
    "model",
    "embedding",
    "limit",
    "form",
    "repeats",
    "seed",
    "concurrency",
    "workers",
    "fail_on_error",
    "overrides",
)
"""Fields that a run over a stream has in common with other runs."""


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
        names = (*SHARED, *CallLimits.model_fields)
        return RunConfig(
            benchmark="stream",
            benchmark_options={"file": file} | options,
            editors=tuple(dict.fromkeys(self.systems)),
            **{name: getattr(self, name) for name in names},
        )
