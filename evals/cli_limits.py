"""Options of the command line that limit what models behind an API are asked, and what that costs."""

from typing import Annotated

import typer

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
