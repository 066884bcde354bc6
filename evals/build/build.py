"""Construction of a benchmark: a run makes its items, and what is kept becomes the folder; and its estimate before."""

import tempfile
from contextlib import suppress
from pathlib import Path

from emend.agents.llm import check_spec
from emend.agents.providers.prices import Prices
from emend.evals.build.assemble import FRESH, assemble, build_fresh, read_built, read_review
from emend.evals.build.card import EXAMPLES, Card, Status, measure_diversity, write_card
from emend.evals.build.kinds import KINDS, BuildKind, build_kind
from emend.evals.build.sources.stored_items import KeptItem
from emend.evals.build.sources.wikiupdate import prepare_updates
from emend.evals.config.task_config import BuildConfig
from emend.evals.metrics.estimate import estimate
from emend.evals.results.dry_run import (
    COUNTS,
    SAMPLE,
    StandIn,
    changed_config,
    dry_run,
    stand_in_for,
    without_warnings,
)
from emend.evals.run.resources import load_benchmark
from emend.evals.run.results import Progress
from emend.evals.run.run import run
from emend.graphs.registry import CONSTRUCTIONS
from emend.memory.edit import FrozenModel
from emend.memory.files import private_folder
from emend.memory.registry import name_object


def write_composed(name: str, kind: BuildKind, items_file: Path, config: BuildConfig, out: Path) -> Card:
    """Write the benchmark of composed items, for which no model is asked, and return its card."""
    source, notes = kind.read(str(items_file))
    items = [KeptItem(item.fields, kind.result(item.fields)) for item in source]
    texts = [kind.text(item) for item in items]
    content = kind.write(items, [item.fields for item in items], out)
    files = {file: {"sha256": digest} for file, digest in notes.files.items()}
    return write_card(
        out,
        kind=name,
        recipe=config.recipe,
        status="not reviewed",
        content=content,
        source={"source": notes.name, "licence": notes.licence, "files": files, "dropped": notes.left_out},
        language=config.language,
        seed=config.seed,
        items=len(items),
        kept_share=estimate([1.0] * len(items), texts),
        filters=tuple(kind.check(out)),
        attempts=len(items),
        diversity=measure_diversity(texts),
        examples=tuple(texts[:EXAMPLES]),
        limits=kind.limits,
    )


WIKIUPDATE = "wikiupdate"
"""The kind whose source is read into a file of its own first."""
RUN = "run"
"""The folder of the run within that of the benchmark."""


def build(
    kind: str,
    config: BuildConfig,
    out: Path,
    *,
    needs_review: bool = True,
    progress: Progress | None = None,
) -> Card:
    """Make a benchmark, or finish one, and return its card.

    Args:
        kind: of benchmark.
        config: what to build from, with which models.
        out: the benchmark's folder, with the run of its construction in `run`; the same call continues it. A new one
            in which nothing was written is removed again.
        needs_review: False ends the recipe `paper` without its human step.
        progress: called for every item.

    Raises:
        RunRefused: the folder holds another construction, or is in use.
        BadSettings: there is no such kind, or no source or author is named.
        BadData: the source cannot be read, or no item was kept.
        EmendError: see `run`.
    """
    is_new = not out.exists()
    try:
        return _build(kind, config, out, needs_review, progress)
    finally:
        if is_new:
            with suppress(OSError):  # there is something in it
                out.rmdir()


def _build(kind: str, config: BuildConfig, out: Path, needs_review: bool, progress: Progress | None) -> Card:
    if kind == FRESH:
        config.require_source()
        return build_fresh(config, out, out / RUN, progress)
    maker = _checked_kind(kind, config)
    private_folder(out, links=True)
    if kind == WIKIUPDATE:
        config = config.model_copy(update={"source": str(prepare_updates(config, out))})
    if maker.prepare:
        items = maker.prepare(config, out)
        if not config.model:
            return write_composed(kind, maker, items, config, out)
        config = config.model_copy(update={"source": str(items)})
    run(config.run_config(kind), out / RUN, progress)
    status: Status = "draft" if config.recipe == "paper" and needs_review else "not reviewed"
    return assemble(out / RUN, out, status)


def _checked_kind(name: str, config: BuildConfig) -> BuildKind:
    """The kind of that name, if its source and its author are named; composed items need no author.

    Raises:
        BadSettings: one of them is not, or the kind is unknown.
    """
    kind = KINDS.get(name)
    config.require_source(needs_author=not (kind and kind.prepare))
    return kind or build_kind(name)


def apply_review(out: Path, sheets: Path) -> Card:
    """Drop the items of a benchmark that people rejected, and return its card; nothing is asked.

    Args:
        out: the benchmark's folder.
        sheets: folder of filled sheets, see `read_review`.

    Raises:
        BadData: the folder has no construction, or a sheet cannot be read.
    """
    cases = {each.record.case for each in read_built(out / RUN) if each.built and each.built.result}
    return assemble(out / RUN, out, "reviewed", read_review(sheets, cases))


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
    if kind == FRESH:
        config.require_source()
        return _foresee_fresh(config)
    prepare = _checked_kind(kind, config).prepare
    if not prepare:
        return _foresee_items(kind, config)
    with tempfile.TemporaryDirectory(prefix="emend-foresee-") as home:
        source = prepare(config, Path(home))
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
