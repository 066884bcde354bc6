"""Prices of tokens, from a TOML file of the user; Emend ships none, because they change."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.files import read_input
from emend.memory.registry import nearest

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PER = 1_000_000
"""Number of tokens that a price is for."""
WRITTEN = ("cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
"""Counts of tokens written to the provider's cache; the first is 0 where a reply has one of the others."""


class Price(FrozenModel):
    """Price of one model per million tokens; the provider's cache costs as input unless its own prices are given."""

    input: Amount
    output: Amount
    cache_read: Amount | None = None
    cache_write: Amount | None = None

    def compute_cost(self, usage: dict[str, Any]) -> float:
        """Return the cost of a reply with this `usage_metadata`."""
        details = usage.get("input_token_details") or {}
        read = details.get("cache_read") or 0
        written = sum(details.get(name) or 0 for name in WRITTEN)
        plain = usage.get("input_tokens", 0) - read - written
        cost: float = plain * self.input + usage.get("output_tokens", 0) * self.output
        cost += read * (self.input if self.cache_read is None else self.cache_read)
        cost += written * (self.input if self.cache_write is None else self.cache_write)
        return cost / PER


class Prices(FrozenModel):
    """File of prices: `currency`, and under `models` one table per model, by its name on the command line."""

    currency: str = "USD"
    models: dict[str, Price] = {}

    @classmethod
    def read(cls, path: Path) -> "Prices":
        """Read the prices from a TOML file.

        Raises:
            BadSettings: it cannot be read, or a field is unknown, missing or no number.
        """
        try:
            return cls.model_validate(tomllib.loads(read_input(path).decode()))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadSettings(f"the prices file '{path}' cannot be read: {error}. Give another --prices.") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadSettings(
                f"the prices file '{path}', field '{where}': {first['msg']}. A model needs input and output, "
                "numbers per million tokens."
            ) from error

    def find(self, spec: str) -> Price | None:
        """Return the price of a model by its name, with or without the address after the @."""
        return self.models.get(spec) or self.models.get(re.split(r"@https?://", spec)[0])

    def require(self, spec: str) -> Price:
        """Return the price of a model.

        Raises:
            BadSettings: the file has no price for it.
        """
        price = self.find(spec)
        if price is None:
            hint = nearest(spec, list(self.models)) if self.models else "it names no model."
            raise BadSettings(f"--max-cost, and the prices file has no price for '{spec}': {hint}")
        return price
