"""What tokens cost, from a file of the user's: Emend ships no price, because they change."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PER = 1_000_000
"""Prices are per so many tokens."""
WRITTEN = ("cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
"""Where replies tell what was written to the provider's cache: the first is 0 where one of the others is told."""


class Price(FrozenModel):
    """Of one model, per million tokens; reading and writing the provider's cache cost as input unless they are told."""

    input: Amount
    output: Amount
    cache_read: Amount | None = None
    cache_write: Amount | None = None

    def of(self, told: dict[str, Any]) -> float:
        """What a reply with this `usage_metadata` cost."""
        details = told.get("input_token_details") or {}
        read = details.get("cache_read") or 0
        written = sum(details.get(name) or 0 for name in WRITTEN)
        plain = told.get("input_tokens", 0) - read - written
        cost: float = plain * self.input + told.get("output_tokens", 0) * self.output
        cost += read * (self.input if self.cache_read is None else self.cache_read)
        cost += written * (self.input if self.cache_write is None else self.cache_write)
        return cost / PER


class Prices(FrozenModel):
    """A file of prices: `currency`, and under `models` one table per model, by its name on the command line."""

    currency: str = "USD"
    models: dict[str, Price] = {}

    @classmethod
    def read(cls, path: Path) -> "Prices":
        """The prices of a TOML file.

        Raises:
            BadSettings: it cannot be read, or a field is unknown, missing or no number.
        """
        try:
            return cls.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
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
        """The price of a model by its name, with or without the address behind the @."""
        return self.models.get(spec) or self.models.get(re.split(r"@https?://", spec)[0])

    def need(self, spec: str) -> Price:
        """The same, where there must be one.

        Raises:
            BadSettings: the file has none for it.
        """
        price = self.find(spec)
        if price is None:
            hint = nearest(spec, list(self.models)) if self.models else "it names no model."
            raise BadSettings(f"--max-cost, and the prices file has no price for '{spec}': {hint}")
        return price
