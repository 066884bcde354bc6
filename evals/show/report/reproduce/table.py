"""A reproduced table: each published figure with the run's beside it, for eyes and for other programs."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from emend.evals.results.papers.tables import Cell, PaperTable
from emend.evals.results.reproduce.collect import Figure
from emend.evals.results.reproduce.needs import STATUSES
from emend.evals.show.report.tables.layout import INTERVALS, bounds, decimal, dim
from emend.evals.show.report.tables.papers import DASH, paper_grids
from emend.memory.escape import one_line

LINES = "paper\nrun\n95 %, n"
WIDE = 10.0
"""An interval that is at least so wide is text in whole numbers."""


class FigureMarks:
    """Letters for what is not alike, or for why there is no number; `common` is what holds for every number."""

    def __init__(self, figures: Sequence[Figure]) -> None:
        filled = [set(figure.notes) for figure in figures if figure.mean is not None]
        shared: set[str] = set.intersection(*filled) if filled else set()
        every = [note for figure in figures for note in (*figure.notes, figure.reason) if note]
        self.common = [note for note in dict.fromkeys(every) if note in shared]
        self.letters = {
            note: _letter(place) for place, note in enumerate(n for n in dict.fromkeys(every) if n not in shared)
        }

    def of(self, figure: Figure) -> str:
        """Letters of a figure, with commas."""
        notes = figure.notes if figure.mean is not None else ()
        return ",".join(self.letters[note] for note in (*notes, figure.reason) if note in self.letters)


def _letter(place: int) -> str:
    """Letter of a note: a to z, aa, ab and so on.

    >>> [_letter(place) for place in (0, 25, 26)]
    ['a', 'z', 'aa']
    """
    return (_letter(place // 26 - 1) if place >= 26 else "") + chr(ord("a") + place % 26)


def render_figures(table: PaperTable, figures: Sequence[Figure], console: Console) -> RenderableType:
    """The table in its paper's shape, in chunks that fit the console, with what is not alike below."""
    marks, by_key = FigureMarks(figures), {figure.cell.key(): figure for figure in figures}

    def text(cell: Cell | None) -> Text:
        return Text(DASH, style="dim") if cell is None else _stacked(by_key[cell.key()], marks)

    part = table.part(figure.cell for figure in figures)
    notes = Grid.grid(padding=(0, 1))
    for note, letter in marks.letters.items():
        notes.add_row(Text(letter, style="yellow"), Text(one_line(note)))
    common = [Text(f"everywhere: {one_line(note)}", style="yellow") for note in marks.common]
    return Group(
        Text(f"{table.id}  {table.caption}", style="bold"),
        *common,
        *paper_grids(part, text, console, LINES),
        notes,
        *dim([*summary(figures), f"run: mean (run less paper); {INTERVALS}; n: what the run's figure is over"]),
    )


def _stacked(figure: Figure, marks: FigureMarks) -> Text:
    """Published figure, the run's with its difference and letters, and its interval and n, under each other."""
    text = Text(figure.cell.printed, style="dim")
    ours = Text("\n" + (DASH if figure.mean is None else number(figure)), style="bold")
    if figure.difference is not None:
        ours.append(f" ({figure.difference:+.1f})", style="not bold dim")
    ours.append(f" {letters}" if (letters := marks.of(figure)) else "", style="not bold yellow")
    return text.append_text(ours).append(f"\n{spread(figure)}", style="dim")


def number(figure: Figure) -> str:
    """The run's figure with the decimals that say something."""
    return decimal(figure.mean, 1 if figure.cell.unit == "percent" else 2)


def spread(figure: Figure) -> str:
    """Interval and n of a figure; empty without a number."""
    if figure.mean is None:
        return ""
    digits = 0 if figure.low is not None and figure.high is not None and figure.high - figure.low >= WIDE else 1
    interval = "" if figure.low is None else bounds(figure.low, figure.high, digits).plain + " "
    return f"{interval}{figure.n or 0:,}"


def summary(figures: Sequence[Figure]) -> Iterator[str]:
    """How many figures have a number, the status of the others, and which methods a preset sets up."""
    filled = sum(figure.mean is not None for figure in figures)
    counts = Counter(STATUSES[figure.status] for figure in figures if figure.mean is None)
    rest = ", ".join(f"{status}: {count}" for status, count in counts.items())
    yield f"{filled} of {len(figures)} figures have a number" + (f"; without one: {rest}" if rest else "")
    methods = dict.fromkeys(figure.cell.method for figure in figures if figure.preset)
    names = ", ".join(sorted({figure.preset for figure in figures} - {""})) or "none"
    yield f"preset: {names}" + (f", for {', '.join(methods)}; the others have Emend's settings" if methods else "")


def render_cells(figures: Sequence[Figure]) -> RenderableType:
    """The figures one by one: where each stands in the table, and its number, or whether it can be run."""
    grid = Grid.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column(overflow="fold")
    for figure in figures:
        cell = figure.cell
        place = ", ".join(filter(None, (cell.model, cell.method, cell.data, cell.setting, cell.metric)))
        status = STATUSES[figure.status] + (f": {figure.reason}" if figure.reason else "")
        ours = f"{number(figure)} {spread(figure)}" if figure.mean is not None else status
        notes = "; ".join(figure.notes) if figure.mean is not None else ""
        text = Text(one_line(ours), style="" if figure.mean is not None or figure.status == "now" else "yellow")
        grid.add_row(
            Text(place), Text(cell.printed, style="dim"), text.append(f"\n{one_line(notes)}" if notes else "", "dim")
        )
    return Group(grid, *dim(summary(figures)))
