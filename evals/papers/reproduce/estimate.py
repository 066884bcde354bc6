"""Estimated units, calls, cost and time of a recipe's runs."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emend.agents.llm import is_local_spec
from emend.evals.config.overrides import MODEL
from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.benchmarks.triples import OPTION
from emend.evals.log.lines import COSTS
from emend.evals.log.records import read_lines
from emend.evals.papers.reproduce.execute import RunOutcome
from emend.evals.papers.reproduce.needs import PlannedCell
from emend.evals.papers.reproduce.recipe import Recipe, lacking, plan_recipe
from emend.evals.papers.tables import gigabytes_needed
from emend.evals.results.dry_run.estimate import COUNTS, DryRun
from emend.evals.results.dry_run.local_model import parameters_of
from emend.evals.results.dry_run.price import priced
from emend.evals.results.dry_run.run import dry_run
from emend.memory.edit import FrozenModel
from emend.memory.errors import EmendError

GOLD = "gold"


class RunEstimate(FrozenModel):
    """Estimate of a run: the `left` units and their needs; `error` says why it cannot run.

    `seconds` is the estimate for the whole run; `took` is the time that the `measured` units took.
    """

    config: RunConfig
    units: int = 0
    left: int = 0
    need: DryRun | None = None
    seconds: float | None = None
    took: float = 0.0
    measured: int = 0
    gigabytes: float | None = None
    error: str = ""


class RecipeEstimate(FrozenModel):
    """Estimate of all runs of a recipe."""

    runs: tuple[RunEstimate, ...]
    extract: dict[str, dict[str, Any]] = {}
    """Options of `emend extract` by file of triplets to make."""
    left_out: dict[str, int] = {}
    """Number of figures that no run gives, by reason."""

    @property
    def is_paid(self) -> bool:
        """True if the remaining work calls a provider."""
        models = [each.config.model for each in self.runs if each.left]
        models += [str(self.extract[file].get(MODEL) or "tiny") for file in self.documents]
        return not all(map(is_local_spec, models))

    @property
    def documents(self) -> dict[str, int]:
        """Maximum number of documents by file of triplets that the unfinished runs need."""
        needed: dict[str, int] = {}
        for each in self.runs:
            if each.left and _file(each.config) in self.extract:
                count = each.units // len(each.config.editors)
                needed[_file(each.config)] = max(count, needed.get(_file(each.config), 0))
        return needed

    def seconds_left(self, run: RunEstimate) -> float | None:
        """Seconds of one run's remaining work, at the measured pace if there is one; None if
        unknown.
        """
        return _seconds(run, self.runs)

    @property
    def seconds(self) -> float | None:
        """Seconds of the remaining work, at the measured pace if there is one; None if unknown."""
        parts = [self.seconds_left(each) for each in self.runs if each.left]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            return sum(known)
        return None


def estimate(recipe: Recipe, outcomes: Sequence[RunOutcome]) -> RecipeEstimate:
    """Estimate the remaining work of a recipe, once for runs that differ only in the model."""
    needs: dict[str, DryRun | str] = {}
    is_done = all(outcome.is_finished for outcome in outcomes)
    runs = []
    for config, outcome in zip((each.config for each in recipe.runs), outcomes, strict=True):
        key = repr((config.model_copy(update={MODEL: ""}), config.model.partition(":")[0]))
        if key not in needs and not is_done:
            needs[key] = _need(
                _before_extraction(config) if _file(config) in recipe.extract else config
            )
        runs.append(_run_estimate(config, outcome, needs.get(key, "")))
    planned: Sequence[PlannedCell] = ()
    if recipe.table:
        planned = plan_recipe(recipe)[1]
    reasons = Counter(lacking(cell, recipe) for cell in planned if not cell.parts)
    del reasons[""]  # cells that lack nothing
    return RecipeEstimate(
        runs=tuple(runs), extract=recipe.extract, left_out=dict(reasons.most_common())
    )


def _file(config: RunConfig) -> str:
    """Return the file of triplets that a run reads; empty if it reads none."""
    return config.benchmark_options.get(OPTION, "")


def _before_extraction(config: RunConfig) -> RunConfig:
    """Return a run with as many cases that needs no extracted triplets, to estimate it beforehand.

    It uses the gold triplets if the benchmark has such a setting.
    """
    options = {key: value for key, value in config.benchmark_options.items() if key != OPTION}
    benchmark: Any = BENCHMARKS.load(config.benchmark)
    setting = benchmark.settings[0]
    if GOLD in benchmark.settings:
        setting = GOLD
    return config.model_copy(update={"settings": (setting,), "benchmark_options": options})


def _need(config: RunConfig) -> DryRun | str:
    try:
        return dry_run(config)
    except EmendError as error:
        return " ".join(str(error).split())


def _run_estimate(config: RunConfig, outcome: RunOutcome, need: DryRun | str) -> RunEstimate:
    parameters = None
    if is_local_spec(config.model):
        parameters = parameters_of(config.model)
    units = outcome.units
    if not units and not isinstance(need, str):
        units = need.total("units")
    left = units - outcome.finished
    known = RunEstimate(
        config=config, units=units, left=left, gigabytes=_gigabytes(config, parameters)
    )
    if isinstance(need, str):
        return known.model_copy(update={"error": "" if outcome.is_finished else need})
    ended = []
    if outcome.units:
        lines = read_lines(Path(outcome.folder), COSTS)
        ended = [line for line in lines if line.get("act") == "run"]
    seconds = priced(config, need.rows).seconds
    update = {
        "took": sum(line["seconds"] for line in ended),
        "measured": sum(line["finished"] for line in ended),
    }
    return known.model_copy(
        update=update | {"seconds": seconds, "need": _part(config, need, left / max(1, units))}
    )


def _part(config: RunConfig, need: DryRun, part: float) -> DryRun:
    """Return the needs of a fraction of a run."""
    rows = []
    for row in need.rows:
        counts = {name: round(getattr(row, name) * part) for name in COUNTS}
        rows.append(row.model_copy(update=counts))
    return priced(config, tuple(rows))


def _gigabytes(config: RunConfig, parameters: float | None) -> float | None:
    """Return the GPU memory that a run needs; None if unknown."""
    if not parameters or not config.model.startswith("hf:"):
        return None
    settings = {editor: config.overrides.get(editor, {}) for editor in config.editors}
    return max(gigabytes_needed(parameters / 1e9, *each) for each in settings.items())


def _seconds(run: RunEstimate, runs: Sequence[RunEstimate]) -> float | None:
    """Return the seconds of a run's remaining units.

    The estimate is scaled by the ratio of measured to estimated time of the most similar runs.
    """
    if run.seconds is None or not run.units:
        return None
    same_model = [each for each in runs if each.config.model == run.config.model]
    same_editors = [each for each in same_model if each.config.editors == run.config.editors]
    for like in ([run], same_editors, same_model):
        foreseen = sum(
            (each.seconds or 0.0) * each.measured / each.units for each in like if each.measured
        )
        if foreseen:
            return run.left / run.units * run.seconds * sum(each.took for each in like) / foreseen
    return run.left / run.units * run.seconds
