"""Rendering of published tables, as a list or as one table in its paper's layout."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from rich import box
from rich.align import VerticalAlignMethod
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from emend.evals.papers.tables import (
    Cell,
    Disagreement,
    Paper,
    PaperTable,
    known_disagreements,
    paper,
)
from emend.evals.show.report.layout import dim, fits, plain_grid

# Marks of a missing figure, and of one that contradicts others of its paper.
DASH, DOUBT = "—", "!"
Key = tuple[str, ...]


def show_list(papers: list[Paper], console: Console) -> None:
    """Print the list of tables."""
    for number, match in enumerate(papers):
        grid = plain_grid("whole", "right")
        for item in match.tables:
            cells = "no figures"
            if item.cells:
                cells = f"{len(item.cells)} cells"
            grid.add_row(Text(item.id), Text(cells, style="dim"), Text(item.caption))
        if number:
            console.print()
        console.print(Text(match.citation, style="bold"))
        console.print(Padding(grid, (0, 0, 0, 2), expand=False))
    first = papers[0].tables[0].id
    console.print("\nNext")
    console.print(f"  emend reproduce {first} --published  the published figures", highlight=False)
    rerun = f"emend reproduce {first} --model MODEL --limit 20 --dry-run"
    console.print(f"  {rerun}  what a rerun takes", highlight=False)


def render_paper_table(table: PaperTable, console: Console) -> RenderableType:
    """Render the table with caption and notes; column groups are stacked if it is too wide."""
    doubts = [
        match
        for match in known_disagreements()
        if (match.paper, match.table) == (table.paper, table.number)
    ]
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
    """Return the table in its paper's layout, in as few grids as the width allows.

    Args:
        table: the published table.
        figure: returns the text of a figure; None stands for a dash.
        console: console that it is printed on.
        lines: names of the lines of a figure's text, shown beside each row; empty to omit them.
    """

    def grid(columns: list[Key]) -> Grid:
        return _grid(table, columns, figure, lines)

    if table.cells:
        return [grid(columns) for columns in _chunks(table, grid, console)]
    return []


def _chunks(
    table: PaperTable, grid: Callable[[list[Key]], Grid], console: Console
) -> Iterator[list[Key]]:
    """Yield the columns in as few groups as the width allows.

    Columns under one heading stay together if possible.
    """
    columns_so_far: list[Key] = []
    for _, keys in groupby(table.keys(table.columns), key=lambda key: key[:-1] or key):
        together = list(keys)
        pieces = [together]
        if not fits(grid(together), console):
            pieces = [[key] for key in together]
        for columns in pieces:
            if columns_so_far and not fits(grid([*columns_so_far, *columns]), console):
                yield columns_so_far
                columns_so_far = []
            columns_so_far += columns
    yield columns_so_far


def _grid(
    table: PaperTable, columns: list[Key], figure: Callable[[Cell | None], Text], lines: str
) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="bold")
    names: Sequence[str] = table.rows
    if table.rows == ("metric",):
        names = ("kind",)
    labels: list[str] = []
    vertical: VerticalAlignMethod = "bottom"
    if lines:
        labels, vertical = [lines], "top"
    for name in names:
        grid.add_column(name, no_wrap=True, vertical=vertical)
    if lines:
        grid.add_column("", no_wrap=True, style="dim")
    before: Key = ()
    for key in columns:
        heading = _without_repeats(key, before)
        grid.add_column(Text("\n".join(heading)), justify="right", no_wrap=True)
        before = key
    cells = {cell.key(table.rows) + cell.key(table.columns): cell for cell in table.cells}
    last: Key = ()
    for row in table.keys(table.rows):
        if last and len(row) > 1 and row[0] != last[0]:
            grid.add_section()
        heads = _without_repeats(row, last)
        grid.add_row(*map(Text, heads), *labels, *(figure(cells.get(row + key)) for key in columns))
        last = row
    return grid


def _without_repeats(key: Key, before: Key) -> list[str]:
    """Return a heading without the names that it shares with the previous one, except its last.

    >>> _without_repeats(("GPT-J", "ROME"), ("GPT-J", "FT"))
    ['', 'ROME']
    """
    names = list(key)
    for position in range(len(key) - 1):
        if key[: position + 1] == before[: position + 1]:
            names[position] = ""
    return names


def _figure(cell: Cell | None, doubted: set[Key]) -> Text:
    if cell is None:
        return Text(DASH, style="dim")
    text = Text(cell.printed)
    if cell.drop is not None:
        text.append(f"↓{cell.drop}%".rjust(6), style="dim")
    if cell.key() in doubted:
        return text.append(DOUBT, style="yellow")
    return text


def _told(match: Disagreement, table: PaperTable) -> str:
    where = ", ".join(getattr(match, name) for name in (*table.rows, *table.columns))
    whence = {"repeat": "another table has", "average": "its parts average to"}.get(
        match.check, "the rest gives"
    )
    return f"{DOUBT} {where}: printed {match.printed:g}, {whence} {match.computed:g}"


def _units(table: PaperTable) -> str:
    """Return the usual unit of the table, and the metrics with another unit."""
    usual = Counter(cell.unit for cell in table.cells).most_common(1)
    others = {cell.metric: cell.unit for cell in table.cells if cell.unit != usual[0][0]}
    if not usual:
        return ""
    units = [usual[0][0], *(f"{metric}: {unit}" for metric, unit in others.items())]
    return f" ({'; '.join(units)})"
