"""Rendering of a run beside a published table."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Literal

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from emend.evals.papers.compare_published import PublishedComparison, PublishedLine, against
from emend.evals.papers.show.published import DASH
from emend.evals.show.report.layout import INTERVALS, bounds, decimal, dim, fits, plain_grid
from emend.evals.show.report.report_parts import ReportPart
from emend.memory.escape import one_line

# Number of decimals by unit; two for all others.
DECIMALS = {"percent": 1}
Label = Literal["metric", "data"]
# Endings of the part before the colon in notes on differences.
DIFFERS = ("differs", "differ")
RUN_ONLY, PAPER_ONLY = "run only", "paper only"


def render_against(comparison: PublishedComparison, console: Console) -> RenderableType:
    """Render notes on differences, then a table per data and setting that fits the console."""
    parts: list[RenderableType] = [
        Text(
            one_line(
                f"{comparison.benchmark} run of {comparison.model} next to {comparison.table}"
            ),
            style="bold",
        ),
        Text(comparison.caption),
        _listed(comparison.notes),
    ]
    for title, label, lines in _blocks(comparison.lines):
        grid = _published_grid(label, lines, comparison.models)
        table: RenderableType = grid
        if not fits(grid, console):
            table = _stacked(label, lines, comparison.models)
        parts += [Text(""), Text(title, style="bold"), table]
    return Group(*parts, *dim([f"run: mean [{INTERVALS}]; n: run / paper"]))


def _blocks(lines: Sequence[PublishedLine]) -> Iterator[tuple[str, Label, list[PublishedLine]]]:
    """Yield the title, the label dimension and the lines of each table.

    If there is only one metric, it moves into the title.
    """
    label: Label = "metric"
    heads = ("data", "setting")
    if len({line.metric for line in lines}) == 1:
        label, heads = "data", ("setting", "metric")
    blocks: dict[str, list[PublishedLine]] = {}
    for line in lines:
        title = ", ".join(filter(None, (getattr(line, head) for head in heads)))
        blocks.setdefault(title, []).append(line)
    for title, under_title in blocks.items():
        yield title, label, under_title


def _listed(notes: Sequence[str]) -> Grid:
    """Render the notes as a list, with differences highlighted."""
    grid = Grid.grid(padding=(0, 1))
    for note in notes:
        style = "dim"
        if note.partition(":")[0].endswith(DIFFERS):
            style = "yellow"
        grid.add_row("-", Text(one_line(note), style=style))
    return grid


def _published_grid(label: Label, lines: Sequence[PublishedLine], models: Sequence[str]) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in (label, "method", "editor"):
        grid.add_column(name, no_wrap=True, vertical="top")
    for name in ("run", "95 %", "n"):
        grid.add_column(name, justify="right", no_wrap=True)
    for name in models:
        grid.add_column(Text(name or "published"), justify="right", no_wrap=True)
    for name, grouped in groupby(lines, key=lambda line: str(getattr(line, label))):
        heading = name
        for line in grouped:
            figures = [Text(_published(line, model)) for model in models]
            grid.add_row(heading, *_names(line), *_ours(line), *figures)
            heading = ""
        grid.add_section()
    return grid


def _stacked(label: Label, lines: Sequence[PublishedLine], models: Sequence[str]) -> RenderableType:
    """Render each label with its methods, the published figures below the run's interval."""
    parts: list[RenderableType] = []
    for name, grouped in groupby(lines, key=lambda line: str(getattr(line, label))):
        grid = plain_grid("whole", "right")
        for line in grouped:
            value, interval, count = _ours(line)
            names = ": ".join(filter(None, (RUN_ONLY, _editor(line))))
            if line.method:
                names = " = ".join(filter(None, (line.method, _editor(line))))
            beside = []
            if line.editor:
                beside.append(Text("  ").join([interval, Text("n ").append(count)]))
            published = [model for model in models if model in line.published]
            figures = [f"{model} {_published(line, model)}".strip() for model in published]
            if figures:
                beside.append(Text(", ".join(figures)))
            grid.add_row(names, value, Group(*beside))
        parts += [Text(name), Padding(grid, (0, 0, 0, 2), expand=False)]
    return Group(*parts)


def _names(line: PublishedLine) -> tuple[Text, Text]:
    method, editor = Text(line.method), Text(_editor(line))
    if not line.method:
        method = Text(RUN_ONLY, style="dim")
    if not line.editor:
        editor = Text(PAPER_ONLY, style="dim")
    return method, editor


def _editor(line: PublishedLine) -> str:
    """Return the editor, with the run's setting if the paper names it differently."""
    text = line.editor
    if line.run_setting not in ("", line.setting):
        text += f" ({line.run_setting})"
    return one_line(text)


def _ours(line: PublishedLine) -> Iterator[Text]:
    """Yield the run's number, its interval, and its n."""
    decimals = DECIMALS.get(line.unit, 2)
    value, interval, count = DASH, "", ""
    if line.mean is not None:
        value = decimal(line.mean, decimals)
    if line.low is not None:
        interval = bounds(line.low, line.high, decimals).plain
    if line.n is not None:
        count = f"{line.n:,}"
        if line.published_n:
            count += f" / {line.published_n:,}"
    if line.unscored:
        count += f" ({line.unscored} unscored)"
    yield from map(Text, (value, interval, count))


def _published(line: PublishedLine, model: str) -> str:
    if model in line.published:
        return f"{line.published[model]:.{line.decimals}f}"
    if line.method:
        return DASH
    return ""


def against_part(folder: Path, name: str, scoring: str | None = None) -> ReportPart:
    """Return a report part with a run beside the published table of that name, such as `akew:2`.

    Raises:
        BadData: the folder has no run, or a line is damaged.
        BadSettings: the table or scoring does not exist, or the run measures none of its figures.
    """
    comparison = against(folder, name, scoring)
    return ReportPart(comparison.lines, partial(render_against, comparison))
