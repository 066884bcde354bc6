"""Tables and progress bars of the `emend data` commands."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from tqdm import tqdm

from emend.evals.data.check import FileCheck, FolderCheck
from emend.evals.data.digests import LEDGER
from emend.evals.data.download import Report
from emend.evals.data.faults import Fault
from emend.evals.data.pull import Outcome
from emend.evals.data.sources import DataSource, Made, Remote
from emend.evals.data.tables import DataFigure, DataTable
from emend.evals.report.escape import one_line

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
    """Progress bar on standard error: live on a terminal, elsewhere a line every five seconds."""
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
        rows += [{"data": source.name, **file.model_dump(), "pinned": _pinned(file)} for file in files]
    return rows


def show_sources(sources: Sequence[DataSource], console: Console) -> None:
    """Print the table of sources: each data set, its origins with their licences, and the files of each."""
    for source in sources:
        console.print(Text(source.name, style="bold"))
        for (origin, licence), files in groupby(source.remotes, key=lambda file: (_origin(file), file.licence)):
            console.print(Padding(Text(f"{origin}; licence: {licence}"), (0, 0, 0, 2), expand=False))
            _grid(console, ((file.name, _size(file.size), file.commit[:12], _pinned(file)) for file in files))
        for derived in source.derived:
            line = f"{derived.name} is made of {', '.join(derived.inputs)}"
            console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
        for note in source.notes:
            console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2), expand=False))
        console.print()
    console.print(
        Text("Fetch one with: emend data pull NAME. Where no checksum is known, what first comes is recorded.")
    )


def show_licences(source: DataSource, folder: Path, console: Console) -> None:
    """Print the origins and licences of the files before anything is fetched."""
    console.print(Text(f"{source.name}: {len(source.remotes)} files into {one_line(str(folder))}", style="bold"))
    for (origin, licence), files in groupby(source.remotes, key=lambda file: (_origin(file), file.licence)):
        console.print(
            Padding(Text(f"{len(list(files))} from {origin}; licence: {licence}"), (0, 0, 0, 2), expand=False)
        )


def show_outcomes(source: DataSource, outcomes: Sequence[Outcome], folder: Path, console: Console) -> None:
    """Print the outcome of each file, and the notes of the source."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right")
    for outcome in outcomes:
        status = Text(outcome.status, style=STYLES.get(outcome.status, ""))
        size = _size(outcome.bytes) if outcome.sha256 else ""
        table.add_row(status, Text(outcome.name), Text(size, justify="right"), Text(_sum(outcome), style="dim"))
    console.print(table)
    for note in source.notes:
        console.print(Text(f"note: {note}", style="dim"))
    if (folder / LEDGER).is_file():
        console.print(Text(f"Sources and licences are recorded in {one_line(str(folder / LEDGER))}."))


def show_checked(checked: FolderCheck, console: Console) -> None:
    """Print the files, every fault, and what the loader drops, repairs and tags."""
    console.print(Text(f"{checked.data} in {one_line(checked.folder)}", style="bold"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("file", "records", "faults", "checksum"):
        table.add_column(name, justify="right" if name in ("records", "faults") else "left")
    for file in checked.files:
        table.add_row(*_file_cells(file))
    console.print(table)
    for fault in checked.faults:
        console.print(_fault(fault), soft_wrap=True)
    for reading, counts in groupby((c for c in checked.counts if c[2]), key=lambda count: count[0]):
        console.print(Text(f"read with {reading}" if reading else "read as usual", style="bold"))
        _grid(console, ((f"{count:>7,}", one_line(what)) for _, what, count in counts))
    total = len(checked.faults)
    summary = f"{total:,} fault{'s' * (total != 1)}" if total else "no fault"
    console.print(Text(summary, style="bold red" if total else "bold green"))


def show_tables(tables: Sequence[DataTable], console: Console) -> None:
    """Print each table in the paper's shape, the paper's figures under ours."""
    for table in tables:
        console.print(Text(table.title, style="bold"))
        console.print(_paper_shaped(table))
        if any(figure.agrees is False for figure in table.figures):
            console.print(Text(f"{MARK} differs from what is printed", style="dim"))
        for note in table.notes:
            console.print(Text(note, style="dim"))


def _paper_shaped(table: DataTable) -> Table:
    printed = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    printed.add_column("", no_wrap=True)
    printed.add_column("")
    for column in table.columns:
        printed.add_column(column, justify="right")
    for row in table.rows:
        cells = [table.cell(row, column) for column in table.columns]
        printed.add_row(Text(row), Text("here"), *(_here(cell) for cell in cells))
        if any(cell and cell.paper is not None for cell in cells):
            texts = (cell.text(cell.paper) if cell else "" for cell in cells)
            printed.add_row("", Text("paper", style="dim"), *(Text(f"{text} ", style="dim") for text in texts))
    return printed


def _here(cell: DataFigure | None) -> Text:
    if cell is None:
        return Text("")
    differs = cell.agrees is False
    style = {True: "green", False: "yellow", None: ""}[cell.agrees]
    return Text(cell.text(cell.here) + (MARK if differs else " "), style=style)


def _file_cells(file: FileCheck) -> Iterator[Text]:
    yield Text(one_line(file.name))
    yield Text("absent" if file.absent else "" if file.records is None else f"{file.records:,}")
    yield Text("" if file.absent else f"{file.faults:,}", style="bold red" if file.faults else "")
    yield Text(file.checksum, style=STYLES.get(file.checksum, "dim"))


def _fault(fault: Fault) -> Text:
    place = [fault.file]
    if fault.record:
        place.append(fault.record if fault.record.startswith("id ") else f"record {fault.record}")
    if fault.field:
        place.append(f"field '{fault.field}'")
    line = f"{', '.join(place)}: {fault.problem}"
    return Text(one_line(f"{line}; value {fault.value}" if fault.value else line))


def _grid(console: Console, lines: Iterator[tuple[str, ...]]) -> None:
    table = Table.grid(padding=(0, 2))
    for line in lines:
        table.add_row(*(Text(part) for part in line))
    console.print(Padding(table, (0, 0, 0, 4), expand=False))


def _origin(remote: Remote) -> str:
    return remote.repository or remote.url.rpartition("/")[0]


def _pinned(file: Remote | Made) -> str:
    if isinstance(file, Made):
        return "made"
    return "checksum" if file.digest else "commit" if file.commit else "address only"


def _sum(outcome: Outcome) -> str:
    if not outcome.sha256:
        return ""
    known = "checksum agrees" if outcome.pinned else "not pinned: recorded"
    if outcome.status == "kept":
        known = "yours, not checked"
    return f"sha256 {outcome.sha256[:12]}  {known}"


def _size(size: int | None) -> str:
    if size is None:
        return ""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
