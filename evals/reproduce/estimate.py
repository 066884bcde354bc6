"""Estimates of a recipe before anything is run: units, calls, tokens, cost, memory and time."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from emend.agents.llm import LOCAL
from emend.evals.components.dry_run import COUNTS, DryRun, amounts, dry_run, priced
from emend.evals.log.config import MODEL, RunConfig
from emend.evals.log.lines import COSTS
from emend.evals.log.records import read_lines
from emend.evals.papers.recipes import gigabytes_needed, gpu_gigabytes, paper_models
from emend.evals.report.progress import duration
from emend.evals.reproduce.execute import RunOutcome, title
from emend.evals.reproduce.recipe import Recipe
from emend.memory.edit import FrozenModel
from emend.memory.errors import EmendError


class RunEstimate(FrozenModel):
    """Needs of a run; `left` are the units that are not finished, and `error` says why it cannot be run."""

    config: RunConfig
    left: int = 0
    need: DryRun | None = None
    gigabytes: float | None = None
    error: str = ""


class RecipeEstimate(FrozenModel):
    """Needs of the runs of a recipe; `seconds` at the pace of what was run before, None before that."""

    runs: tuple[RunEstimate, ...]
    seconds: float | None = None

    @property
    def is_paid(self) -> bool:
        """True if a run that is not finished calls a provider."""
        return any(each.left and each.config.model.partition(":")[0] not in LOCAL for each in self.runs)


def estimate(recipe: Recipe, outcomes: Sequence[RunOutcome]) -> RecipeEstimate:
    """Estimate what is left of a recipe; runs that differ in the model alone are estimated once."""
    needs: dict[str, DryRun | str] = {}
    runs = []
    for config, outcome in zip((each.config for each in recipe.runs), outcomes, strict=True):
        known = RunEstimate(config=config, left=outcome.units - outcome.finished, gigabytes=_gigabytes(config))
        key = repr((config.model_copy(update={MODEL: ""}), config.model.partition(":")[0]))
        if not outcome.units and key not in needs:
            needs[key] = _need(config)
        need = None if outcome.units else needs[key]  # what is left of a run is counted, and its calls are not
        if isinstance(need, str):
            known = known.model_copy(update={"error": need})
        elif need is not None:
            need = priced(config, need.rows)
            known = known.model_copy(update={"left": need.total("units"), "need": need})
        runs.append(known)
    return RecipeEstimate(runs=tuple(runs), seconds=_seconds(runs, outcomes))


def _need(config: RunConfig) -> DryRun | str:
    try:
        return dry_run(config)
    except EmendError as error:
        return " ".join(str(error).split())


def _gigabytes(config: RunConfig) -> float | None:
    """Memory of the GPU that a run takes, after the weights on the disk or the paper's model; None where unknown."""
    provider, _, name = config.model.partition(":")
    if provider != "hf":
        return None
    billions = next((each.parameters for each in paper_models().values() if each.hub == name), None)
    with suppress(OSError):
        stored = sum(file.stat().st_size for file in Path(name).expanduser().glob("*.safetensors"))
        billions = stored / 2e9 or billions
    settings = {editor: config.overrides.get(editor, {}) for editor in config.editors}
    return max(gigabytes_needed(billions, *each) for each in settings.items()) if billions else None


def _seconds(runs: Sequence[RunEstimate], outcomes: Sequence[RunOutcome]) -> float | None:
    """Time at the seconds a unit that the runs of the same model have taken, or of calls to a provider."""
    paces: dict[str, tuple[float, int]] = {}
    for each, outcome in zip(runs, outcomes, strict=True):
        for line in read_lines(Path(outcome.folder), COSTS) if outcome.units else ():
            if line.get("act") == "run":
                seconds, units = paces.get(each.config.model, (0.0, 0))
                paces[each.config.model] = seconds + float(line["seconds"]), units + int(line["finished"])
    total = 0.0
    for each in (each for each in runs if each.left):
        seconds, units = paces.get(each.config.model, (0.0, 0))
        if not units and (each.need is None or each.need.seconds is None):
            return None
        total += each.left * seconds / units if units else each.need.seconds or 0.0 if each.need else 0.0
    return total


def estimate_lines(estimated: RecipeEstimate) -> Iterator[str]:
    """Format an estimate: a line for each run, the sum, and why runs cannot be run."""
    for each in estimated.runs:
        left = f"{each.left:,} units" + (f", {amounts(*map(each.need.total, COUNTS))}" if each.need else " left")
        yield f"  {title(each.config)}: {'cannot be run' if each.error else left if each.left else 'finished'}"
    needs = [each.need for each in estimated.runs if each.need]
    units, costs = sum(each.left for each in estimated.runs), [need.cost for need in needs if need.cost is not None]
    price = f"; {sum(costs):,.2f} {needs[0].currency}" if costs else "; no price: give --prices FILE"
    counts = amounts(*(sum(need.total(name) for need in needs) for name in COUNTS))
    yield f"{len(estimated.runs)} runs, {units:,} units to do, {counts}{price if estimated.is_paid else ''}"
    if sizes := [each.gigabytes for each in estimated.runs if each.left and each.gigabytes is not None]:
        fit = "more than" if max(sizes) > gpu_gigabytes() else "within"
        yield f"GPU memory: up to about {max(sizes):.0f} GB, {fit} the {gpu_gigabytes():.0f} GB of one GPU"
    if units:
        unknown = "unknown until some units of each model are finished; the same command with --dry-run says it then"
        yield f"time: {unknown if estimated.seconds is None else f'about {duration(estimated.seconds)}'}"
    firsts = {each.error: title(each.config) for each in reversed(estimated.runs) if each.error}
    yield from (f"cannot be run: {name}: {error}" for error, name in firsts.items())
