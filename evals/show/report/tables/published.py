"""A run beside a published table, for eyes."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from emend.evals.results.papers.compare_published import PublishedComparison, PublishedLine
from emend.evals.show.report.tables.layout import INTERVALS, bounds, decimal, dim, fits
from emend.evals.show.report.tables.papers import DASH
from emend.memory.escape import one_line

DECIMALS = {"percent": 1}
Label = Literal["metric", "data"]
DIFFERS = ("differs", "differ")
RUN_ONLY, PAPER_ONLY = "run only", "paper only"


def render_against(comparison: PublishedComparison, console: Console) -> RenderableType:
    """Differences of the runs, then a table per data and setting in the layout that fits the console."""
    parts: list[RenderableType] = [
        Text(one_line(f"{comparison.benchmark} run of {comparison.model} beside {comparison.table}"), style="bold"),
        Text(comparison.caption),
        _listed(comparison.notes),
    ]
    for title, label, lines in _blocks(comparison.lines):
        grid = _grid(label, lines, comparison.models)
        table = grid if fits(grid, console) else _stacked(label, lines, comparison.models)
        parts += [Text(""), Text(title, style="bold"), table]
    return Group(*parts, *dim([f"run: mean [{INTERVALS}]; n: of the run / of the paper"]))


def _blocks(lines: Sequence[PublishedLine]) -> Iterator[tuple[str, Label, list[PublishedLine]]]:
    """Title, what the lines are labelled by, and the lines of each table; one metric alone stands in the title."""
    label: Label = "metric" if len({line.metric for line in lines}) > 1 else "data"
    heads = ("data", "setting") if label == "metric" else ("setting", "metric")
    blocks: dict[str, list[PublishedLine]] = {}
    for line in lines:
        blocks.setdefault(", ".join(filter(None, (getattr(line, head) for head in heads))), []).append(line)
    for title, comparison in blocks.items():
        yield title, label, comparison


def _listed(notes: Sequence[str]) -> Grid:
    """The notes under each other; what differs stands out."""
    grid = Grid.grid(padding=(0, 1))
    for note in notes:
        differs = note.partition(":")[0].endswith(DIFFERS)
        grid.add_row("-", Text(one_line(note), style="yellow" if differs else "dim"))
    return grid


def _grid(label: Label, lines: Sequence[PublishedLine], models: Sequence[str]) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in (label, "method", "editor"):
        grid.add_column(name, no_wrap=True, vertical="top")
    for name in ("run", "95 %", "n"):
        grid.add_column(name, justify="right", no_wrap=True)
    for name in models:
        grid.add_column(Text(name or "published"), justify="right", no_wrap=True)
    for name, grouped in groupby(lines, key=lambda line: str(getattr(line, label))):
        for place, line in enumerate(grouped):
            figures = [Text(_published(line, model)) for model in models]
            grid.add_row("" if place else name, *_names(line), *_ours(line), *figures)
        grid.add_section()
    return grid


def _stacked(label: Label, lines: Sequence[PublishedLine], models: Sequence[str]) -> RenderableType:
    """Label by label: the method, the run's number, and under its interval the published ones."""
    parts: list[RenderableType] = []
    for name, grouped in groupby(lines, key=lambda line: str(getattr(line, label))):
        grid = Grid.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column()
        for line in grouped:
            value, interval, count = _ours(line)
            names = filter(None, (line.method or RUN_ONLY, _editor(line)))
            ours = [Text("  ").join([interval, Text("n ").append(count)])] if line.editor else []
            figures = [f"{model} {_published(line, model)}".strip() for model in models if model in line.published]
            theirs = [Text(", ".join(figures))] if figures else []
            grid.add_row(" = ".join(names) if line.method else ": ".join(names), value, Group(*ours, *theirs))
        parts += [Text(name), Padding(grid, (0, 0, 0, 2), expand=False)]
    return Group(*parts)


def _names(line: PublishedLine) -> tuple[Text, Text]:
    method = Text(line.method) if line.method else Text(RUN_ONLY, style="dim")
    editor = Text(_editor(line)) if line.editor else Text(PAPER_ONLY, style="dim")
    return method, editor


def _editor(line: PublishedLine) -> str:
    """The editor, and what it was given where the paper has another name for that."""
    text = f"{line.editor} ({line.run_setting})" if line.run_setting not in ("", line.setting) else line.editor
    return one_line(text)


def _ours(line: PublishedLine) -> Iterator[Text]:
    """The run's number, its interval, and what it is over."""
    decimals = DECIMALS.get(line.unit, 2)
    yield Text(DASH if line.mean is None else decimal(line.mean, decimals))
    yield Text("" if line.low is None else bounds(line.low, line.high, decimals).plain)
    text = "" if line.n is None else f"{line.n:,}" + (f" / {line.published_n:,}" if line.published_n else "")
    yield Text(text + (f" ({line.unscored} unscored)" if line.unscored else ""))


def _published(line: PublishedLine, model: str) -> str:
    if model in line.published:
        return f"{line.published[model]:.{line.decimals}f}"
    return DASH if line.method else ""
