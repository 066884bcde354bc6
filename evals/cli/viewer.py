"""The viewer as commands start it."""

from collections.abc import Sequence
from pathlib import Path

from emend.evals.cli.output import print_text
from emend.memory.distribution import install_command
from emend.memory.errors import BadSettings, MissingExtra

PORT = 7710
SHORTEST_TOKEN = 16


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
        raise MissingExtra(f"the viewer needs {error.name}: {install_command('view')}.") from error


def show_runs(
    folders: Sequence[Path], host: str = "127.0.0.1", port: int = PORT, token: str = "", browser: bool = True
) -> None:
    """Serve the runs below some folders until Ctrl-C.

    Raises:
        MissingExtra: the viewer's libraries are not installed.
        BadSettings: others could read the runs, or nothing can listen at the address.
        MissingData: there is no such folder, or no run.
    """
    require_view()
    from emend.evals.show.view.scan import require_runs
    from emend.evals.show.view.serve import listen, serve
    from emend.evals.show.view.server import is_loopback
    from emend.evals.show.view.site import Site

    if token and len(token) < SHORTEST_TOKEN:
        raise BadSettings(f"--token is too short: give {SHORTEST_TOKEN} characters or more.")
    if not is_loopback(host) and not token:
        raise BadSettings(f"--host {host}: others could read the runs. Give a --token that a browser must know.")
    with Site(folders) as site, listen(host, port) as listener:
        require_runs(site.library.scan)
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{listener.getsockname()[1]}/"
        count = len(site.library.scan.runs())
        print_text(f"{count} {'run' if count == 1 else 'runs'} at {address} (end with Ctrl-C)")
        serve(site, listener, token, address if browser else "")
