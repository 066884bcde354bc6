"""The figures of a table beside those of a recipe's runs: number, interval, and what is not alike."""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import NamedTuple

from emend.evals.aggregate.rows import report
from emend.evals.log.config import RunConfig
from emend.evals.log.manifest import MANIFEST, Manifest
from emend.evals.papers.compare_published import BLOCK, PlacedMetric, placed_rows
from emend.evals.papers.counterparts import rules, same_model
from emend.evals.papers.tables import Cell, PaperTable
from emend.evals.reproduce.execute import RunOutcome
from emend.evals.reproduce.needs import PlannedCell, Status
from emend.evals.reproduce.recipe import Recipe, lacking
from emend.memory.edit import FrozenModel

NOT_SCORED = "not scored in the run"


class Figure(FrozenModel):
    """A published figure and the run's, with its interval in the table's unit; `notes` say what is not alike.

    `reason` says why there is no number.
    """

    cell: Cell
    model: str
    status: Status
    reason: str = ""
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    unscored: int = 0
    published_n: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> float | None:
        """The run's figure less the published one."""
        return None if self.mean is None else self.mean - self.cell.value


class _Source(NamedTuple):
    """A row of a run that has a place in the table, and what is to be said of that run."""

    placed: PlacedMetric
    notes: tuple[str, ...]


def figures(
    table: PaperTable, planned: Sequence[PlannedCell], recipe: Recipe, outcomes: Sequence[RunOutcome]
) -> list[Figure]:
    """The figures, in the order of the plan; a damaged run raises what `report` raises."""
    sources: dict[tuple[str, ...], _Source] = {}
    for each, outcome in zip(recipe.runs, outcomes, strict=True):
        folder = Path(outcome.folder)
        if (folder / MANIFEST).exists():
            for key, source in _sources(table, each.config.model, folder):
                if key not in sources or sources[key].placed.row.mean is None:
                    sources[key] = source
    errors = _Errors(recipe, outcomes)
    single = {each.cell.key(): _figure(table, each, sources, errors) for each in planned if not each.parts}
    means = {each.cell.key(): _mean(each, recipe, single) for each in planned if each.parts}
    return [(single | means)[each.cell.key()] for each in planned]


def _sources(table: PaperTable, model: str, folder: Path) -> Iterator[tuple[tuple[str, ...], _Source]]:
    manifest, outcome = Manifest.read(folder), report(folder)
    notes: list[str] = []
    if manifest.benchmark.get("paper's examples only"):
        notes.append("data: only the examples that the paper prints")
    if manifest.config.limit is not None:
        notes.append(f"data: a sample, --limit {manifest.config.limit}")
    if outcome.failed or outcome.missing:
        notes.append(f"unfinished: {outcome.failed} units failed, {outcome.missing} are not done")
    for placed in placed_rows(folder, table, outcome, manifest):
        judge = (f"judge: {placed.row.judge}",) if placed.row.judge else ()
        yield (
            (model, placed.place.method, *placed.place.block),
            _Source(placed, (*notes, *placed.place.differs, *judge)),
        )


class _Errors:
    """Why runs are not finished."""

    def __init__(self, recipe: Recipe, outcomes: Sequence[RunOutcome]) -> None:
        self.recipe = recipe
        self._runs = [(each.config, outcome) for each, outcome in zip(recipe.runs, outcomes, strict=True)]

    def of(self, planned: PlannedCell) -> str:
        """Return why a figure has no number."""
        if reason := lacking(planned, self.recipe):
            return reason
        outcome = next((outcome for config, outcome in self._runs if _gives(config, planned)), None)
        if outcome is None:
            return "no run of the recipe gives it"
        return outcome.error or ("no number for it in the run" if outcome.is_finished else "the run is not finished")


def _gives(config: RunConfig, planned: PlannedCell) -> bool:
    """Return whether a run is one that gives a figure."""
    need = planned.need
    if need is None or (config.model, config.mode) != (planned.model, need.mode):
        return False
    options = (
        set(value.split(",")) <= set(config.benchmark_options.get(key, "").split(","))
        for key, value in need.options.items()
    )
    is_retrieved = need.retriever in (None, config.retriever)
    return need.editor in config.editors and need.setting in config.settings and is_retrieved and all(options)


def _figure(
    table: PaperTable, planned: PlannedCell, sources: Mapping[tuple[str, ...], _Source], errors: _Errors
) -> Figure:
    cell = planned.cell
    figure = Figure(cell=cell, model=planned.model, status=planned.status)
    source = sources.get((planned.model, cell.method, *cell.key(BLOCK)))
    if source is None:
        return figure.model_copy(update={"reason": errors.of(planned)})
    placed, row = source.placed, source.placed.row
    model = () if same_model(planned.model, cell.model) else (f"model: {planned.model} in the place of the paper's",)
    values = {name: placed.number(name, cell.unit) for name in ("mean", "low", "high")}
    return figure.model_copy(
        update=values
        | {
            "n": row.n,
            "unscored": row.unscored,
            "published_n": placed.place.n,
            "notes": (*model, *source.notes, *rules(table.paper).differs),
            "reason": NOT_SCORED if row.mean is None else "",
        }
    )


def _mean(planned: PlannedCell, recipe: Recipe, single: Mapping[tuple[str, ...], Figure]) -> Figure:
    """The mean of figures that are there; its interval is that of a mean of independent numbers."""
    figure = Figure(cell=planned.cell, model=planned.model, status=planned.status)
    parts = [single[part.key()] for part in planned.parts if part.key() in single]
    scored = [part for part in parts if part.mean is not None]
    if not scored:
        return figure.model_copy(update={"reason": lacking(planned, recipe) or "none of its parts has a number"})
    mean = sum(part.mean or 0.0 for part in scored) / len(scored)
    widths = [(part.high - part.low) / 2 for part in scored if part.low is not None and part.high is not None]
    half = sqrt(sum(width**2 for width in widths)) / len(scored) if len(widths) == len(scored) else None
    notes = [note for part in scored for note in part.notes]
    if len(scored) < len(planned.parts):
        notes.append(f"mean: over {len(scored)} of the paper's {len(planned.parts)}")
    return figure.model_copy(
        update={
            "mean": mean,
            "low": None if half is None else mean - half,
            "high": None if half is None else mean + half,
            "n": sum(part.n or 0 for part in scored),
            "notes": tuple(dict.fromkeys(notes)),
        }
    )
