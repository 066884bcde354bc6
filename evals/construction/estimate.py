"""Cost estimate of a construction: calls, tokens and price, extrapolated from its first items, made
with stand-in models.
"""

import tempfile
from pathlib import Path

from emend.agents.llm import check_model_settings, check_spec, is_local_spec
from emend.agents.providers.prices import Prices
from emend.agents.scoring import SMALL
from emend.editors.device_speed import device_speed
from emend.evals.config.build_config import BuildConfig
from emend.evals.config.overrides import MODEL
from emend.evals.construction.fresh import FRESH, knowledge_config
from emend.evals.construction.items.job import make_items
from emend.evals.construction.items.setup import load_construction
from emend.evals.construction.items.source import read_item_source
from emend.evals.construction.kinds import checked_kind
from emend.evals.construction.registry import load_pipeline
from emend.evals.results.dry_run.duration import BUSY, SECONDS_PER_CALL
from emend.evals.results.dry_run.estimate import COUNTS
from emend.evals.results.dry_run.local_model import has_chat_template, parameters_of
from emend.evals.results.dry_run.run import dry_run
from emend.evals.results.dry_run.sample import SAMPLE, without_warnings
from emend.evals.results.dry_run.stand_in import StandIn, stand_in_for
from emend.memory.edit import FrozenModel

# Prefix of temporary folders.
FOLDER = "emend-estimate-"


class RoleEstimate(FrozenModel):
    """Expected calls, tokens, cost and time of a role.

    `cost` is None if the model has no price, and `seconds` if it is local and its size unknown.
    """

    role: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    seconds: float | None = None


class BuildEstimate(FrozenModel):
    """Estimate of a construction, assuming that every item passes at its first attempt."""

    items: int
    roles: tuple[RoleEstimate, ...]
    currency: str
    unread: dict[str, str] = {}
    """Reasons by document that could not be read."""

    @property
    def seconds(self) -> float | None:
        """The time of all roles; None without roles, or if that of one is unknown."""
        times = [role.seconds for role in self.roles]
        if not times or None in times:
            return None
        return sum(time for time in times if time is not None)

    @property
    def has_local_model(self) -> bool:
        """True if a role is played by a local model."""
        return any(is_local_spec(role.model) for role in self.roles)


def estimate_build(kind: str, config: BuildConfig) -> BuildEstimate:
    """Estimate a construction from its number of items, and from its first items made with
    stand-ins for author and judge.

    Raises:
        EmendError: a name, setting or file is invalid.
    """
    if kind == FRESH:
        config.require_source()
        return _estimate_fresh(config)
    prepare = checked_kind(kind, config).prepare
    if not prepare:
        return _estimate_items(kind, config, config.source)
    with tempfile.TemporaryDirectory(prefix=FOLDER) as folder:
        source = prepare(config, Path(folder))
        if not config.model:
            return BuildEstimate(items=len(source.read_bytes().splitlines()), roles=(), currency="")
        return _estimate_items(kind, config, str(source))


def _estimate_fresh(config: BuildConfig) -> BuildEstimate:
    """Estimate the run of kind `fresh`, which asks the unedited model every question once."""
    estimate = dry_run(knowledge_config(config))
    counts = {name: estimate.total(name) for name in COUNTS}
    role = RoleEstimate(role="model", model=config.model, **counts, cost=estimate.cost)
    return BuildEstimate(items=estimate.total("units"), roles=(role,), currency=estimate.currency)


def _estimate_items(kind: str, config: BuildConfig, source: str) -> BuildEstimate:
    """Estimate the construction of items that are read directly from a source."""
    judge_name = config.judge or config.model
    for spec in (config.model, judge_name):
        check_spec(spec)
    check_model_settings(config.model, config.overrides.get(MODEL, {}))
    reply_to = load_pipeline(kind).sample
    chats, is_small = has_chat_template(config.model), _is_small(config.model)
    author = stand_in_for(config.model)(reply_to=reply_to, chats=chats, is_small=is_small)
    judge = stand_in_for(judge_name)(reply_to=reply_to)
    whole = read_item_source(kind, config, source)
    items, unread = len(whole.items), whole.provenance.get("unread", {})
    sampled = _make_sample(kind, config, source, author, judge)
    prices = Prices.read(Path(config.prices).expanduser()) if config.prices else Prices()
    factor = items / max(1, sampled)
    parts = (("author", config.model, author), ("judge", judge_name, judge))
    roles = tuple(
        _timed(_role(role, spec, stand_in, factor, prices), config.concurrency)
        for role, spec, stand_in in parts
    )
    return BuildEstimate(items=items, roles=roles, currency=prices.currency, unread=unread)


def _is_small(spec: str) -> bool | None:
    """Return True if a model is local and asked line by line, as `is_small_model` decides once it
    is loaded; None if its size is unknown.
    """
    parameters = parameters_of(spec) if is_local_spec(spec) else None
    if parameters is None:
        return None
    return parameters < SMALL


def _timed(role: RoleEstimate, concurrency: int) -> RoleEstimate:
    """Return the estimate of a role with the time of its calls: by the measured speed of this
    machine for a local model, else by the usual length of a provider's call.
    """
    if not is_local_spec(role.model):
        seconds = role.calls * SECONDS_PER_CALL / concurrency
        return role.model_copy(update={"seconds": seconds})
    parameters = parameters_of(role.model)
    if parameters is None:
        return role
    speed, at_once = device_speed(parameters), max(1.0, BUSY * min(concurrency, role.calls))
    reading = (role.input_tokens + role.output_tokens) * speed.reading
    return role.model_copy(
        update={"seconds": reading + role.output_tokens * speed.writing / at_once}
    )


def _make_sample(
    kind: str, config: BuildConfig, source: str, author: StandIn, judge: StandIn
) -> int:
    """Make the first items with stand-in models, and return the number of finished items."""
    unlimited = dict.fromkeys(("max_cost", "max_calls", "prices", "rpm", "tpm", "cache"))
    limit = min(SAMPLE, config.limit or SAMPLE)
    sample = config.model_copy(update={**unlimited, "limit": limit, "fail_on_error": "true"})
    with tempfile.TemporaryDirectory(prefix=FOLDER) as folder, without_warnings():
        setup = load_construction(kind, sample, source, author, judge)
        return make_items(setup, Path(folder) / "run").finished


def _role(role: str, spec: str, stand_in: StandIn, factor: float, prices: Prices) -> RoleEstimate:
    usage = stand_in.usage
    input_tokens = round(usage.input_tokens * factor)
    output_tokens = round(usage.output_tokens * factor)
    price = prices.find(spec)
    cost = None
    if price is not None:
        cost = price.compute_cost({"input_tokens": input_tokens, "output_tokens": output_tokens})
    return RoleEstimate(
        role=role,
        model=spec,
        calls=round(usage.calls * factor),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=cost,
    )
