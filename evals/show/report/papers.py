"""Published tables for eyes: the list of them, one in its paper's shape, and a run beside one."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Literal

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from emend.evals.results.papers.compare_published import PublishedComparison, PublishedLine
from emend.evals.results.papers.tables import Cell, Disagreement, Paper, PaperTable, known_disagreements, paper
from emend.evals.show.report.layout import INTERVALS, bounds, decimal, dim, fits, plain_grid
from emend.memory.escape import one_line

DASH, DOUBT = "—", "!"
Key = tuple[str, ...]


def show_list(papers: list[Paper], console: Console) -> None:
    """Print which tables there are."""
    for number, match in enumerate(papers):
        grid = plain_grid("whole", "right")
        for item in match.tables:
            cells = f"{len(item.cells)} cells" if item.cells else "no figures"
            grid.add_row(Text(item.id), Text(cells, style="dim"), Text(item.caption))
        listed = Padding(grid, (0, 0, 0, 2), expand=False)
        console.print(*([""] if number else []), Text(match.citation, style="bold"), listed, sep="\n")


def render_paper_table(table: PaperTable, console: Console) -> RenderableType:
    """The table with caption and notes; where it is too wide, its groups of columns stand under each other."""
    doubts = [match for match in known_disagreements() if (match.paper, match.table) == (table.paper, table.number)]
    title = Text(f"{table.id}  {table.caption}", style="bold")
    parts: list[RenderableType] = [title.append(_units(table), style="not bold dim")]
    doubted: set[Key] = {(m.model, m.method, m.data, m.setting, m.metric) for m in doubts}
    parts += paper_grids(table, lambda cell: _figure(cell, doubted), console)
    illegible = (f"not legible: {text}" for text in table.not_legible)
    notes = [*table.notes, *illegible, *(_told(match, table) for match in doubts)]
    return Group(*parts, *dim([*notes, paper(table.paper).citation]))


def paper_grids(
    table: PaperTable, figure: Callable[[Cell | None], Text], console: Console, lines: str = ""
) -> list[Grid]:
    """The table in its paper's shape, in as few grids as the width allows.

    Args:
        table: the published table.
        figure: text of a figure; None for a dash.
        console: where it is to be printed.
        lines: what the lines of a figure's text are, beside each row; empty where that need not be said.
    """

    def grid(columns: list[Key]) -> Grid:
        return _grid(table, columns, figure, lines)

    return [grid(columns) for columns in _chunks(table, grid, console)] if table.cells else []


def _chunks(table: PaperTable, grid: Callable[[list[Key]], Grid], console: Console) -> Iterator[list[Key]]:
    """The columns in as few tables as the width allows; what stands under one heading stays together if it can."""
    groups = [list(keys) for _, keys in groupby(table.keys(table.columns), key=lambda key: key[:-1] or key)]
    columns_so_far: list[Key] = []
    for group in groups:
        whole = fits(grid(group), console)
        for columns in [group] if whole else [[key] for key in group]:
            if columns_so_far and not fits(grid([*columns_so_far, *columns]), console):
                yield columns_so_far
                columns_so_far = []
            columns_so_far += columns
    yield columns_so_far


def _grid(table: PaperTable, columns: list[Key], figure: Callable[[Cell | None], Text], lines: str) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="bold")
    for name in table.rows:
        grid.add_column(
            "kind" if table.rows == ("metric",) else name, no_wrap=True, vertical="top" if lines else "bottom"
        )
    if lines:
        grid.add_column("", no_wrap=True, style="dim")
    before: Key = ()
    for key in columns:
        heading = ["" if key[: n + 1] == before[: n + 1] and n < len(key) - 1 else part for n, part in enumerate(key)]
        grid.add_column(Text("\n".join(heading)), justify="right", no_wrap=True)
        before = key
    cells = {cell.key(table.rows) + cell.key(table.columns): cell for cell in table.cells}
    last: Key = ()
    for row in table.keys(table.rows):
        if last and len(row) > 1 and row[0] != last[0]:
            grid.add_section()
        heads = ["" if row[: n + 1] == last[: n + 1] and n < len(row) - 1 else part for n, part in enumerate(row)]
        labels = [lines] if lines else []
        grid.add_row(*map(Text, heads), *labels, *(figure(cells.get(row + key)) for key in columns))
        last = row
    return grid


def _figure(cell: Cell | None, doubted: set[Key]) -> Text:
    if cell is None:
        return Text(DASH, style="dim")
    text = Text(cell.printed)
    if cell.drop is not None:
        text.append(f"↓{cell.drop}%".rjust(6), style="dim")
    return text.append(DOUBT, style="yellow") if cell.key() in doubted else text


def _told(match: Disagreement, table: PaperTable) -> str:
    where = ", ".join(getattr(match, name) for name in (*table.rows, *table.columns))
    whence = {"repeat": "another table has", "average": "its parts average to"}.get(match.check, "the rest gives")
    return f"{DOUBT} {where}: printed {match.printed:g}, {whence} {match.computed:g}"


def _units(table: PaperTable) -> str:
    """The usual unit of the table, and the metrics with another one."""
    usual = Counter(cell.unit for cell in table.cells).most_common(1)
    others = {cell.metric: cell.unit for cell in table.cells if cell.unit != usual[0][0]}
    text = [usual[0][0], *(f"{metric}: {unit}" for metric, unit in others.items())] if usual else []
    return f" ({'; '.join(text)})" if text else ""


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
        grid = _published_grid(label, lines, comparison.models)
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


def _published_grid(label: Label, lines: Sequence[PublishedLine], models: Sequence[str]) -> Grid:
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
        grid = plain_grid("whole", "right")
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
