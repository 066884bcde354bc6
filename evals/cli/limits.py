"""Options of the command line that limit what models behind an API are asked, and what that costs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.options import Group

if TYPE_CHECKING:
    from emend.agents.providers.policy import CallPolicy

MaxCost = Annotated[
    float | None,
    typer.Option(help="Stop before the API has cost more, in the prices' currency; counts anew each time."),
]
MaxCalls = Annotated[int | None, typer.Option(help="Stop before more calls to the API; counts anew each time.")]
PricesFile = Annotated[str | None, typer.Option("--prices", help="A TOML file of prices, see docs/models.md.")]
Rpm = Annotated[float | None, typer.Option(help="Calls to the API per minute at most.")]
Tpm = Annotated[float | None, typer.Option(help="Tokens per minute at most.")]
Cache = Annotated[
    str | None, typer.Option("--cache", help="A folder where the API's replies are kept and found again.")
]


@dataclass(frozen=True)
class Limits(Group):
    """How providers are asked; None where nothing is told."""

    max_cost: MaxCost = None
    max_calls: MaxCalls = None
    prices: PricesFile = None
    rpm: Rpm = None
    tpm: Tpm = None
    cache: Cache = None

    def policy(self) -> "CallPolicy":
        """The policy that the options describe.

        Raises:
            BadSettings: an impossible number, or a file that cannot be used.
        """
        from emend.agents.providers.policy import CallPolicy

        kept, priced = (None if told is None else Path(told).expanduser() for told in (self.cache, self.prices))
        return CallPolicy.of(self.rpm, self.tpm, kept, priced, self.max_cost, self.max_calls)
