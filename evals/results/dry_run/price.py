"""Price of a run, and its estimate computed from rows."""

from collections.abc import Iterable
from pathlib import Path

from emend.agents.llm import is_local_spec
from emend.agents.providers.prices import Prices
from emend.evals.config.run_config import RunConfig
from emend.evals.results.dry_run.duration import local_seconds, provider_seconds
from emend.evals.results.dry_run.estimate import COUNTS, DryRun, EstimatedRow
from emend.evals.results.dry_run.local_model import parameters_of


def _total(rows: Iterable[EstimatedRow], name: str) -> int:
    return sum(getattr(row, name) for row in rows)


def priced(config: RunConfig, rows: tuple[EstimatedRow, ...]) -> DryRun:
    """Return a run's estimate computed from its rows."""
    calls, tokens_in, tokens_out = [_total(rows, name) for name in COUNTS]
    if config.prices:
        prices = Prices.read(Path(config.prices).expanduser())
    else:
        prices = Prices()
    price, cost = prices.find(config.model), None
    if price is not None:
        cost = price.compute_cost({"input_tokens": tokens_in, "output_tokens": tokens_out})
    seconds: float | None = None
    if not is_local_spec(config.model):
        seconds = provider_seconds(config, config.plan, calls, tokens_in + tokens_out)
    elif parameters := parameters_of(config.model):
        seconds = local_seconds(config, rows, parameters)
    return DryRun(
        model=config.model, rows=rows, cost=cost, currency=prices.currency, seconds=seconds
    )
