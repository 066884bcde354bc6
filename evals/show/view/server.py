"""The viewer's server: pages, static files and progress, for this machine alone unless a token is given."""

import asyncio
import hmac
import json
import re
import socket
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.cookies import SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, quote

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emend.evals.show.view.environment import STATIC, render
from emend.evals.show.view.pages.common import PageRequest
from emend.evals.show.view.pages.live import live_view
from emend.evals.show.view.site import PageMissing, Site
from emend.memory.errors import BadSettings, EmendError
from emend.memory.escape import safe
from emend.memory.files import open_file

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png"}
COOKIE = "emend_view"
SSE_SECONDS = 1.0
MAX_STREAMS = 16
MAX_PORT = 2**16 - 1
MAX_PATH, MAX_PARAMETERS = 2000, 40
_STATIC_NAME = re.compile(r"[a-zA-Z0-9_-]+\.(css|js|svg|png)")
_LIVE = re.compile(r"run/([a-z0-9-]{1,60})/live\.(json|sse)")
_IPV6 = "[0-9a-f]*:[0-9a-f:.]*"
_HOST = re.compile(
    rf"(?:\[(?P<bracketed>{_IPV6})\]|(?P<name>[a-z0-9.-]+))(?::(?P<port>[0-9]{{1,5}}))?|(?P<bare>{_IPV6})"
)


def is_loopback(host: str) -> bool:
    """True for a Host header, or an address to listen at, that names this machine alone.

    >>> [is_loopback(host) for host in ("localhost:7000", "127.0.0.1", "[::1]:80", "::1")]
    [True, True, True, True]
    >>> [is_loopback(host) for host in ("evil.test", "127.0.0.1.evil.test", "[::1]evil.test")]
    [False, False, False]
    """
    # the whole text must match: what follows a name that is accepted would otherwise be ignored
    match = _HOST.fullmatch(host.lower())
    if match is None or int(match["port"] or 0) > MAX_PORT:
        return False
    name = match["bracketed"] or match["name"] or match["bare"]
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


class Guard:
    """Middleware: headers on every response, GET alone, a Host header of this machine, or else the token.

    Args:
        app: the application.
        token: what a browser must know if the server is not for this machine alone; empty if it is.
    """

    def __init__(self, app: ASGIApp, token: str = "") -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                missing = [
                    (name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in names
                ]
                message["headers"] = [*message["headers"], *missing]
            await send(message)

        refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("only GET is answered", 405, {"allow": "GET, HEAD"})
        hosts = request.headers.getlist("host")
        if not self._token:
            refused = len(hosts) != 1 or not is_loopback(hosts[0])
            return PlainTextResponse("this host is not served: open http://127.0.0.1", 400) if refused else None
        text = request.query_params.get("token", "")
        if text and self._is_token(text):  # the token leaves the address, which browsers keep and show
            response = RedirectResponse(request.url.path, 303)
            response.set_cookie(COOKIE, text, httponly=True, samesite="strict")
            return response
        cookie = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
        if cookie is not None and self._is_token(cookie.value):
            return None
        return PlainTextResponse("open the address with the token that emend view printed", 403)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(errors="replace"), self._token.encode())


def make_app(site: Site, token: str = "") -> ASGIApp:
    """The application of a site; with a token it answers under any host name, to those who know it."""
    streams = asyncio.Semaphore(MAX_STREAMS)
    routes = [
        Route("/", partial(_page, site, "index.html")),
        Route("/static/{name}", _static),
        Route("/{path:path}", partial(_any, site, streams)),
    ]
    return Guard(Starlette(routes=routes), token)


async def _any(site: Site, streams: asyncio.Semaphore, request: Request) -> Response:
    path = request.scope["path"][1:]  # that of the route lacks a line end
    if match := _LIVE.fullmatch(path):
        return await _live(site, streams, match[1], match[2], request)
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
        page = site.problem("index.html", "No such page", "The address is wrong, or the run was moved or deleted.", 404)
        page.head = page.head.model_copy(update={"root": "/"})
    headers = {"refresh": str(page.head.refresh)} if page.head.refresh else {}
    return HTMLResponse(render(page), page.status, headers)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if not _STATIC_NAME.fullmatch(name) or not (STATIC / name).is_file():
        return PlainTextResponse("no such file", 404)
    with open_file(STATIC / name) as file:
        content = file.read()
    return Response(content, media_type=TYPES[name[name.rindex(".") :]], headers={"cache-control": "no-cache"})


def _harmless(value: Any) -> Any:
    """Make all texts of a JSON value harmless, as templates do."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, dict):
        return {name: _harmless(part) for name, part in value.items()}
    return [_harmless(part) for part in value] if isinstance(value, list) else value


async def _live(site: Site, streams: asyncio.Semaphore, name: str, form: str, request: Request) -> Response:
    def view() -> str | None:
        place = site.library.scan.find(name)
        if place is None:
            return None
        try:
            progress = live_view(PageRequest(site.library, request.path_params["path"], {}), place)
            return json.dumps(_harmless(progress.model_dump(mode="json")))
        except EmendError as error:
            return json.dumps({"problem": str(error)})

    content = await run_in_threadpool(view)
    if content is None:
        return PlainTextResponse("no such run", 404)
    if form == "json":
        return Response(content, media_type="application/json")
    if streams.locked():
        return PlainTextResponse("too many pages watch runs already: the page asks again by itself", 503)
    events = _events(view, streams, request)
    return StreamingResponse(events, media_type="text/event-stream")


async def _events(view: Callable[[], str | None], streams: asyncio.Semaphore, request: Request) -> AsyncIterator[str]:
    """Progress whenever it changes, until the run has ended or the browser leaves."""
    async with streams:
        last = ""
        while not await request.is_disconnected():
            content = await run_in_threadpool(view)
            if content is None:
                return
            fields = json.loads(content)
            content_now = json.dumps({name: value for name, value in fields.items() if name != "at"})
            yield f"event: progress\ndata: {content}\n\n" if content_now != last else ": nothing new\n\n"
            last = content_now
            if fields.get("run", {}).get("state") != "running":
                return
            await asyncio.sleep(SSE_SECONDS)


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
