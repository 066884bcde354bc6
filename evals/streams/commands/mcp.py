"""The command `emend mcp`."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.output import print_text
from emend.evals.cli.viewer import SHORTEST_TOKEN, address_of
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.evals.streams.mcp_server import Access
    from emend.memory.facts.fact_memory import FactMemory


FactFolder = Annotated[
    Path,
    typer.Option(
        "--memory",
        metavar="FOLDER",
        envvar="EMEND_MEMORY",
        help="Folder of the memory of facts.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--http",
        metavar="PORT",
        min=0,
        max=2**16 - 1,
        help="Serve HTTP at /mcp; default: standard streams.",
    ),
]
Token = Annotated[
    str,
    typer.Option(
        metavar="TEXT", envvar="EMEND_MCP_TOKEN", help="Bearer token that clients must send."
    ),
]
Relations = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="TOML file that declares types of relations."),
]


def mcp(
    folder: FactFolder = Path("emend-memory"),
    http: Port = None,
    host: Annotated[str, typer.Option(metavar="NAME", help="Address to listen on.")] = "127.0.0.1",
    token: Token = "",
    user: Annotated[
        str, typer.Option(metavar="NAME", help="User whose facts clients read and write.")
    ] = "",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Disable the tools that change the memory.")
    ] = False,
    shared: Annotated[
        bool, typer.Option("--shared", help="Let clients change facts of all users.")
    ] = False,
    time_zone: Annotated[
        str, typer.Option(metavar="NAME", help="Time zone of times without one.")
    ] = "UTC",
    relations: Relations = None,
) -> None:
    """Serve a memory of facts to agents over the Model Context Protocol."""
    from emend.agents.mcp_tools import require_mcp
    from emend.evals.streams.mcp_server import Access, serve_stdio
    from emend.memory.facts.fact_memory import FactMemory
    from emend.memory.relations.relation_table import RelationTable

    require_mcp()
    _check(host, token, user, shared)
    access = Access(user, not read_only, shared)
    table = RelationTable.load(*(relations or ()))
    with suppress(KeyboardInterrupt), FactMemory(folder, table, time_zone=time_zone) as memory:
        if http is None:
            # The thread that waits for standard input cannot be interrupted. Killing the process is
            # safe, since every operation is a transaction.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            serve_stdio(memory, access)
        else:
            _serve_http(memory, access, host, http, token)


def _check(host: str, token: str, user: str, shared: bool) -> None:
    """Reject options that would let other people write to the memory.

    Raises:
        BadSettings: an option is unsafe; the message names it.
    """
    from emend.evals.show.view.guard import is_loopback
    from emend.memory.facts.fact import SHARED

    if token and len(token) < SHORTEST_TOKEN:
        raise BadSettings(f"--token is too short: give {SHORTEST_TOKEN} characters or more.")
    if user == SHARED and not shared:
        raise BadSettings(
            f"--user '{SHARED}' means everybody, and needs --shared to change facts: add it, or "
            "name a user."
        )
    if not is_loopback(host) and not token:
        raise BadSettings(
            f"--host {host}: others could read and change the memory. Give a --token of "
            f"{SHORTEST_TOKEN} characters or more that clients must send."
        )


def _serve_http(memory: "FactMemory", access: "Access", host: str, port: int, token: str) -> None:
    from emend.evals.show.view.server import listen
    from emend.evals.streams.mcp_server import serve_http

    with listen(host, port, ports=1) as listener:  # clients know only the requested port
        print_text(f"the memory is at {address_of(host, listener)}/mcp (end with Ctrl-C)")
        serve_http(memory, access, listener, host, token)
