"""Serving a site until it is interrupted."""

import socket
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import uvicorn

from emend.evals.show.view.server import make_app
from emend.evals.show.view.site import Site
from emend.memory.errors import BadSettings

OPEN_SECONDS = 10.0


@contextmanager
def listen(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens at an address; where the port is taken, the next free one of some is.

    Raises:
        BadSettings: nothing can listen there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last: OSError | None = None
    for number in range(port, port + 20) if port else (0,):
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, number))
            listener.listen(100)  # so that a browser that is quick waits instead of being refused
        except (OSError, OverflowError) as error:
            listener.close()
            last = error if isinstance(error, OSError) else OSError(str(error))
            continue
        with listener:
            yield listener
        return
    raise BadSettings(f"cannot listen at {host}, port {port}: {last}. Give another --host or --port.")


def serve(site: Site, listener: socket.socket, token: str = "", address: str = "") -> None:
    """Answer until Ctrl-C, and open a browser at the address if there is one."""
    server = make_server(site, token)
    if address:
        page = f"{address}?token={quote(token)}" if token else address
        threading.Thread(target=_open, args=(server, page), name="emend-view-browser", daemon=True).start()
    server.run(sockets=[listener])


def make_server(site: Site, token: str = "") -> uvicorn.Server:
    """A server that logs nothing, since an address may hold the token and a text that is searched for."""
    config = uvicorn.Config(
        make_app(site, token),
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=True,
        lifespan="off",
        timeout_graceful_shutdown=2,
        limit_concurrency=200,
        http="h11",
        ws="none",
        proxy_headers=False,
    )
    return uvicorn.Server(config)


def _open(server: uvicorn.Server, page: str) -> None:
    end = time.monotonic() + OPEN_SECONDS
    while not server.started and time.monotonic() < end:
        time.sleep(0.05)
    webbrowser.open(page)
