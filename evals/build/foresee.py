"""The estimate of a construction before anything is asked."""

import tempfile
from pathlib import Path

from emend.agents.llm import check_spec
from emend.agents.providers.prices import Prices
from emend.evals.build.composed.composers import COMPOSERS
from emend.evals.build.fresh import FRESH
from emend.evals.build.kinds import build_kind
from emend.evals.config.build_config import BuildConfig
from emend.evals.results.estimates.dry_run import (
    COUNTS,
    SAMPLE,
    StandIn,
    changed_config,
    dry_run,
    stand_in_for,
    without_warnings,
)
from emend.evals.run.run import run
from emend.evals.run.setup.benchmark import load_benchmark
from emend.graphs.registry import CONSTRUCTIONS
from emend.memory.edit import FrozenModel
from emend.memory.registry import name_object


class RoleEstimate(FrozenModel):
    """Calls and tokens that a role is expected to need; cost is None without a price."""

    role: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None


class BuildEstimate(FrozenModel):
    """The estimate of a construction in which every item passes at its first attempt; fresh asks every item once."""

    items: int
    roles: tuple[RoleEstimate, ...]
    currency: str


def foresee(kind: str, config: BuildConfig) -> BuildEstimate:
    """Estimate a construction: count its items, and make the first ones with stand-ins for author and judge.

    Raises:
        EmendError: a name, setting or file is wrong.
    """
    composed = kind in COMPOSERS
    config.require_source(needs_author=not composed)
    if kind == FRESH:
        return _foresee_fresh(config)
    build_kind(kind)
    if not composed:
        return _foresee_items(kind, config)
    with tempfile.TemporaryDirectory(prefix="emend-foresee-") as home:
        source = COMPOSERS[kind].prepare(config, Path(home))
        if not config.model:
            return BuildEstimate(items=len(source.read_bytes().splitlines()), roles=(), currency="")
        return _foresee_items(kind, config.model_copy(update={"source": str(source)}))


def _foresee_items(kind: str, config: BuildConfig) -> BuildEstimate:
    """Estimate the construction of the items of a source that is read as it is."""
    judge_name = config.judge or config.model
    for spec in (config.model, judge_name):
        check_spec(spec)
    reply_to = CONSTRUCTIONS.load(kind).sample
    author, judge = (stand_in_for(spec)(reply_to=reply_to) for spec in (config.model, judge_name))
    items, sampled = _run_sample(kind, config, author, judge)
    prices = Prices.read(Path(config.prices).expanduser()) if config.prices else Prices()
    factor = items / max(1, sampled)
    roles = ((author, "author", config.model), (judge, "judge", judge_name))
    rows = tuple(_role(role, spec, each, factor, prices) for each, role, spec in roles)
    return BuildEstimate(items=items, roles=rows, currency=prices.currency)


def _foresee_fresh(config: BuildConfig) -> BuildEstimate:
    """The estimate of asking a model, unedited, in all wordings."""
    estimate = dry_run(config.knowledge_config())
    counts = {name: estimate.total(name) for name in COUNTS}
    role = RoleEstimate(role="model", model=config.model, **counts, cost=estimate.cost)
    return BuildEstimate(items=estimate.total("units"), roles=(role,), currency=estimate.currency)


def _run_sample(kind: str, config: BuildConfig, author: StandIn, judge: StandIn) -> tuple[int, int]:
    """Make the first items; return the number of all items and of those finished."""
    name = name_object("judge of an estimate", judge)
    run_config = config.model_copy(update={"judge": name}).run_config(kind)
    benchmark, settings = load_benchmark(run_config.benchmark, None, run_config.benchmark_options)
    items = sum(1 for _ in benchmark.cases(settings[0], config.limit, config.seed))
    sample = changed_config(run_config, run_config.editors, limit=min(items, SAMPLE), fail_on_error="true")
    with tempfile.TemporaryDirectory(prefix="emend-foresee-") as home, without_warnings():
        finished = run(sample, Path(home) / "run", model=author).finished
    return items, finished


def _role(role: str, spec: str, stand_in: StandIn, factor: float, prices: Prices) -> RoleEstimate:
    usage = stand_in.usage
    tokens = {"input_tokens": round(usage.input_tokens * factor), "output_tokens": round(usage.output_tokens * factor)}
    price = prices.find(spec)
    cost = None if price is None else price.compute_cost(tokens)
    return RoleEstimate(role=role, model=spec, calls=round(usage.calls * factor), **tokens, cost=cost)
