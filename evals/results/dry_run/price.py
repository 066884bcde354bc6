"""Price of a run, and its estimate computed from rows."""

from pathlib import Path

from emend.agents.llm import is_local_spec
from emend.agents.providers.prices import Prices
from emend.evals.config.run_config import RunConfig
from emend.evals.results.dry_run.duration import local_seconds, provider_seconds
from emend.evals.results.dry_run.estimate import COUNTS, DryRun, EstimatedRow
from emend.evals.results.dry_run.local_model import parameters_of


def priced(config: RunConfig, rows: tuple[EstimatedRow, ...]) -> DryRun:
    """Return a run's estimate computed from its rows."""
    if config.prices:
        prices = Prices.read(Path(config.prices).expanduser())
    else:
        prices = Prices()
    estimate = DryRun(
        model=config.model, rows=rows, cost=None, currency=prices.currency, seconds=None
    )
    calls, tokens_in, tokens_out = map(estimate.total, COUNTS)
    price, cost, seconds = prices.find(config.model), None, None
    if price is not None:
        cost = price.compute_cost({"input_tokens": tokens_in, "output_tokens": tokens_out})
    if not is_local_spec(config.model):
        seconds = provider_seconds(config, config.plan, calls, tokens_in + tokens_out)
    elif parameters := parameters_of(config.model):
        seconds = local_seconds(config, rows, parameters)
    return estimate.model_copy(update={"cost": cost, "seconds": seconds})
