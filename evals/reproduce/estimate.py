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
from emend.evals.reproduce.execute import RunOutcome, title
from emend.evals.reproduce.recipe import Recipe, RecipeRun
from emend.memory.edit import FrozenModel
from emend.memory.errors import EmendError


class RunEstimate(FrozenModel):
    """Needs of a run; `error` says why it cannot be run."""

    run: RecipeRun
    left: int = 0
    """Units that are not finished."""
    need: DryRun | None = None
    gigabytes: float | None = None
    error: str = ""


class RecipeEstimate(FrozenModel):
    """Needs of the runs of a recipe; `hours` at the pace of what was run before, None before that."""

    runs: tuple[RunEstimate, ...]
    hours: float | None = None

    @property
    def errors(self) -> list[str]:
        """Why runs cannot be run, each reason once with the first run."""
        firsts = {each.error: title(each.run.config) for each in reversed(self.runs) if each.error}
        return [f"{name}: {error}" for error, name in firsts.items()]

    @property
    def cost(self) -> float:
        """Cost of the calls that have a price."""
        return sum(each.need.cost or 0.0 for each in self.runs if each.need)

    @property
    def is_paid(self) -> bool:
        """True if a run that is not finished calls a provider."""
        return any(each.left and each.run.config.model.partition(":")[0] not in LOCAL for each in self.runs)


def estimate(recipe: Recipe, outcomes: Sequence[RunOutcome]) -> RecipeEstimate:
    """Estimate what is left of a recipe; runs that differ in the model alone are estimated once."""
    needs: dict[str, DryRun | str] = {}
    runs = []
    for each, outcome in zip(recipe.runs, outcomes, strict=True):
        config, left = each.config, outcome.units - outcome.finished
        if outcome.units:  # what is left of a run is counted, and its calls are not
            runs.append(RunEstimate(run=each, left=left, gigabytes=gigabytes(config)))
            continue
        key = repr((config.model_copy(update={MODEL: ""}), config.model.partition(":")[0]))
        if key not in needs:
            needs[key] = _need(config)
        need = needs[key]
        if isinstance(need, str):
            runs.append(RunEstimate(run=each, error=need))
        else:
            known = priced(config, need.rows)
            runs.append(RunEstimate(run=each, left=known.total("units"), need=known, gigabytes=gigabytes(config)))
    return RecipeEstimate(runs=tuple(runs), hours=_hours(runs, outcomes))


def _need(config: RunConfig) -> DryRun | str:
    try:
        return dry_run(config)
    except EmendError as error:
        return " ".join(str(error).split())


def gigabytes(config: RunConfig) -> float | None:
    """Memory of the GPU that a run takes, after the weights on the disk or the paper's model; None where unknown."""
    provider, _, name = config.model.partition(":")
    if provider != "hf":
        return None
    known = next((each.parameters for each in paper_models().values() if each.hub == name), None)
    with suppress(OSError):
        stored = sum(file.stat().st_size for file in Path(name).expanduser().glob("*.safetensors"))
        known = stored / 2e9 or known
    return max(gigabytes_needed(known, editor, config.overrides) for editor in config.editors) if known else None


def _hours(runs: Sequence[RunEstimate], outcomes: Sequence[RunOutcome]) -> float | None:
    """Hours at the seconds a unit that the runs of the same model have taken, or of calls to a provider."""
    paces: dict[str, tuple[float, int]] = {}
    for each, outcome in zip(runs, outcomes, strict=True):
        for line in read_lines(Path(outcome.folder), COSTS) if outcome.units else ():
            if line.get("act") == "run" and each.run.config.model:
                seconds, units = paces.get(each.run.config.model, (0.0, 0))
                paces[each.run.config.model] = seconds + float(line["seconds"]), units + int(line["finished"])
    hours = 0.0
    for each in (each for each in runs if each.left):
        seconds, units = paces.get(each.run.config.model, (0.0, 0))
        if units:
            hours += each.left * seconds / units / 3600
        elif each.need is not None and each.need.seconds is not None:
            hours += each.need.seconds / 3600
        else:
            return None
    return hours


def estimate_lines(estimated: RecipeEstimate) -> Iterator[str]:
    """Format an estimate: a line for each run, the sum, and why runs cannot be run."""
    for each in estimated.runs:
        yield f"  {title(each.run.config)}: {_state(each)}"
    needs = [each.need for each in estimated.runs if each.need]
    counts = amounts(*(sum(need.total(name) for need in needs) for name in COUNTS))
    units = sum(each.left for each in estimated.runs)
    yield f"{len(estimated.runs)} runs, {units:,} units to do, {counts}{_price(estimated, needs)}"
    yield from _resources(estimated)
    for error in estimated.errors:
        yield f"cannot be run: {error}"


def _state(each: RunEstimate) -> str:
    if each.error:
        return "cannot be run"
    if not each.left:
        return "finished"
    if each.need is None:
        return f"{each.left:,} units left"
    return f"{each.left:,} units, {amounts(*map(each.need.total, COUNTS))}"


def _price(estimated: RecipeEstimate, needs: Sequence[DryRun]) -> str:
    if not estimated.is_paid:
        return ""
    if all(need.cost is None for need in needs):
        return "; no price: give --prices FILE"
    return f"; {estimated.cost:,.2f} {needs[0].currency}"


def _resources(estimated: RecipeEstimate) -> Iterator[str]:
    sizes = [each.gigabytes for each in estimated.runs if each.left and each.gigabytes is not None]
    if sizes:
        largest, room = max(sizes), gpu_gigabytes()
        fit = f"more than the {room:.0f} GB of one GPU" if largest > room else f"one GPU of {room:.0f} GB holds it"
        yield f"GPU memory: up to about {largest:.0f} GB; {fit}"
    if any(each.left for each in estimated.runs):
        unknown = "unknown until some units of each model are finished; the same command with --dry-run says it then"
        yield f"time: {unknown if estimated.hours is None else f'about {estimated.hours:,.1f} hours'}"
