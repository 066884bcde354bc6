"""The configuration of a run over a stream."""

from typing import Any

from pydantic import Field

from emend.evals.config.run_config import OVERRIDES, CallLimits, RunConfig

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
