"""The commands `emend data list`, `pull`, `check` and `stats`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import Json, print_rows

data = typer.Typer(name="data", help="Fetch the benchmarks' real files, check them, count them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="See: emend data list.")]
Folder = Annotated[Path | None, typer.Option("--data", help="The data folder.")]


@data.command("list")
def list_data(as_json: Json = False) -> None:
    """List the files of each benchmark: size, licence, origin, and whether a checksum is known."""
    from emend.evals.data.show import rows_of, show_sources
    from emend.evals.data.sources import SOURCES

    if as_json:
        print_rows(rows_of(list(SOURCES.values())))
        return
    from emend.evals.report.table import console_for

    show_sources(list(SOURCES.values()), console_for())


@data.command()
def pull(
    name: Name,
    to: Annotated[Path | None, typer.Option("--to", help="The folder; default NAME under EMEND_DATA or data.")] = None,
    as_json: Json = False,
) -> None:
    """Fetch a benchmark's files from where they are published; repeat the command to continue after an interruption."""
    from emend.evals.benchmarks.files import data_folder
    from emend.evals.data.pull import Puller
    from emend.evals.data.show import download_bar, show_licences, show_outcomes
    from emend.evals.data.sources import source_of
    from emend.evals.report.escape import one_line
    from emend.evals.report.table import console_for

    source = source_of(name)
    folder, console = data_folder(name, to), console_for()
    if not as_json:
        show_licences(source, folder, console)
    try:
        outcomes = Puller(source, folder, download_bar).pull()
    except KeyboardInterrupt:
        typer.echo("\ninterrupted: finished files are kept, and the same command continues with the rest.", err=True)
        raise typer.Exit(130) from None
    if as_json:
        print_rows([outcome.model_dump() for outcome in outcomes])
    else:
        show_outcomes(source, outcomes, folder, console)
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    for outcome in failed:
        typer.echo(f"error: {outcome.name}: {one_line(outcome.problem)}", err=True)
    if failed:
        raise typer.Exit(2)
    if not as_json:
        typer.echo(f"Next: emend data check {name}" + (f" --data {folder}" if to else ""))


@data.command()
def check(
    target: Annotated[str, typer.Argument(metavar="NAME|DIR", help="A benchmark, or a folder of its files.")],
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Check the files of a folder: every fault by file, record and field; exit code 2 if there is one."""
    from emend.evals.data.check import check as check_data
    from emend.evals.data.show import show_checked

    checked = check_data(target, folder)
    if as_json:
        rows = [{"kind": "file", **file.model_dump()} for file in checked.files]
        rows += [{"kind": "fault", **fault.model_dump()} for fault in checked.faults]
        rows += [{"kind": "count", "reading": r, "what": what, "count": n} for r, what, n in checked.counts]
        print_rows(rows)
    else:
        from emend.evals.report.table import console_for

        show_checked(checked, console_for())
    if checked.faults:
        raise typer.Exit(2)


@data.command()
def stats(name: Name, folder: Folder = None, as_json: Json = False) -> None:
    """Print the paper's table of its data, counted from the files at hand, beside what the paper prints."""
    from emend.evals.data.stats import stats as stats_of

    tables = stats_of(name, folder)
    if as_json:
        print_rows([row for table in tables for row in table.plain()])
        return
    from emend.evals.data.show import show_tables
    from emend.evals.report.table import console_for

    show_tables(tables, console_for())
