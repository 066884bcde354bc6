"""HTTP server of the viewer, for this machine only unless a token is given."""

import json
import re
import socket
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qs, quote

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from emend.evals.show.view.environment import STATIC, render
from emend.evals.show.view.guard import Guard
from emend.evals.show.view.pages.common import PageRequest
from emend.evals.show.view.pages.live import live_view
from emend.evals.show.view.site import PageMissing, Site
from emend.memory.errors import BadSettings, EmendError
from emend.memory.escape import safe
from emend.memory.files import open_file

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png"}
MAX_PATH, MAX_PARAMETERS = 2000, 40
_STATIC_NAME = re.compile(r"[a-zA-Z0-9_-]+\.(css|js|svg|png)")
_LIVE = re.compile(r"run/([a-z0-9-]{1,60})/live\.json")


def make_app(site: Site, token: str = "") -> ASGIApp:
    """Return the ASGI application of a site.

    With a token, it answers under any host name, but only to browsers that send the token.
    """
    routes = [
        Route("/", partial(_page, site, "index.html")),
        Route("/static/{name}", _static),
        Route("/{path:path}", partial(_any, site)),
    ]
    return Guard(Starlette(routes=routes), token)


async def _any(site: Site, request: Request) -> Response:
    path = request.scope["path"][1:]  # the route's path parameter loses a trailing line break
    if match := _LIVE.fullmatch(path):
        return await run_in_threadpool(_live, site, match[1], path)
    return await _page(site, path, request)


async def _page(site: Site, path: str, request: Request) -> Response:
    if len(request.url.query) > MAX_PATH or request.url.query.count("&") > MAX_PARAMETERS:
        return PlainTextResponse("the address is too long", 414)
    query = parse_qs(request.url.query, errors="replace")
    if path == "compare.html" and (target := site.compare_path(query.get("side", []))):
        return RedirectResponse(f"/{target}", 303)
    return await run_in_threadpool(_rendered, site, path, query)


def _rendered(site: Site, path: str, query: dict[str, list[str]]) -> Response:
    try:
        if len(path) > MAX_PATH:
            raise PageMissing(path)
        page = site.page(path, query)
    except PageMissing:
        page = site.problem(
            "index.html",
            "No such page",
            "The address is wrong, or the run was moved or deleted.",
            404,
        )
        page.head = page.head.model_copy(update={"root": "/"})
    headers = {}
    if page.head.refresh:
        headers = {"refresh": str(page.head.refresh)}
    return HTMLResponse(render(page), page.status, headers)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if not _STATIC_NAME.fullmatch(name) or not (STATIC / name).is_file():
        return PlainTextResponse("no such file", 404)
    with open_file(STATIC / name) as file:
        content = file.read()
    return Response(
        content, media_type=TYPES[name[name.rindex(".") :]], headers={"cache-control": "no-cache"}
    )


def _harmless(value: Any) -> Any:
    """Make all texts of a JSON value harmless, as templates do."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, dict):
        return {name: _harmless(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_harmless(part) for part in value]
    return value


def _live(site: Site, name: str, path: str) -> Response:
    """Return the progress of a run as JSON, which its page polls."""
    location = site.library.scan.find(name)
    if location is None:
        return PlainTextResponse("no such run", 404)
    try:
        progress = live_view(PageRequest(site.library, path, {}), location).model_dump(mode="json")
    except (EmendError, OSError) as error:  # the folder may be deleted meanwhile
        progress = {"problem": str(error)}
    return Response(json.dumps(_harmless(progress)), media_type="application/json")


@contextmanager
def listen(host: str, port: int, ports: int = 20) -> Iterator[socket.socket]:
    """Yield a socket that listens at an address.

    If the port is taken, the next free one is used; `ports` ports are tried.

    Raises:
        BadSettings: no port could be opened.
    """
    if ":" in host:
        family = socket.AF_INET6
    else:
        family = socket.AF_INET
    last: OSError | None = None
    for number in range(port, port + ports) if port else (0,):
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, number))
            # the backlog lets browsers that connect before the server runs wait instead of failing
            listener.listen(100)
        except (OSError, OverflowError) as error:
            listener.close()
            if isinstance(error, OSError):
                last = error
            else:
                last = OSError(str(error))
            continue
        with listener:
            yield listener
        return
    raise BadSettings(
        f"cannot listen at {host}, port {port}: {last}. Give another --host or --port."
    )


def serve(site: Site, listener: socket.socket, token: str = "", address: str = "") -> None:
    """Serve until Ctrl-C, and open a browser at the address if one is given."""
    server = make_server(site, token)
    if address:
        if token:
            page = f"{address}?token={quote(token)}"
        else:
            page = address
        # the socket listens already, so the browser waits until the server runs
        threading.Thread(
            target=webbrowser.open, args=(page,), name="emend-view-browser", daemon=True
        ).start()
    server.run(sockets=[listener])


def make_server(site: Site, token: str = "") -> uvicorn.Server:
    """Return a server that does not log requests: URLs can contain the token and search texts."""
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
