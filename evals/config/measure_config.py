"""Configurations of measuring and training on a benchmark, from which the command-line options are
made.
"""

from typing import Annotated, Any

from pydantic import Field

from emend.evals.config.overrides import OVERRIDES
from emend.evals.config.run_config import CORRECTIONS, LARGEST_SEED, LIMIT, SEED
from emend.memory.edit import FrozenModel


class BenchmarkConfig(FrozenModel):
    """The benchmark whose cases are used."""

    benchmark: str = Field(description="Benchmark; see: emend list benchmarks.")
    data: str | None = Field(
        default=None,
        description="Folder with the benchmark's files; default: BENCHMARK in "
        "EMEND_DATA or in ./data.",
    )
    benchmark_options: dict[str, str] = Field(
        default={}, description="Option of the benchmark; repeatable."
    )
    limit: int | None = Field(default=None, ge=1, description=LIMIT)
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description=SEED)


class RetrievalConfig(BenchmarkConfig):
    """Retrieval strategies to measure on a benchmark's probes."""

    settings: tuple[str, ...] = Field(
        default=(),
        description="Form of the stored edits; repeatable; default: the benchmark's first setting.",
    )
    strategies: tuple[str, ...] = Field(
        default=(),
        description="Retriever, or a chain of them (a>b); repeatable; default: default; see: emend "
        "list retrievers.",
    )
    embedding: str = Field(
        default="auto",
        description="Embedding: auto, lexical, minilm, a sentence-transformers folder, or "
        "module:attribute.",
    )
    calibrate: str | None = Field(
        default=None,
        description="Find a threshold for each strategy on the correct hits of this kind of probe.",
    )
    keep: float | None = Field(
        default=None,
        description="With --calibrate, proportion of the correct hits above the threshold; "
        "default: 0.95.",
    )
    budget: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(),
        description="Token budget within which evidence of conversations must be retrieved; "
        "repeatable; default: 1,000.",
    )
    corrections: str | None = Field(default=None, description=CORRECTIONS)

    @property
    def options_with_corrections(self) -> dict[str, str]:
        """Options of the benchmark, including the file of corrections."""
        return self.benchmark_options | (
            {"corrections": self.corrections} if self.corrections else {}
        )


class ExtractionConfig(BenchmarkConfig):
    """Settings for extracting triplets from a benchmark's documents and scoring them."""

    setting: str | None = Field(
        default=None,
        description="Setting whose texts are read; default: the first setting with texts.",
    )
    method: str = Field(default="rules", description="Extraction method: rules or llm.")
    model: str | None = Field(default=None, description="Chat model of method llm.")
    reply_format: str | None = Field(
        default=None,
        description="Format of a chat model's reply: json, lines or tuples; default: json.",
    )
    validation: str = Field(
        default="both", description="Ends of a triplet that must be entities: both, subject or off."
    )
    coreference: bool = Field(default=True, description="Replace pronouns by names.")
    deduplication: bool = Field(
        default=True, description="Keep only the first of similar triplets."
    )
    normalisation: bool = Field(
        default=True, description="Merge triplets that express the same fact in different words."
    )
    attempts: int = Field(default=3, description="Maximum number of model calls per document.")
    judge: str | None = Field(
        default=None, description="Chat model that classifies errors; default: rules."
    )
    embedding: str = Field(
        default="auto",
        description="Embedding for comparing triplets: auto, lexical, minilm, a "
        "sentence-transformers folder, or module:attribute.",
    )
    concurrency: int = Field(
        default=1, ge=1, description="Number of documents read at the same time."
    )
    overrides: dict[str, dict[str, Any]] = Field(
        default={},
        description="Setting of the chat models: model.KEY=VALUE or judge.KEY=VALUE; repeatable.",
    )


class TrainingConfig(BenchmarkConfig):
    """Benchmark questions on which a scope classifier or an encoder is trained and checked."""

    setting: str | None = Field(
        default=None, description="Form of the edits; default: the benchmark's first setting."
    )
    also_check: dict[str, str] = Field(
        default={},
        description="Option of the benchmark whose questions are used only for validation; "
        "repeatable.",
    )
    embedding: str = Field(
        default="auto",
        description="Encoder: auto, lexical, minilm, or a sentence-transformers folder.",
    )
    epochs: int = Field(
        default=1, ge=1, description="Number of passes over the questions (encoders only)."
    )


class ScopeConfig(TrainingConfig):
    """Settings for training a scope classifier."""

    classifier: str = Field(
        default="embedding",
        description="Type of classifier: embedding (seconds to minutes), cross-encoder, or elken "
        "(as in ELKEN's code).",
    )
    group: str = Field(
        default="",
        description="Tag of the cases; cases with the same value are held out together to choose "
        "the threshold.",
    )


class EncoderConfig(TrainingConfig):
    """Settings for fine-tuning a sentence encoder."""

    rank: int = Field(default=16, ge=1, description="Rank of the LoRA adapter.")


class TuneConfig(BenchmarkConfig):
    """Settings for the search of an editor's best settings."""

    benchmark: str = Field(
        default="counterfact", description="Benchmark; see: emend list benchmarks."
    )
    model: str = Field(description="Local model: tiny or hf:FOLDER.")
    limit: int | None = Field(
        default=20,
        ge=1,
        description="Number of test facts: those of a run with the same limit and seed, which are "
        "not used for tuning.",
    )
    train: int = Field(default=12, ge=4, description="Number of facts used for tuning.")
    trials: int = Field(
        default=16, ge=2, description="Number of settings to try, including the defaults."
    )
    budget: float | None = Field(
        default=None,
        gt=0,
        description="Minutes after which no new trial starts; the final test takes additional "
        "time.",
    )
    overrides: dict[str, dict[str, Any]] = Field(default={}, description=OVERRIDES)
