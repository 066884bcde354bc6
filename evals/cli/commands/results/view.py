"""The command `emend view`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import grouped, read_run
from emend.evals.cli.viewer import PORT, require_view, show_runs
from emend.evals.cli.viewer_export import ViewExportOptions


@grouped
def view(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER",
            parser=read_run,
            help="Run folders, folders that hold some, or addresses of mirrors; default: runs.",
        ),
    ] = None,
    *,
    files: ViewExportOptions,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port, or the next free one; 0 takes any.")
    ] = PORT,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen at; any but this machine's needs --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            envvar="EMEND_VIEW_TOKEN",
            help="Text that a browser must know, 16 characters or more; default: none.",
        ),
    ] = "",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
) -> None:
    """Show runs in a browser: results, cases, traces and comparisons; or write the pages as files."""
    if files.requested:
        require_view()
        files.write(folders or [Path("runs")])
        return
    show_runs(folders or [Path("runs")], host, port, token, not no_browser)
