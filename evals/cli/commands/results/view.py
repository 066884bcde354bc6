"""The command `emend view`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.output import print_text
from emend.memory.errors import BadSettings, MissingExtra

PORT = 7710


def view(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER...", help="Run folders, or folders that hold some; default: runs."),
    ] = None,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 takes a free one.")] = PORT,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen at; any but this machine's needs --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", envvar="EMEND_VIEW_TOKEN", help="Text that a browser must know, 16 characters or more."
        ),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
) -> None:
    """Show runs in a browser: results, cases, traces and comparisons; end it with Ctrl-C."""
    require_view()
    from emend.evals.view.scan import require_runs
    from emend.evals.view.serve import listen, serve
    from emend.evals.view.server import is_loopback
    from emend.evals.view.site import Site

    if token is not None and len(token) < 16:
        raise BadSettings("--token is too short: give 16 characters or more.")
    if not is_loopback(host) and token is None:
        raise BadSettings(f"--host {host}: others could read the runs. Give a --token that a browser must know.")
    with Site(folders or [Path("runs")]) as site, listen(host, port) as socket:
        require_runs(site.library.scan)
        address = f"http://{_name(host)}:{socket.getsockname()[1]}/"
        print_text(f"{len(site.library.scan.runs())} runs at {address} (end with Ctrl-C)")
        serve(site, socket, token or "", "" if no_browser else address)


def require_view() -> None:
    """Check that the viewer's libraries are installed.

    Raises:
        MissingExtra: names the install line.
    """
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra(f"emend view needs {error.name}: pip install 'emend[view]'.") from error


def _name(host: str) -> str:
    return f"[{host}]" if ":" in host else host
