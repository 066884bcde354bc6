"""Published tables for eyes: the list of them, and one in its paper's shape."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from emend.evals.results.papers.tables import Cell, Disagreement, Paper, PaperTable, known_disagreements, paper
from emend.evals.show.report.tables.layout import dim, fits

DASH, DOUBT = "—", "!"
Key = tuple[str, ...]


def show_list(papers: list[Paper], console: Console) -> None:
    """Print which tables there are."""
    for number, match in enumerate(papers):
        grid = Grid.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column()
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
    doubted = {_key(match) for match in doubts}
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


def _key(match: Disagreement) -> Key:
    return (match.model, match.method, match.data, match.setting, match.metric)


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
