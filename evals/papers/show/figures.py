"""Rendering of a reproduced table in its paper's layout, or figure by figure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from emend.evals.papers.reproduce.collect import Figure
from emend.evals.papers.reproduce.needs import STATUSES
from emend.evals.papers.show.published import DASH, paper_grids
from emend.evals.papers.tables import Cell, PaperTable
from emend.evals.show.report.layout import INTERVALS, bounds, decimal, dim, plain_grid
from emend.memory.escape import one_line

# Names of the lines of a figure, shown beside each row of the table.
LINES = "paper\nrun\n95 %, n"
# Minimum width of an interval that is shown in whole numbers.
WIDE = 10.0


class FigureMarks:
    """Letters for notes on figures and for reasons of missing numbers.

    `common` holds the notes that all numbers share.
    """

    def __init__(self, figures: Sequence[Figure]) -> None:
        filled = [set(figure.notes) for figure in figures if figure.mean is not None]
        shared = set[str]()
        if filled:
            shared = set.intersection(*filled)
        every = [note for figure in figures for note in (*figure.notes, figure.reason) if note]
        self.common = [note for note in dict.fromkeys(every) if note in shared]
        others = [note for note in dict.fromkeys(every) if note not in shared]
        self.letters = {note: _letter(rank) for rank, note in enumerate(others)}

    def of(self, figure: Figure) -> str:
        """Return the letters of a figure, separated by commas."""
        notes = [figure.reason]
        if figure.mean is not None:
            notes = [*figure.notes, figure.reason]
        return ",".join(self.letters[note] for note in notes if note in self.letters)


def _letter(rank: int) -> str:
    """Return the letter of a note: a to z, aa, ab and so on.

    >>> [_letter(rank) for rank in (0, 25, 26)]
    ['a', 'z', 'aa']
    """
    before, last = divmod(rank, 26)
    letter = chr(ord("a") + last)
    if before:
        return _letter(before - 1) + letter
    return letter


def render_figures(
    table: PaperTable, figures: Sequence[Figure], console: Console
) -> RenderableType:
    """Render the table in its paper's layout, in chunks that fit the console, with notes below."""
    marks, by_key = FigureMarks(figures), {figure.cell.key(): figure for figure in figures}

    def text(cell: Cell | None) -> Text:
        if cell is None:
            return Text(DASH, style="dim")
        return _stacked(by_key[cell.key()], marks)

    part = table.part(figure.cell for figure in figures)
    notes = Table.grid(padding=(0, 1))
    for note, letter in marks.letters.items():
        notes.add_row(Text(letter, style="yellow"), Text(one_line(note)))
    common = [Text(f"everywhere: {one_line(note)}", style="yellow") for note in marks.common]
    return Group(
        Text(f"{table.id}  {table.caption}", style="bold"),
        *common,
        *paper_grids(part, text, console, LINES),
        notes,
        *dim(
            [
                *summary(figures),
                f"run: mean (run minus paper); {INTERVALS}; n: sample size of the run's figure",
            ]
        ),
    )


def _stacked(figure: Figure, marks: FigureMarks) -> Text:
    """Render the published figure above the run's, with difference, letters, interval and n."""
    text = Text(figure.cell.printed, style="dim")
    ours = Text(f"\n{number(figure)}", style="bold")
    if figure.difference is not None:
        ours.append(f" ({figure.difference:+.1f})", style="not bold dim")
    if letters := marks.of(figure):
        ours.append(f" {letters}", style="not bold yellow")
    return text.append_text(ours).append(f"\n{spread(figure)}", style="dim")


def number(figure: Figure) -> str:
    """Return the run's figure with meaningful decimals; a dash if there is none."""
    if figure.mean is None:
        return DASH
    if figure.cell.unit == "percent":
        return decimal(figure.mean, 1)
    return decimal(figure.mean, 2)


def spread(figure: Figure) -> str:
    """Return interval and n of a figure; empty without a number."""
    if figure.mean is None:
        return ""
    count = f"{figure.n or 0:,}"
    if figure.low is None:
        return count
    digits = 1
    if figure.high is not None and figure.high - figure.low >= WIDE:
        digits = 0
    return f"{bounds(figure.low, figure.high, digits).plain} {count}"


def summary(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield the number of figures with a number, the status of the others, and the presets used."""
    filled = sum(figure.mean is not None for figure in figures)
    counts = Counter(STATUSES[figure.status] for figure in figures if figure.mean is None)
    text = f"{filled} of {len(figures)} figures have a number"
    if counts:
        rest = ", ".join(f"{status}: {count}" for status, count in counts.items())
        text += f"; without one: {rest}"
    yield text
    presets = sorted({figure.preset for figure in figures} - {""})
    if not presets:
        yield "preset: none"
        return
    methods = dict.fromkeys(figure.cell.method for figure in figures if figure.preset)
    yield (f"preset: {', '.join(presets)}, for {', '.join(methods)}; others use Emend's settings")


def render_cells(figures: Sequence[Figure]) -> RenderableType:
    """Render the figures one by one, with their position and number or status."""
    grid = plain_grid("fold", "fold", "fold")
    for figure in figures:
        cell = figure.cell
        names = filter(None, (cell.model, cell.method, cell.data, cell.setting, cell.metric))
        grid.add_row(Text(", ".join(names)), Text(cell.printed, style="dim"), _outcome(figure))
    return Group(grid, *dim(summary(figures)))


def _outcome(figure: Figure) -> Text:
    """Return the run's number with its interval and notes, or its status."""
    if figure.mean is not None:
        text = Text(f"{number(figure)} {spread(figure)}")
        if figure.notes:
            text.append(f"\n{one_line('; '.join(figure.notes))}", "dim")
        return text
    status = STATUSES[figure.status]
    if figure.reason:
        status += f": {figure.reason}"
    if figure.status == "now":
        return Text(one_line(status))
    return Text(one_line(status), style="yellow")
