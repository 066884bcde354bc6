"""Estimates of a recipe before anything is run: units, calls, tokens, cost, memory and time."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emend.agents.llm import is_local_spec
from emend.evals.config.run_config import MODEL, RunConfig
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.benchmarks.triples import OPTION
from emend.evals.log.lines import COSTS
from emend.evals.log.records import read_lines
from emend.evals.results.estimates.dry_run import COUNTS, DryRun, dry_run, is_local, priced
from emend.evals.results.estimates.local_model import parameters_of
from emend.evals.results.papers.tables import gigabytes_needed
from emend.evals.results.reproduce.execute import RunOutcome
from emend.evals.results.reproduce.recipe import Recipe, lacking, plan_recipe
from emend.memory.edit import FrozenModel
from emend.memory.errors import EmendError

GOLD = "gold"


class RunEstimate(FrozenModel):
    """Needs of what is `left` of a run, in units; `error` says why it cannot be run.

    `seconds` are those of the whole run, as foreseen; `took` are the seconds that its `measured` units have taken.
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
    """Needs of the runs of a recipe."""

    runs: tuple[RunEstimate, ...]
    extract: dict[str, dict[str, Any]] = {}
    """The recipe's files of triplets that are made."""
    left_out: dict[str, int] = {}
    """Number of the table's figures that no run gives, by the reason."""

    @property
    def is_paid(self) -> bool:
        """True if what is left calls a provider."""
        models = [each.config.model for each in self.runs if each.left]
        models += [str(self.extract[file].get(MODEL) or "tiny") for file in self.documents]
        return not all(map(is_local_spec, models))

    @property
    def documents(self) -> dict[str, int]:
        """Number of documents, at most, by the file of triplets that runs which are left need."""
        needed: dict[str, int] = {}
        for each in self.runs:
            if each.left and _file(each.config) in self.extract:
                count = each.units // len(each.config.editors)
                needed[_file(each.config)] = max(count, needed.get(_file(each.config), 0))
        return needed

    @property
    def seconds(self) -> float | None:
        """Time of what is left, at the pace of what was run before where there is any; None where it is unknown."""
        parts = [_seconds(each, self.runs) for each in self.runs if each.left]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None


def estimate(recipe: Recipe, outcomes: Sequence[RunOutcome]) -> RecipeEstimate:
    """Estimate what is left of a recipe; runs that differ in the model alone are estimated once."""
    needs: dict[str, DryRun | str] = {}
    is_done = all(outcome.is_finished for outcome in outcomes)
    runs = []
    for config, outcome in zip((each.config for each in recipe.runs), outcomes, strict=True):
        key = repr((config.model_copy(update={MODEL: ""}), config.model.partition(":")[0]))
        if key not in needs and not is_done:
            needs[key] = _need(_before_extraction(config) if _file(config) in recipe.extract else config)
        runs.append(_run_estimate(config, outcome, needs.get(key, "")))
    planned = plan_recipe(recipe)[1] if recipe.table else ()
    reasons = Counter(reason for each in planned if not each.parts and (reason := lacking(each, recipe)))
    return RecipeEstimate(runs=tuple(runs), extract=recipe.extract, left_out=dict(reasons.most_common()))


def _file(config: RunConfig) -> str:
    """Return the file of triplets that a run reads; empty for none."""
    return config.benchmark_options.get(OPTION, "")


def _before_extraction(config: RunConfig) -> RunConfig:
    """A run of as many cases, with the gold triplets where there are any, in the place of one with extracted ones."""
    options = {key: value for key, value in config.benchmark_options.items() if key != OPTION}
    benchmark: Any = BENCHMARKS.load(config.benchmark)
    setting = GOLD if GOLD in benchmark.settings else benchmark.settings[0]
    return config.model_copy(update={"settings": (setting,), "benchmark_options": options})


def _need(config: RunConfig) -> DryRun | str:
    try:
        return dry_run(config)
    except EmendError as error:
        return " ".join(str(error).split())


def _run_estimate(config: RunConfig, outcome: RunOutcome, need: DryRun | str) -> RunEstimate:
    parameters = parameters_of(config.model) if is_local(config) else None
    units = outcome.units or (0 if isinstance(need, str) else need.total("units"))
    left = units - outcome.finished
    known = RunEstimate(config=config, units=units, left=left, gigabytes=_gigabytes(config, parameters))
    if isinstance(need, str):
        return known.model_copy(update={"error": "" if outcome.is_finished else need})
    lines = read_lines(Path(outcome.folder), COSTS) if outcome.units else []
    ended = [line for line in lines if line.get("act") == "run"]
    seconds = priced(config, need.rows).seconds
    update = {"took": sum(line["seconds"] for line in ended), "measured": sum(line["finished"] for line in ended)}
    return known.model_copy(update=update | {"seconds": seconds, "need": _part(config, need, left / max(1, units))})


def _part(config: RunConfig, need: DryRun, part: float) -> DryRun:
    """Needs of a part of a run."""
    counts = ({name: round(getattr(row, name) * part) for name in COUNTS} for row in need.rows)
    return priced(config, tuple(row.model_copy(update=each) for row, each in zip(need.rows, counts, strict=True)))


def _gigabytes(config: RunConfig, parameters: float | None) -> float | None:
    """Memory of the GPU that a run takes; None where unknown."""
    if not parameters or not config.model.startswith("hf:"):
        return None
    settings = {editor: config.overrides.get(editor, {}) for editor in config.editors}
    return max(gigabytes_needed(parameters / 1e9, *each) for each in settings.items())


def _seconds(run: RunEstimate, runs: Sequence[RunEstimate]) -> float | None:
    """Time of what is left of a run: as foreseen, times what the runs most like it took of what was foreseen."""
    if run.seconds is None or not run.units:
        return None
    same_model = [each for each in runs if each.config.model == run.config.model]
    same_editors = [each for each in same_model if each.config.editors == run.config.editors]
    for like in ([run], same_editors, same_model):
        foreseen = sum((each.seconds or 0.0) * each.measured / each.units for each in like if each.measured)
        if foreseen:
            return run.left / run.units * run.seconds * sum(each.took for each in like) / foreseen
    return run.left / run.units * run.seconds
