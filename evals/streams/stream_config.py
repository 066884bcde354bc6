"""Configurations of generated streams and of runs over streams, from which CLI options are made."""

from typing import Any, Literal

from pydantic import Field

from emend.evals.config.limits import Limits
from emend.evals.config.overrides import OVERRIDES
from emend.evals.config.run_config import CORRECTIONS, LARGEST_SEED, RunConfig
from emend.memory.edit import FrozenModel


class StreamConfig(Limits):
    """All settings of a run over a stream.

    Raises:
        BadSettings: a number is out of range.
    """

    systems: tuple[str, ...] = Field(
        default=("full_context", "bm25_newest", "oracle", "empty"),
        description="Memory system or editor to evaluate; repeatable; see: emend list systems.",
    )
    model: str = Field(
        default="tiny",
        description="Model that reads the context and answers; as in emend run --model.",
    )
    budget: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of context tokens per question; default: no limit.",
    )
    embedding: str = Field(
        default="auto",
        description="Embedding of systems with vector search; as in emend run --embedding.",
    )
    limit: int | None = Field(
        default=None, description="Maximum number of points with questions; default: all."
    )
    places: int | None = Field(
        default=None,
        ge=1,
        description="Number of evenly spaced points at which questions are asked; all turns "
        "before them are observed; default: all.",
    )
    form: str | None = Field(
        default=None,
        description="Prompt format for a model with a chat template: plain or chat; as in emend "
        "run --form.",
    )
    corrections: str | None = Field(default=None, description=CORRECTIONS)
    repeats: int = Field(default=1, description="Number of repeated passes over the stream.")
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="Random seed.")
    concurrency: int = Field(default=4, description="Number of API calls at the same time.")
    workers: str = Field(
        default="auto", description="Where systems are evaluated, as in emend run --workers."
    )
    fail_on_error: str = Field(
        default="0.1",
        description="Failed points at which the run stops, as in emend run --fail-on-error.",
    )
    overrides: dict[str, dict[str, Any]] = Field(default={}, description=OVERRIDES)

    def run_config(self, file: str) -> RunConfig:
        """Return the run configuration for a stream file.

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
    """Options of a generated stream; shares are of all turns, the rest states new facts."""

    turns: int = Field(default=100, ge=2, le=200_000, description="Number of turns.")
    facts: str = Field(
        default="",
        description="Table of facts (subject, relation, object) for the stream; default: an "
        "invented world.",
    )
    updates: float = Field(
        default=0.3, ge=0, le=1, description="Share of turns that update or correct a fact."
    )
    deletions: float = Field(
        default=0.1, ge=0, le=1, description="Share of turns that delete a fact."
    )
    rules: float = Field(
        default=0.08, ge=0, le=1, description="Share of turns with a rule for a derived fact."
    )
    backdated: float = Field(
        default=0.04, ge=0, le=1, description="Share of turns with a former value of a fact."
    )
    chatter: float = Field(
        default=0.1, ge=0, le=1, description="Share of turns that state nothing."
    )
    questions: float = Field(default=0.4, gt=0, le=5, description="Number of questions per turn.")
    users: int = Field(
        default=1, ge=1, le=100, description="Number of users, each with their own facts."
    )
    difficulty: Literal["easy", "normal", "hard"] = Field(
        default="normal",
        description="Variety of wordings and chatter; easy: one wording per relation; normal: "
        "three; hard: also chatter that mentions facts.",
    )
    wordings: Literal["standard", "held-out"] = Field(
        default="standard",
        description="Wordings of the turns: standard, or held-out, which has eight other, "
        "conversational wordings of each sentence that no extractor was developed on.",
    )
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="Random seed.")
