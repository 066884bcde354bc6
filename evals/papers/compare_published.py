"""A run's numbers beside a paper's: the same method, data and setting, and what is not alike."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from emend.evals.aggregate.rows import Report, Row, report
from emend.evals.log.manifest import Manifest
from emend.evals.papers.counterparts import Place, judges_of, places, rules, same_model
from emend.evals.papers.tables import Cell, Table, paper, table
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings


class Line(FrozenModel):
    """A method under one metric of a block: the run's number, the published ones, or both.

    `method` is empty for an editor that the table does not have, `editor` for a method that the run does not have.
    `given` is what the run calls its setting; `mean`, `low` and `high` are in the table's unit; `published` is by
    model; `n` and `published_n` count what the figures are over, and `same_model` names the paper's model that the
    run's goes by the name of.
    """

    data: str
    setting: str
    metric: str
    method: str = ""
    editor: str = ""
    given: str = ""
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
    """Of the published figures as they are printed."""
    same_model: str | None = None


class Comparison(FrozenModel):
    """A run beside a table."""

    table: str
    caption: str
    benchmark: str
    model: str
    models: tuple[str, ...]
    """The paper's, those that the lines have."""
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


class _Placed(NamedTuple):
    row: Row
    place: Place
    scale: float


Block = tuple[str, str, str]
"""Data, setting and metric."""


def against(folder: Path, name: str, scoring: str | None = None) -> Comparison:
    """The run in a folder beside the published table of that name (`akew:2`).

    Args:
        folder: a run folder.
        name: of the table.
        scoring: whose judgements are shown, as in `report`.

    Raises:
        BadData: no run there, or a damaged line.
        BadSettings: no such table or scoring, a table of another benchmark, or one with nothing that the run measures.
    """
    published, manifest = table(name), Manifest.read(folder)
    of = paper(published.paper).benchmark
    if manifest.config.benchmark != of:
        raise BadSettings(
            f"{name} is of the benchmark {of}, the run in '{folder}' of {manifest.config.benchmark}: "
            "nothing of it can stand beside the table. Give a table of its own benchmark; see: emend papers."
        )
    found = report(folder, scoring)
    placed = _placed(published, found, manifest)
    if not placed:
        raise BadSettings(_nothing(folder, published, found))
    lines = tuple(_lines(published, placed, manifest.config.model))
    models = tuple(m for m in dict.fromkeys(c.model for c in published.cells) if any(m in x.published for x in lines))
    return Comparison(
        table=published.id,
        caption=published.caption,
        benchmark=of,
        model=found.model,
        models=models,
        lines=lines,
        notes=tuple(_notes(published, found, manifest, placed, models)),
    )


def _nothing(folder: Path, published: Table, found: Report) -> str:
    """Why not one number has a place, and what would give some."""
    metrics = ", ".join(dict.fromkeys(row.metric for row in found.rows)) or "none"
    judges = judges_of(published.paper, ((cell.data, cell.metric) for cell in published.cells))
    judged = {row.judge.partition(" by ")[0] for row in found.rows if row.judge}
    lacking = [f"--kind {name}" for name in judges if name not in judged]
    remedy = (
        f"Its figures are a judge's: emend judge run {folder} --judge PROVIDER:NAME {' '.join(lacking)}"
        if lacking
        else "Choose another table; see: emend papers."
    )
    return (
        f"no number of the run in '{folder}' (metrics: {metrics}) belongs beside {published.id} "
        f"({published.caption}). {remedy}"
    )


def _placed(published: Table, found: Report, manifest: Manifest) -> list[_Placed]:
    """The rows of the run that have a place in the table, each place and editor once; one with a number if it can."""
    blocks = {_block(cell) for cell in published.cells}
    scales = {metric.name: metric.scale for metric in found.metrics}
    found_at: dict[tuple[str, ...], _Placed] = {}
    for row in found.rows:
        for place in places(published.paper, row, manifest):
            block = (place.data, place.setting, place.metric)
            whose = () if place.shared else (row.editor, row.setting)
            key = (*block, place.method, *whose)
            if block in blocks and (key not in found_at or found_at[key].row.mean is None):
                found_at[key] = _Placed(row, place, scales[row.metric])
    return list(found_at.values())


def _lines(published: Table, placed: list[_Placed], model: str) -> Iterator[Line]:
    """Block by block in the order of the table: its methods, then the editors that it does not have."""
    cells: dict[Block, list[Cell]] = {}
    for cell in published.cells:
        cells.setdefault(_block(cell), []).append(cell)
    for block, told in cells.items():
        ours = [one for one in placed if (one.place.data, one.place.setting, one.place.metric) == block]
        if not ours:
            continue
        methods = list(dict.fromkeys(cell.method for cell in told))
        for method in methods:
            figures = {cell.model: cell.value for cell in told if cell.method == method}
            same = [one for one in ours if one.place.method == method]
            both: list[_Placed | None] = [*same] or [None]
            for one in both:
                yield _line(told[0], method, figures, one, model)
        for one in ours:
            if one.place.method not in methods:
                yield _line(told[0], "", {}, one, model)


def _line(like: Cell, method: str, figures: dict[str, float], one: _Placed | None, model: str) -> Line:
    """A line of the block of a cell."""
    line = Line(
        data=like.data,
        setting=like.setting,
        metric=like.metric,
        method=method,
        published=figures,
        unit=like.unit,
        decimals=like.decimals,
        same_model=next((name for name in figures if same_model(model, name)), None),
    )
    if one is None:
        return line
    times = 100.0 / one.scale if like.unit == "percent" else 1.0
    row = one.row
    mean, low, high = (None if end is None else end * times for end in (row.mean, row.low, row.high))
    told = {"editor": row.editor, "given": row.setting, "mode": row.mode, "mean": mean, "low": low, "high": high}
    return line.model_copy(update=told | {"n": row.n, "unscored": row.unscored, "published_n": one.place.n})


def _block(cell: Cell) -> Block:
    return (cell.data, cell.setting, cell.metric)


def _notes(
    published: Table, found: Report, manifest: Manifest, placed: list[_Placed], models: Iterable[str]
) -> Iterator[str]:
    """What is not alike, the model first."""
    yield _model_note(found.model, list(models))
    yield from _data_notes(manifest, placed)
    yield from dict.fromkeys(f"judged in the run: {one.row.judge}" for one in placed if one.row.judge)
    if found.failed or found.missing:
        yield f"the run is unfinished: {found.failed} units failed, {found.missing} are not done"
    told = rules(published.paper).differs
    yield from dict.fromkeys([*told, *(one.place.differs for one in placed if one.place.differs)])
    if absent := ", ".join(_absent(published, placed)):
        yield f"in the table and not in this run: {absent}"
    taken = {one.row.metric for one in placed}
    if left := [name for name in dict.fromkeys(row.metric for row in found.rows) if name not in taken]:
        yield f"in this run and not in the table: {', '.join(left)}"


def _absent(published: Table, placed: list[_Placed]) -> Iterator[str]:
    """The data of the table that the run has not, and the settings of the data that it has."""
    here = {(one.place.data, one.place.setting) for one in placed}
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
        return f"model: {model} has the name of the paper's {same[0]}; whether the weights are the same is not known"
    theirs = f"the paper has {', '.join(models)}" if models else "the paper has no figure for these methods"
    ours = "tiny, Emend's embedded model of invented words" if model == "tiny" else model
    return f"model differs: the run has {ours}, {theirs}; the numbers are of different models"


def _data_notes(manifest: Manifest, placed: list[_Placed]) -> Iterator[str]:
    if manifest.benchmark.get("paper's examples only"):
        yield "data differ: the run has only the examples that the paper prints"
    if manifest.config.limit is not None:
        yield f"data differ: the run has a sample, --limit {manifest.config.limit}"
    several = len({one.place.data for one in placed}) > 1
    counts: dict[str, tuple[int, int]] = {}
    for row, place, _ in placed:
        name = f"{place.data} {place.metric}" if several else place.metric
        if place.n is not None:
            counts[name] = (max(row.n + row.unscored, counts.get(name, (0, 0))[0]), place.n)
    unlike = [f"{name} {ours:,} of {theirs:,}" for name, (ours, theirs) in counts.items() if ours != theirs]
    if unlike:
        yield f"data differ: what was asked, run of paper: {'; '.join(unlike)}"
    elif counts:
        yield "data: as many were asked as in the paper; that they are the same ones is not checked"
    if any(one.place.n is None for one in placed):
        yield "data: the paper does not say what its figures are over"
