"""Comparison of a run with a published table: matching numbers, and differences in protocol."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.log.manifest import Manifest
from emend.evals.papers.derived_figures import derived_rows
from emend.evals.papers.tables import (
    Cell,
    Dimension,
    MetricRule,
    PaperTable,
    PublishedPlace,
    paper,
    places,
    rules,
    same_model,
    table,
)
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.rows import Report, report
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings


class PublishedLine(FrozenModel):
    """A method under one metric: the run's number, the published ones, or both.

    `method` is empty for an editor that the table lacks, `editor` for a method that the run lacks.
    `run_setting` is the run's name of the setting. `mean`, `low` and `high` are in the table's
    unit, and `published` is by model. `n` and `published_n` are the numbers of scored items.
    `same_model` is the paper's model with the name of the run's.
    """

    data: str
    setting: str
    metric: str
    method: str = ""
    editor: str = ""
    run_setting: str = ""
    mode: str = ""
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    unscored: int | None = None
    published: dict[str, float] = {}
    published_n: int | None = None
    unit: str
    decimals: int
    """Number of decimals of the published figures."""
    same_model: str | None = None


class PublishedComparison(FrozenModel):
    """A run next to a published table."""

    table: str
    caption: str
    benchmark: str
    model: str
    models: tuple[str, ...]
    """The paper's models that occur in the lines."""
    lines: tuple[PublishedLine, ...]
    notes: tuple[str, ...]


class PlacedMetric(NamedTuple):
    """A run's row with its position in a table, and the scale of its metric."""

    row: MetricRow
    place: PublishedPlace
    scale: float

    def number(self, name: str, unit: str) -> float | None:
        """Return the row's `mean`, `low` or `high` in the unit of a table."""
        value: float | None = getattr(self.row, name)
        if value is None or unit != "percent":
            return value
        return value * 100.0 / self.scale


# Dimensions that identify a block of a table.
BLOCK: tuple[Dimension, ...] = ("data", "setting", "metric")


def against(folder: Path, name: str, scoring: str | None = None) -> PublishedComparison:
    """Compare the run in a folder with the published table of that name, such as `akew:2`.

    Args:
        folder: a run folder.
        name: name of the table.
        scoring: scoring to show, as in `report`.

    Raises:
        BadData: the folder has no run, or a line is damaged.
        BadSettings: the table or scoring does not exist, the table is of another benchmark, or the
            run measures none of its figures.
    """
    published, manifest = table(name), Manifest.read(folder)
    of = paper(published.paper).benchmark
    if manifest.config.benchmark != of:
        raise BadSettings(
            f"{name} is of the benchmark {of}, the run in '{folder}' of "
            f"{manifest.config.benchmark}: it cannot be compared with this table. Give a table of "
            "its benchmark; see: emend reproduce."
        )
    _refuse_other_protocol(folder, manifest)
    outcome = report(folder, scoring)
    placed = placed_rows(folder, published, outcome, manifest)
    if not placed:
        raise BadSettings(_nothing(folder, published, outcome))
    lines = tuple(_lines(published, placed, manifest.config.model))
    compared = {model for line in lines for model in line.published}
    every_model = dict.fromkeys(cell.model for cell in published.cells)
    models = tuple(model for model in every_model if model in compared)
    return PublishedComparison(
        table=published.id,
        caption=published.caption,
        benchmark=of,
        model=outcome.model,
        models=models,
        lines=lines,
        notes=tuple(_notes(published, outcome, manifest, placed, models)),
    )


def _refuse_other_protocol(folder: Path, manifest: Manifest) -> None:
    """Check that a run asks and scores as the papers do.

    Raises:
        BadSettings: the run asks in another form, leaves probes out, or scores differently.
    """
    config = manifest.config
    others = []
    if config.form is not None:
        others.append(f"--form {config.form}")
    if config.count_only is not None:
        others.append(f"--count-only {config.count_only}")
    others += [
        f"--protocol {name}" for name in config.protocols if name in ("teacher_forced", "contains")
    ]
    figures = {metric.protocol for metric in manifest.metrics} - {"", "teacher_forced", "contains"}
    if config.form == "chat" or config.count_only is not None or (config.protocols and not figures):
        raise BadSettings(
            f"the run in '{folder}' measures something other than the published figures "
            f"({', '.join(others)}): run without these options, to ask and score as in the paper."
        )


def _nothing(folder: Path, published: PaperTable, outcome: Report) -> str:
    """Return why no number fits the table, and how to get some."""
    metrics, metric_rules = (
        ", ".join(dict.fromkeys(row.metric for row in outcome.rows)) or "none",
        _rules_of(published),
    )
    judged = {"", *(row.judge.partition(" by ")[0] for row in outcome.rows)}
    judges = dict.fromkeys(rule.judge for rule in metric_rules)
    lacking = [f"--kind {name}" for name in judges if name not in judged]
    remedy = "Choose another table; see: emend reproduce."
    if any(rule.derived == "triples" for rule in metric_rules):
        remedy = (
            "Its figures are those of extracted triplets: run with --benchmark-option triples=FILE "
            "of emend extract."
        )
    elif lacking:
        remedy = (
            f"Its figures are a judge's: emend judge run {folder} --judge PROVIDER:NAME "
            f"{' '.join(lacking)}"
        )
    return (
        f"no number of the run in '{folder}' (metrics: {metrics}) corresponds to {published.id} "
        f"({published.caption}). {remedy}"
    )


def _rules_of(published: PaperTable) -> list[MetricRule]:
    """Return the rules about the table's figures."""
    pairs = {(cell.data, cell.metric) for cell in published.cells}
    return [rule for rule in rules(published.paper).metrics if (rule.data, rule.published) in pairs]


def placed_rows(
    folder: Path, published: PaperTable, outcome: Report, manifest: Manifest
) -> list[PlacedMetric]:
    """Return the run's rows that belong in the table, one per position and editor.

    Rows with a number take precedence over rows without one.
    """
    kinds = dict.fromkeys(rule.derived for rule in _rules_of(published) if rule.derived)
    rows = [*outcome.rows, *derived_rows(folder, [*kinds])]
    blocks = {cell.key(BLOCK) for cell in published.cells}
    scales = {metric.name: metric.scale for metric in outcome.metrics}
    found_at: dict[tuple[str, ...], PlacedMetric] = {}
    for row in rows:
        for place in places(published.paper, row, manifest):
            key = (*place.block, place.method)
            if not place.shared:
                key += (row.editor, row.setting)
            better = key not in found_at or (
                found_at[key].row.mean is None and row.mean is not None
            )
            if place.block in blocks and better:
                found_at[key] = PlacedMetric(row, place, scales.get(row.metric, 100.0))
    return list(found_at.values())


def _lines(
    published: PaperTable, placed: list[PlacedMetric], model: str
) -> Iterator[PublishedLine]:
    """Yield the lines block by block: the table's methods, then the editors that it lacks."""
    cells: dict[tuple[str, ...], list[Cell]] = {}
    for cell in published.cells:
        cells.setdefault(cell.key(BLOCK), []).append(cell)
    for block, cells_here in cells.items():
        ours = [entry for entry in placed if entry.place.block == block]
        if not ours:
            continue
        methods = list(dict.fromkeys(cell.method for cell in cells_here))
        for method in methods:
            figures = {cell.model: cell.value for cell in cells_here if cell.method == method}
            same: list[PlacedMetric | None] = [
                entry for entry in ours if entry.place.method == method
            ]
            for each in same or [None]:
                yield _line(cells_here[0], method, figures, each, model)
        for entry in ours:
            if entry.place.method not in methods:
                yield _line(cells_here[0], "", {}, entry, model)


def _line(
    like: Cell, method: str, figures: dict[str, float], entry: PlacedMetric | None, model: str
) -> PublishedLine:
    """Return a line in the block of a cell."""
    line = PublishedLine(
        data=like.data,
        setting=like.setting,
        metric=like.metric,
        method=method,
        published=figures,
        unit=like.unit,
        decimals=like.decimals,
        same_model=next((name for name in figures if same_model(model, name)), None),
    )
    if entry is None:
        return line
    ours = entry.row.model_dump(include={"editor", "mode", "n", "unscored"})
    ours |= {name: entry.number(name, like.unit) for name in ("mean", "low", "high")}
    return line.model_copy(
        update=ours | {"run_setting": entry.row.setting, "published_n": entry.place.n}
    )


def _notes(
    published: PaperTable,
    outcome: Report,
    manifest: Manifest,
    placed: list[PlacedMetric],
    models: Iterable[str],
) -> Iterator[str]:
    """Yield notes on the differences between run and paper, the model first."""
    yield _model_note(outcome.model, list(models))
    yield from _data_notes(manifest, placed)
    yield from dict.fromkeys(
        f"judged in the run: {entry.row.judge}" for entry in placed if entry.row.judge
    )
    if outcome.failed or outcome.missing:
        yield (
            f"the run is unfinished: {outcome.failed} units failed, {outcome.missing} are missing"
        )
    differences = rules(published.paper).differs
    yield from dict.fromkeys(
        [*differences, *(differs for entry in placed for differs in entry.place.differs)]
    )
    if absent := ", ".join(_absent(published, placed)):
        yield f"in the table and not in this run: {absent}"
    left = dict.fromkeys(row.metric for row in outcome.rows)
    for entry in placed:
        left.pop(entry.row.metric, None)
    if left:
        yield f"in this run and not in the table: {', '.join(left)}"


def _absent(published: PaperTable, placed: list[PlacedMetric]) -> Iterator[str]:
    """Yield the table's data that the run lacks, and missing settings of its other data."""
    here = {entry.place.block[:2] for entry in placed}
    keys = published.keys(("data", "setting"))
    for data in dict.fromkeys(data for data, _ in keys):
        settings = [setting for name, setting in keys if name == data]
        if not any((data, setting) in here for setting in settings):
            yield data
        else:
            yield from (f"{data} {setting}" for setting in settings if (data, setting) not in here)


def _model_note(model: str, models: list[str]) -> str:
    same = [name for name in models if same_model(model, name)]
    if same:
        return (
            f"model: {model} has the name of the paper's {same[0]}; whether the weights are the "
            "same is unknown"
        )
    if models == [""]:
        return f"model: the run has {model}, the paper does not name the model of these figures"
    if models:
        theirs = f"the paper has {', '.join(models)}"
    else:
        theirs = "the paper has no figure for these methods"
    if model == "tiny":
        ours = "tiny, Emend's embedded model of invented words"
    else:
        ours = model
    return f"model differs: the run has {ours}, {theirs}; the numbers are from different models"


def source_notes(provenance: Mapping[str, Any]) -> Iterator[str]:
    """Yield how the provenance of a run's data differs from the paper's files."""
    if provenance.get("paper's examples only"):
        yield "only the examples that the paper prints"
    if anew := provenance.get("made anew"):
        yield f"{', '.join(anew)} made anew, not the paper's file"


def _data_notes(manifest: Manifest, placed: list[PlacedMetric]) -> Iterator[str]:
    yield from (f"data differ: the run has {note}" for note in source_notes(manifest.benchmark))
    if manifest.config.limit is not None:
        yield f"data differ: the run has a sample, --limit {manifest.config.limit}"
    several = len({entry.place.block[0] for entry in placed}) > 1
    counts: dict[str, tuple[int, int]] = {}
    for row, place, _ in placed:
        data, _, metric = place.block
        if several:
            name = f"{data} {metric}"
        else:
            name = metric
        if place.n is not None:
            counts[name] = (max(row.n + row.unscored, counts.get(name, (0, 0))[0]), place.n)
    unlike = [
        f"{name} {ours:,} of {theirs:,}"
        for name, (ours, theirs) in counts.items()
        if ours != theirs
    ]
    if unlike:
        yield f"data differ: what was asked, run of paper: {'; '.join(unlike)}"
    elif counts:
        yield ("data: as many questions as in the paper; whether they are the same is not checked")
    if any(entry.place.n is None for entry in placed):
        yield "data: the paper does not say what its figures are over"
