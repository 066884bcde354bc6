"""Limits of a run on calls to providers, their cost, and the number of failed units."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.agents.providers.policy import CallPolicy


# Fields that only apply to models of providers, in the order used in messages.
PROVIDER_OPTIONS = ("rpm", "tpm", "max_cost", "max_calls", "prices", "cache")


class FailureLimit(NamedTuple):
    """Number of failed units above which a run ends, as a count or as a proportion of the units
    tried.
    """

    text: str
    kind: Literal["count", "share"]
    limit: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `true` (no failure allowed), `false` (any number), a proportion such as `0.1`, or a
        count such as `5`.

        Raises:
            BadSettings: the text is something else.
        """
        if text.lower() in ("true", "false"):
            return cls(text, "count", 0.0 if text.lower() == "true" else float("inf"))
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if 0 < number < 1:
            return cls(text, "share", number)
        if 0 <= number < float("inf") and number == int(number):
            return cls(text, "count", number)
        raise BadSettings(
            f"--fail-on-error is '{text}': give true, false, a proportion such as 0.1, or a count "
            "such as 5."
        )

    def exceeded(self, failed: int, tried: int) -> bool:
        """Return True if the number of failures exceeds the limit."""
        return failed > (self.limit if self.kind == "count" else self.limit * tried)


class Limits(FrozenModel):
    """Limits on the calls to a provider's API; None for no limit.

    Raises:
        BadSettings: a number is invalid.
    """

    max_cost: float | None = Field(
        default=None,
        description="Maximum cost of this invocation's API calls, in the currency of --prices.",
    )
    max_calls: int | None = Field(
        default=None, description="Maximum number of API calls of this invocation."
    )
    prices: str | None = Field(
        default=None,
        description="TOML file with prices per million tokens; see docs/how-to/models.md.",
    )
    rpm: float | None = Field(default=None, description="Maximum API calls per minute.")
    tpm: float | None = Field(default=None, description="Maximum API tokens per minute.")
    cache: str | None = Field(
        default=None, description="Folder in which API replies are stored and reused."
    )

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        for name in ("rpm", "tpm"):
            rate = getattr(self, name)
            if rate is not None and not rate > 0:
                raise BadSettings(f"--{name} is {rate:g}: give a number above 0, or leave it out.")
        for name in ("max_cost", "max_calls"):
            budget = getattr(self, name)
            if budget is not None and not budget >= 0:
                raise BadSettings(f"--{name.replace('_', '-')} is {budget}: give 0 or more.")
        return self

    def options(self) -> list[str]:
        """Return the names of the given options, as they are spelt on the command line."""
        named = [name for name in PROVIDER_OPTIONS if getattr(self, name) is not None]
        return [f"--{name.replace('_', '-')}" for name in named]

    def policy(self, **replacements: Any) -> "CallPolicy":
        """Return the call policy with these limits.

        Raises:
            BadSettings: a number is invalid, or a file cannot be used.
        """
        from emend.agents.providers.policy import CallPolicy

        limits: dict[str, Any] = {name: getattr(self, name) for name in Limits.model_fields}
        named = {name: limits[name] for name in ("prices", "cache") if limits[name] is not None}
        if empty := [name for name, path in named.items() if not path.strip()]:
            raise BadSettings(
                f"--{empty[0]} is empty: name a {'folder' if empty[0] == 'cache' else 'file'}."
            )
        paths = {name: Path(path).expanduser() for name, path in named.items()}
        return CallPolicy(**limits | paths | replacements)
