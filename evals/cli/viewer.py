"""Start of the viewer by commands, and export of its pages."""

from collections.abc import Sequence
from pathlib import Path
from socket import socket

from pydantic import Field

from emend.evals.cli.output import print_text
from emend.memory.distribution import install_command
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, MissingExtra

PORT = 7710
SHORTEST_TOKEN = 16


def require_view() -> None:
    """Check that the viewer's libraries are installed.

    Raises:
        MissingExtra: a library is missing; the message names the install command.
    """
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra(f"the viewer needs {error.name}: {install_command('view')}.") from error


def show_runs(
    folders: Sequence[Path],
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str = "",
    browser: bool = True,
) -> None:
    """Serve the runs below some folders until Ctrl-C.

    Raises:
        MissingExtra: the viewer's libraries are not installed.
        BadSettings: others could read the runs, or nothing can listen at the address.
        MissingData: a folder does not exist, or there is no run.
    """
    require_view()
    from emend.evals.show.view.guard import is_loopback
    from emend.evals.show.view.scan import require_runs
    from emend.evals.show.view.server import listen, serve
    from emend.evals.show.view.site import Site

    if token and len(token) < SHORTEST_TOKEN:
        raise BadSettings(f"--token is too short: give {SHORTEST_TOKEN} characters or more.")
    if not is_loopback(host) and not token:
        raise BadSettings(
            f"--host {host} lets others read the runs: give a --token that browsers must send."
        )
    with Site(folders) as site, listen(host, port) as listener:
        require_runs(site.library.scan)
        address = f"{address_of(host, listener)}/"
        count = len(site.library.scan.runs())
        print_text(f"{count} {'run' if count == 1 else 'runs'} at {address} (end with Ctrl-C)")
        serve(site, listener, token, address if browser else "")


def address_of(host: str, listener: socket) -> str:
    """Return the address of a listening server."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"


class ViewExportOptions(FrozenModel):
    """Pages as files, instead of a server."""

    export: Path | None = Field(
        default=None, description="Write the pages to this folder instead of serving them."
    )
    single: Path | None = Field(
        default=None, description="Write all pages to a single HTML file instead of serving them."
    )
    cases: str | None = Field(
        default=None,
        description="With --export or --single, cases that get a page: all, wrong (with a wrong "
        "answer), flipped (one editor right, another wrong), or the size of a random sample; "
        "default: wrong.",
    )

    @property
    def requested(self) -> bool:
        """True if pages are to be written to files.

        Raises:
            BadSettings: options do not go together.
        """
        if self.export is not None and self.single is not None:
            raise BadSettings("--export writes a folder and --single a file: give one of them.")
        if self.cases is not None and self.export is None and self.single is None:
            raise BadSettings("--cases selects the pages of --export or --single: add one of them.")
        return self.export is not None or self.single is not None

    def write(self, folders: Sequence[Path]) -> None:
        """Write the pages, and print what was written.

        Raises:
            BadSettings: the choice, folder or file is wrong.
        """
        from emend.evals.show.view.export import export_file, export_folder

        choice = self.cases or "wrong"
        if self.single is not None:
            start, result = self.single, export_file(folders, self.single, choice)
        else:
            target = self.export or Path("export")
            start, result = target / "index.html", export_folder(folders, target, choice)
        if result.left_out == 1:
            many = "1 case is"
        else:
            many = f"{result.left_out:,} cases are"
        left = ""
        if result.left_out:
            left = f"; {many} left out (--cases {choice})"
        print_text(f"{result.pages:,} pages, {result.bytes / 2**20:,.1f} MB{left}: open {start}")
        print_text(
            "The pages contain prompts and replies of the runs: check them before you publish them."
        )
