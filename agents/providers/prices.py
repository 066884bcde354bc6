"""Token prices from the user's TOML file; Emend ships none, because prices change."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, problem_of, reason_of
from emend.memory.files import read_input
from emend.memory.registry import nearest

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# Number of tokens per price unit.
PER = 1_000_000
# Fields for tokens written to the provider's cache; the first is 0 if a reply has one of the
# others.
WRITTEN = ("cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")


class Price(FrozenModel):
    """Prices of one model per million tokens; cached tokens cost as much as input unless they have
    their own prices.
    """

    input: Amount
    output: Amount
    cache_read: Amount | None = None
    cache_write: Amount | None = None

    def compute_cost(self, usage: dict[str, Any]) -> float:
        """Return the cost of a reply from its `usage_metadata`."""
        details = usage.get("input_token_details") or {}
        read = details.get("cache_read") or 0
        written = sum(details.get(name) or 0 for name in WRITTEN)
        plain = usage.get("input_tokens", 0) - read - written
        cost: float = plain * self.input + usage.get("output_tokens", 0) * self.output
        cost += read * (self.input if self.cache_read is None else self.cache_read)
        cost += written * (self.input if self.cache_write is None else self.cache_write)
        return cost / PER


class Prices(FrozenModel):
    """A price file: `currency`, and `models` with one table per model name."""

    currency: str = "USD"
    models: dict[str, Price] = {}

    @classmethod
    def read(cls, path: Path) -> "Prices":
        """Read the prices from a TOML file.

        Raises:
            BadSettings: it cannot be read, or a field is unknown, missing or not a number.
        """
        try:
            return cls.model_validate(tomllib.loads(read_input(path).decode()))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise BadSettings(
                f"the prices file '{path}' cannot be read: {reason_of(error)}. Give "
                "another --prices."
            ) from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadSettings(
                f"the prices file '{path}', field '{where}': {problem_of(first)}. A model "
                "needs input and output, numbers per million tokens."
            ) from error

    def find(self, spec: str) -> Price | None:
        """Return the prices of a model by its name, with or without the address after @."""
        return self.models.get(spec) or self.models.get(re.split(r"@https?://", spec)[0])

    def require(self, spec: str) -> Price:
        """Return the price of a model.

        Raises:
            BadSettings: the file has no price for it.
        """
        price = self.find(spec)
        if price is None:
            hint = nearest(spec, list(self.models)) if self.models else "it contains no model."
            raise BadSettings(
                f"--max-cost is set, but the prices file has no price for '{spec}': {hint}"
            )
        return price
