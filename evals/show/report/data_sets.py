"""Tables and progress bars of the `emend data` commands."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from tqdm import tqdm

from emend.evals.data.check import FolderCheck
from emend.evals.data.data_table import DataFigure, DataTable
from emend.evals.data.download import LEDGER, DataSource, Made, Remote, Report
from emend.evals.data.pull import Outcome
from emend.evals.show.report.layout import dim, frame
from emend.memory.escape import one_line

MARK = "*"
STYLES = {
    "failed": "bold red",
    "changed": "bold red",
    "not the published one": "yellow",
    "kept": "yellow",
    "fetched": "green",
    "made": "green",
}


@contextmanager
def download_bar(name: str, size: int | None) -> Iterator[Report]:
    """Show a progress bar on standard error: live on a terminal, else a line every 5 seconds."""
    pause = {} if sys.stderr.isatty() else {"delay": 5.0, "mininterval": 5.0}
    with tqdm(desc=name, total=size, unit="B", unit_scale=True, leave=False, **pause) as bar:

        def report(size: int, total: int | None) -> None:
            bar.total = total
            bar.update(size - bar.n)

        yield report


def rows_of(sources: Sequence[DataSource]) -> list[dict[str, object]]:
    """Return a JSON row for each file of the sources."""
    rows: list[dict[str, object]] = []
    for source in sources:
        files: tuple[Remote | Made, ...] = (*source.remotes, *source.derived)
        rows += [
            {"data": source.name, **file.model_dump(), "pinned": _pinned(file)} for file in files
        ]
    return rows


def show_sources(sources: Sequence[DataSource], console: Console) -> None:
    """Print the data sets, their origins with licences, and the files of each origin."""
    for source in sources:
        console.print(Text(source.name, style="bold"))
        for origin, files in _by_origin(source):
            console.print(_indented(origin))
            _grid(
                console,
                ((file.name, _size(file.size), file.commit[:12], _pinned(file)) for file in files),
            )
        for derived in source.derived:
            console.print(_indented(f"{derived.name} is derived from {', '.join(derived.inputs)}"))
        console.print(*(_indented(note, "dim") for note in source.notes), "", sep="\n")
    console.print(
        "Fetch one with: emend data pull NAME. If no checksum is known, that of the first download "
        "is recorded."
    )


def show_licences(source: DataSource, folder: Path, console: Console) -> None:
    """Print the origins and licences of the files before they are downloaded."""
    console.print(
        Text(
            f"{source.name}: {len(source.remotes)} files into {one_line(str(folder))}", style="bold"
        )
    )
    for origin, files in _by_origin(source):
        console.print(_indented(f"{len(files)} from {origin}"))


def show_outcomes(
    source: DataSource, outcomes: Sequence[Outcome], folder: Path, console: Console
) -> None:
    """Print the outcome of each file, and the notes of the source."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right")
    for outcome in outcomes:
        status = Text(outcome.status, style=STYLES.get(outcome.status, ""))
        size = _size(outcome.bytes) if outcome.sha256 else ""
        table.add_row(
            status,
            Text(outcome.name),
            Text(size, justify="right"),
            Text(_sum(outcome), style="dim"),
        )
    console.print(table, *dim(f"note: {note}" for note in source.notes), sep="\n")
    if (folder / LEDGER).is_file():
        console.print(
            Text(f"Sources and licences are recorded in {one_line(str(folder / LEDGER))}.")
        )


def show_checked(checked: FolderCheck, console: Console) -> None:
    """Print the files, their faults, and counts of records that loaders drop, repair and tag."""
    console.print(Text(f"{checked.data} in {one_line(checked.folder)}", style="bold"))
    table = frame("file", "records", "faults", "checksum")
    for file in checked.files:
        records = "absent" if file.absent else "" if file.records is None else f"{file.records:,}"
        faults = Text(
            "" if file.absent else f"{file.faults:,}", style="bold red" if file.faults else ""
        )
        table.add(
            file.name, records, faults, Text(file.checksum, style=STYLES.get(file.checksum, "dim"))
        )
    console.print(table)
    for fault in checked.faults:
        record = fault.record if fault.record.startswith("id ") else f"record {fault.record}"
        place = [
            fault.file,
            *([record] if fault.record else []),
            *([f"field '{fault.field}'"] if fault.field else []),
        ]
        value = f"; value {fault.value}" if fault.value else ""
        console.print(Text(one_line(f"{', '.join(place)}: {fault.problem}{value}")), soft_wrap=True)
    for reading, counts in groupby((c for c in checked.counts if c[2]), key=lambda count: count[0]):
        console.print(Text(f"read with {reading}" if reading else "read as usual", style="bold"))
        _grid(console, ((f"{count:>7,}", one_line(what)) for _, what, count in counts))
    total = len(checked.faults)
    summary = f"{total:,} fault{'s' * (total != 1)}" if total else "no faults"
    console.print(Text(summary, style="bold red" if total else "bold green"))


def show_tables(tables: Iterable[DataTable], console: Console) -> None:
    """Print tables one below the other."""
    for number, table in enumerate(tables):
        if number:
            console.print()
        show_table(table, console)


def show_table(table: DataTable, console: Console) -> None:
    """Print a table in the layout of the paper, with the paper's figures below ours."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("", no_wrap=True)
    grid.add_column("")
    for column in table.columns:
        grid.add_column(column, justify="right")
    for row in table.rows:
        cells = [table.cell(row, column) for column in table.columns]
        grid.add_row(Text(row), Text("here"), *map(_here, cells))
        if any(cell.paper is not None for cell in cells):
            grid.add_row("", *dim(["paper", *(f"{cell.text(cell.paper)} " for cell in cells)]))
    marked = [f"{MARK} differs from the published number"] * any(
        figure.agrees is False for figure in table.figures
    )
    console.print(Text(table.title, style="bold"), grid, *dim([*marked, *table.notes]), sep="\n")


def _here(cell: DataFigure) -> Text:
    style = {True: "green", False: "yellow", None: ""}[cell.agrees]
    return Text(cell.text(cell.here) + (MARK if cell.agrees is False else " "), style=style)


def _by_origin(source: DataSource) -> Iterator[tuple[str, list[Remote]]]:
    """Yield each origin with its licence, and its files."""
    for origin, files in groupby(
        source.remotes, key=lambda f: (f.repository or f.url.rpartition("/")[0], f.licence)
    ):
        yield "; licence: ".join(origin), list(files)


def _indented(line: str, style: str = "") -> Padding:
    return Padding(Text(line, style=style), (0, 0, 0, 2), expand=False)


def _grid(console: Console, lines: Iterable[tuple[str, ...]]) -> None:
    table = Table.grid(padding=(0, 2))
    for line in lines:
        table.add_row(*map(Text, line))
    console.print(Padding(table, (0, 0, 0, 4), expand=False))


def _pinned(file: Remote | Made) -> str:
    if isinstance(file, Made):
        return "made"
    return "checksum" if file.digest else "commit" if file.commit else "address only"


def _sum(outcome: Outcome) -> str:
    if not outcome.sha256:
        return ""
    known = "checksum agrees" if outcome.pinned else "no known checksum: recorded"
    return (
        f"sha256 {outcome.sha256[:12]}  "
        f"{'yours, not checked' if outcome.status == 'kept' else known}"
    )


def _size(size: int | None) -> str:
    if size is None:
        return ""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"


def show_fields(rows: Sequence[Mapping[str, str]], console: Console) -> None:
    """Print the fields of a file of facts."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("field", "type", "meaning"):
        grid.add_column(name, no_wrap=name != "meaning")
    for row in rows:
        grid.add_row(*(Text(row[name]) for name in ("field", "type", "meaning")))
    notes = (
        "A row has a fact (subject, relation and object), a document, or an event with its time.",
        "In CSV files, separate the items of a list by | and a question from its answer by =>.",
        "Template: emend data new FILE.jsonl; check: emend data check FILE",
    )
    console.print(grid, *dim(notes), sep="\n")
