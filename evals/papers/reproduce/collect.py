"""Figures of a table beside those of a recipe's runs, with intervals and notes on differences."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.config.presets import find_preset
from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.triples import EMPTY, OPTION
from emend.evals.log.manifest import Manifest
from emend.evals.metrics.estimate import Estimate, macro
from emend.evals.metrics.triples import ERRORS
from emend.evals.papers.compare_published import BLOCK, PlacedMetric, placed_rows, source_notes
from emend.evals.papers.reproduce.execute import RunOutcome
from emend.evals.papers.reproduce.needs import PlannedCell, Status
from emend.evals.papers.reproduce.recipe import Recipe, lacking
from emend.evals.papers.tables import Cell, PaperTable, rules, same_model
from emend.evals.results.aggregate.rows import report
from emend.memory.edit import FrozenModel

# Start of a quoted reply in a reason; the reply differs between runs.
QUOTED = ": '"
# Reasons for a figure without data, by kind in `compare_published.DERIVED`.
NOTHING = {
    "errors": "no edit failed, so there is no error to sort",
    "perplexities": "no perplexity was measured",
    "triples": "no document has both a gold fact and an extracted triplet",
}


class Figure(FrozenModel):
    """A published figure and the run's, with the interval in the table's unit.

    `notes` list the differences between run and paper. `reason` says why a number is missing, and
    `preset` names the set-up of the editor, if any.
    """

    cell: Cell
    model: str
    status: Status
    reason: str = ""
    preset: str = ""
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    unscored: int = 0
    published_n: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> float | None:
        """The run's figure minus the published one."""
        if self.mean is None:
            return None
        return self.mean - self.cell.value


class _Source(NamedTuple):
    """A run's row with its position in the table, and notes on the run."""

    placed: PlacedMetric
    notes: tuple[str, ...]
    unscored: str
    """The run's most frequent reason for an answer without a score."""


def figures(
    table: PaperTable,
    planned: Sequence[PlannedCell],
    recipe: Recipe,
    outcomes: Sequence[RunOutcome],
) -> list[Figure]:
    """Return the figures in the order of the plan.

    A damaged run raises the errors of `report`.
    """
    sources: dict[tuple[str, ...], _Source] = {}
    for each, outcome in zip(recipe.runs, outcomes, strict=True):
        if outcome.units:
            for key, placed in _sources(table, each.config.model, Path(outcome.folder)):
                if key not in sources or sources[key].placed.row.mean is None:
                    sources[key] = placed
    runs = [(each.config, outcome) for each, outcome in zip(recipe.runs, outcomes, strict=True)]
    by_key: dict[tuple[str, ...], Figure] = {}
    set_up: Collection[str] = ()
    if recipe.preset:
        set_up = find_preset(recipe.preset)
    for plan in sorted(planned, key=lambda plan: bool(plan.parts)):  # means come after their parts
        reason = lacking(plan, recipe) or _unfinished(plan, runs)
        preset = ""
        if plan.need and plan.need.editor in set_up:
            preset = recipe.preset
        figure = Figure(
            cell=plan.cell, model=plan.model, status=plan.status, reason=reason, preset=preset
        )
        source = sources.get((plan.model, plan.cell.method, *plan.cell.key(BLOCK)))
        values: dict[str, Any] = {}
        if plan.parts:
            values = mean_fields(plan, by_key)
        elif source:
            values = _values(table, plan, source)
        by_key[plan.cell.key()] = figure.model_copy(update=values)
    return [by_key[plan.cell.key()] for plan in planned]


def _sources(
    table: PaperTable, model: str, folder: Path
) -> Iterator[tuple[tuple[str, ...], _Source]]:
    manifest, outcome = Manifest.read(folder), report(folder)
    notes = [f"data: {note}" for note in source_notes(manifest.benchmark)]
    if file := manifest.benchmark.get(OPTION):
        note = f"triplets: extracted by {file['method']}"
        if file[EMPTY]:
            note += f", none of {file[EMPTY]} of {file['documents']} documents"
        notes.append(note)
    limit = manifest.config.limit
    if limit is not None:
        notes.append(f"data: a sample, --limit {limit}")
    if outcome.failed or outcome.missing:
        notes.append(f"unfinished: {outcome.failed} units failed, {outcome.missing} are missing")
    commonest = max(
        outcome.reasons, key=outcome.reasons.__getitem__, default="see emend report for the reasons"
    )
    for placed in placed_rows(folder, table, outcome, manifest):
        count, theirs = placed.row.n + placed.row.unscored, placed.place.n
        row_notes = [*notes]
        if theirs not in (None, count) and not limit:
            row_notes.append(f"data: {count:,} asked, of the paper's {theirs:,}")
        row_notes += placed.place.differs
        if placed.row.judge:
            row_notes.append(f"judge: {placed.row.judge}")
        source = _Source(placed, tuple(row_notes), commonest.partition(QUOTED)[0])
        yield (model, placed.place.method, *placed.place.block), source


def _unfinished(planned: PlannedCell, runs: Sequence[tuple[RunConfig, RunOutcome]]) -> str:
    """Return why a figure has no number although a run was planned for it."""
    if planned.parts:
        return "none of its parts has a number"
    fitting = [run for run in runs if _gives(run[0], planned)]
    if not fitting:
        return "no run of the recipe gives it"
    # A run without an option uses its default, so the run with the fewest options is the figure's.
    _, outcome = min(fitting, key=lambda run: len(run[0].benchmark_options))
    if outcome.error:
        return outcome.error
    if outcome.is_finished:
        return "no number for it in the run"
    if outcome.units:
        return "the run is not finished"
    return "not run yet"


def _gives(config: RunConfig, planned: PlannedCell) -> bool:
    """Return True if a run gives a figure."""
    need = planned.need
    if need is None or (config.model, config.mode) != (planned.model, need.mode):
        return False
    lists = {key: config.benchmark_options.get(key, "").split(",") for key in need.options}
    has_options = all({*value.split(",")} <= {*lists[key]} for key, value in need.options.items())
    is_retrieved = need.retriever in (None, config.retriever)
    return (
        need.editor in config.editors
        and need.setting in config.settings
        and is_retrieved
        and has_options
    )


def _values(table: PaperTable, planned: PlannedCell, source: _Source) -> dict[str, Any]:
    """Return the fields of a figure that are taken from a run's row."""
    placed, row, cell = source.placed, source.placed.row, planned.cell
    model = tuple[str, ...]()
    if not same_model(planned.model, cell.model):
        model = (f"model: {planned.model} instead of the paper's",)
    reason = ""
    if row.mean is None:
        reason = _without_number(table, cell, source)
    return {name: placed.number(name, cell.unit) for name in ("mean", "low", "high")} | {
        "n": row.n,
        "unscored": row.unscored,
        "published_n": placed.place.n,
        "notes": (*model, *source.notes, *rules(table.paper).differs),
        "reason": reason,
    }


def _without_number(table: PaperTable, cell: Cell, source: _Source) -> str:
    """Return why a run's row has no number for a figure."""
    derived = next(
        (rule.derived for rule in rules(table.paper).metrics if rule.published == cell.metric), ""
    )
    if not derived:
        return f"none of its answers has a score; most often: {source.unscored}"
    if cell.metric in ERRORS:
        return (
            "every triplet matches its document's fact, or there are no triplets, so there is no "
            "error to sort"
        )
    return NOTHING[derived]


def mean_fields(planned: PlannedCell, figures: Mapping[tuple[str, ...], Figure]) -> dict[str, Any]:
    """Return the fields of a mean over the figures with numbers.

    Its interval is that of a mean of independent estimates.
    """
    parts = [figures[part.key()] for part in planned.parts if part.key() in figures]
    scored = [part for part in parts if part.mean is not None]
    if not scored:
        return {}
    mean = macro(
        [
            Estimate(
                mean=part.mean, n=part.n or 0, unscored=part.unscored, low=part.low, high=part.high
            )
            for part in parts
        ]
    )
    lacking_parts = [f"mean: over {len(scored)} of the paper's {len(planned.parts)}"]
    notes = [
        *(note for part in scored for note in part.notes),
        *lacking_parts * (len(scored) < len(planned.parts)),
    ]
    return mean.model_dump() | {"notes": tuple(dict.fromkeys(notes)), "reason": ""}
