"""A reproduced table, for eyes and for other programs, what a run or a recipe is expected to need, and coverage."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from emend.agents.llm import is_local_spec
from emend.agents.weight_differences import difference_remedy
from emend.editors.device_speed import device_speed
from emend.evals.config.run_config import MODEL
from emend.evals.results.dry_run import (
    COUNTS,
    HOPS,
    REPLY_SHARE,
    SECONDS_PER_CALL,
    SPREAD,
    UNTAUGHT,
    DryRun,
    parameters_of,
)
from emend.evals.results.papers.tables import Cell, PaperTable, gpu_gigabytes, paper_models
from emend.evals.results.papers.tables import table as find_table
from emend.evals.results.reproduce.collect import Figure
from emend.evals.results.reproduce.execute import RecipeEstimate, title
from emend.evals.results.reproduce.needs import EXECUTABLE, METHOD, STATUSES, CoverageRow, status_counts
from emend.evals.show.report.export import TextTable, check_form, csv_text, latex_text, markdown_text
from emend.evals.show.report.layout import INTERVALS, bounds, decimal, dim, frame, plain_grid
from emend.evals.show.report.papers import DASH, paper_grids
from emend.evals.show.report.progress import duration
from emend.memory.escape import one_line


def _dry_run_time(estimate: DryRun) -> str:
    """Format the time of a run: of a local model as a range."""
    if estimate.seconds is None:
        return ""
    if is_local_spec(estimate.model):
        low, high = duration(estimate.seconds / SPREAD), duration(estimate.seconds * SPREAD)
        return f", {low} to {high} at the speed of this machine now"
    return f", {estimate.seconds / 60:,.0f} min at {SECONDS_PER_CALL:g} s a call"


def dry_run_lines(estimate: DryRun) -> list[str]:
    """Format an estimate, and what it assumes."""
    lines = [f"{estimate.model}: nothing is asked in a dry run"]
    for row in estimate.rows:
        place = (
            f"  {row.setting}, {row.editor}: {row.units:,} units"
            if row.setting
            else "  unedited answers, to compare with:"
        )
        lines.append(f"{place}, {amounts(row.calls, row.input_tokens, row.output_tokens)}".replace(":,", ":"))
    lines += [f"  {line}" for line in estimate.needs]
    whole = f"{estimate.total('units'):,} units, {amounts(*map(estimate.total, COUNTS))}"
    unknown = "" if is_local_spec(estimate.model) else " (give one with --prices FILE)"
    cost = f"no price{unknown}" if estimate.cost is None else f"{estimate.cost:,.2f} {estimate.currency}"
    lines.append(f"  in all: {whole}, {cost}{_dry_run_time(estimate)}")
    replies = "replies as long as the benchmark's answers"
    if is_local_spec(estimate.model):
        replies = (
            f"replies of {REPLY_SHARE:.0%} of their limit, {UNTAUGHT * REPLY_SHARE:.0%} without an edit in the prompt"
        )
    lines.append(
        f"  Units are counted; the rest is estimated from {estimate.sample}: 4 characters a token, "
        f"{replies}, {HOPS} subquestions for mello, one tool for agent; no thoughts, retries or cache."
    )
    return lines


def amounts(calls: int, tokens_in: int, tokens_out: int) -> str:
    """Format numbers of calls and tokens."""
    return f"{calls:,} calls, {tokens_in:,} tokens in, {tokens_out:,} out"


def render_coverage(rows: Sequence[CoverageRow]) -> RenderableType:
    """A line for each table and reason, and the sums."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("table", no_wrap=True)
    table.add_column("figures", justify="right", no_wrap=True)
    table.add_column("status, and why", overflow="fold")
    for row, before in zip(rows, (None, *rows), strict=False):
        status = Text(STATUSES[row.status]).append(f": {row.reason}" if row.reason else "", style="dim")
        table.add_row("" if before and before.table == row.table else row.table, f"{row.figures:,}", status)
    sums = status_counts(rows)
    lines = [Text(f"{sums[status]:>7,}  {text}") for status, text in STATUSES.items()]
    executable = sum(sums[status] for status in EXECUTABLE)
    whole = (
        f"{executable:,} of {sum(sums.values()):,} figures can be run, now or with an option, with the papers' models "
        f"on one GPU of {gpu_gigabytes():.0f} GB"
    )
    return Group(table, *lines, Text(whole, style="bold"), Text(), _models({row.table for row in rows}))


def _models(names: Collection[str]) -> RenderableType:
    """A line for each open model of these tables: what is known of its weights."""
    used = dict.fromkeys(cell.model for name in sorted(names) for cell in find_table(name).cells)
    grid = Table.grid(padding=(0, 2))
    for name in used:
        model = paper_models().get(name)
        if model is not None and model.hub:
            parts = (f"{model.parameters} billion parameters", model.card, difference_remedy(model.hub))
            grid.add_row(Text(name), Text(model.hub), Text("; ".join(filter(None, parts)), style="dim"))
    return grid


def render_estimate(estimated: RecipeEstimate) -> RenderableType:
    """A line for each run with what is left of it, and the sums."""
    table = frame("run", "units", "calls", "tokens in", "out")
    for each in estimated.runs:
        counts = [f"{each.need.total(name):,}" for name in COUNTS] if each.need and each.left else ["", "", ""]
        table.add(title(each.config), "refused" if each.error else f"{each.left:,}" if each.left else "done", *counts)
    return Group(*[table] * bool(estimated.runs), *(Text(one_line(line)) for line in estimate_lines(estimated)))


def estimate_lines(estimated: RecipeEstimate) -> Iterator[str]:
    """Format the sums of an estimate, what is made before the runs, and why runs cannot be run."""
    needs = [each.need for each in estimated.runs if each.need]
    units, costs = sum(each.left for each in estimated.runs), [need.cost for need in needs if need.cost is not None]
    price = f"; {sum(costs):,.2f} {needs[0].currency}" if costs else "; no price: give --prices FILE"
    counts = amounts(*(sum(need.total(name) for need in needs) for name in COUNTS))
    number = "1 run" if len(estimated.runs) == 1 else f"{len(estimated.runs)} runs"
    yield f"{number}, {units:,} units to do, {counts}{price if estimated.is_paid else ''}"
    for file, count in estimated.documents.items():
        model = estimated.extract[file].get(MODEL)
        how = f"{model}, a call each or more" if model else estimated.extract[file][METHOD]
        yield f"before them: triplets of {count:,} documents into {file} by {how}, as far as they are not there"
    if sizes := [each.gigabytes for each in estimated.runs if each.left and each.gigabytes is not None]:
        fit = "more than" if max(sizes) > gpu_gigabytes() else "within"
        yield f"GPU memory: up to about {max(sizes):.0f} GB, {fit} the {gpu_gigabytes():.0f} GB of one GPU"
    if units:
        yield f"time: {_time_text(estimated)}"
    yield from (f"no run gives {count:,} figures: {reason}" for reason, count in estimated.left_out.items())
    firsts = {each.error: title(each.config) for each in reversed(estimated.runs) if each.error}
    yield from (f"cannot be run: {name}: {error}" for error, name in firsts.items())


def _time_text(estimated: RecipeEstimate) -> str:
    """Format the time of what is left, and what it rests on."""
    if estimated.seconds is None:
        return "unknown until some units of each model are finished; the same command with --dry-run says it then"
    text = f"about {duration(estimated.seconds)}"
    if measured := sum(each.measured for each in estimated.runs):
        return f"{text}, at the pace of the {measured:,} units that are finished"
    models = [each.config.model for each in estimated.runs if is_local_spec(each.config.model)]
    local = parameters_of(models[0]) if models else None
    if local is None:
        return text
    speed = device_speed(local)
    text = f"{duration(estimated.seconds / SPREAD)} to {duration(estimated.seconds * SPREAD)}"
    return (
        f"{text}; a rough estimate, of the models' sizes and the {2e-9 * local / speed.reading:,.0f} GFLOP/s that this "
        f"machine's {speed.device} reaches; --dry-run says the measured pace once units are finished"
    )


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
    notes = Table.grid(padding=(0, 1))
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
    grid = plain_grid("fold", "fold", "fold")
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


FORMS = ["csv", "markdown", "latex"]


def rows(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The figures as rows for JSON and CSV."""
    listed = []
    for figure in figures:
        fields = figure.model_dump(exclude={"cell", "notes"})
        extra = {"run_model": fields.pop("model"), "difference": figure.difference, "notes": "; ".join(figure.notes)}
        listed.append(figure.cell.model_dump(exclude={"drop"}) | fields | extra)
    return listed


def export(table: PaperTable, figures: Sequence[Figure], form: str) -> str:
    """The table as text: `csv` with a line for each figure, `markdown` and `latex` in the paper's shape.

    Raises:
        BadSettings: there is no such form.
    """
    check_form(form, FORMS)
    if form != "csv":
        return (markdown_text if form == "markdown" else latex_text)(_texts(table, figures))
    listed = rows(figures)
    return csv_text(list(listed[0]) if listed else [], listed)


def _texts(table: PaperTable, figures: Sequence[Figure]) -> TextTable:
    """For each row of the paper a row with its figures and one with the run's, and what is not alike."""
    part, marks = table.part(figure.cell for figure in figures), FigureMarks(figures)
    columns = part.keys(part.columns)
    by_place = {(figure.cell.key(part.rows), figure.cell.key(part.columns)): figure for figure in figures}
    heads = [[*([""] * len(part.rows)), "", *(key[depth] for key in columns)] for depth in range(len(part.columns))]
    heads[-1][: len(part.rows)] = part.rows
    lines = []
    for row in part.keys(part.rows):
        in_row = [by_place.get((row, key)) for key in columns]
        lines.append([*row, "paper", *(figure.cell.printed if figure else "" for figure in in_row)])
        lines.append([*([""] * len(row)), "run", *(_number(figure, marks) if figure else "" for figure in in_row)])
    notes = [
        *(f"everywhere: {note}" for note in marks.common),
        *(f"({letter}) {note}" for note, letter in marks.letters.items()),
        *summary(figures),
        INTERVALS,
    ]
    return TextTable(f"{table.id}: {table.caption}", heads, lines, len(part.rows) + 1, list(map(one_line, notes)))


def _number(figure: Figure, marks: FigureMarks) -> str:
    letters = f"({marks.of(figure)})" if marks.of(figure) else ""
    return " ".join(filter(None, (DASH if figure.mean is None else number(figure), letters, spread(figure))))
