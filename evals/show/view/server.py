"""The viewer's pages by path, and its server, for this machine alone unless a token is given."""

import hmac
import json
import re
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.cookies import SimpleCookie
from ipaddress import ip_address
from itertools import combinations
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, quote

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emend.evals.show.view.answers import CaseKey
from emend.evals.show.view.environment import STATIC, render
from emend.evals.show.view.library import Library
from emend.evals.show.view.pages.case import case_page
from emend.evals.show.view.pages.cases import cases_page
from emend.evals.show.view.pages.common import PageRequest, Query, case_path
from emend.evals.show.view.pages.compare import beside_page, choice_page, compare_page, find_sides
from emend.evals.show.view.pages.live import errors_page, live_page, live_view
from emend.evals.show.view.pages.run import about_page, judges_page, retrieval_page, run_page, runs_page
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import Page, RunEntry, ViewData
from emend.memory.errors import BadSettings, EmendError
from emend.memory.escape import safe
from emend.memory.files import open_file

_RUN = re.compile(r"run/([a-z0-9-]{1,60})/(?:([a-z]+)|case/(\d{1,4})-(\d{1,9}))\.html")
_COMPARE = re.compile(r"compare/([a-z0-9.~-]{1,500}?)(?:/(\d{1,4})-(\d{1,9}))?\.html")
GENERAL_PAGES = {"index.html": runs_page, "about.html": about_page, "compare.html": choice_page}
RUN_PAGES: dict[str, Callable[[PageRequest, RunPlace], Page]] = {
    "index": run_page,
    "cases": cases_page,
    "retrieval": retrieval_page,
    "judges": judges_page,
    "errors": errors_page,
    "live": live_page,
}
UNREADABLE = 422
"""Status of a page of a run whose files cannot be read: the fault is the folder's, not the server's."""


class PageMissing(Exception):
    """Raised when there is no page at a path."""


class Site:
    """The pages of the runs below some folders; a context manager.

    Args:
        folders: run folders, or folders that hold some.
        static: pages for an export: complete, and without forms and links that need a server.

    Raises:
        MissingData: one is no folder.
    """

    def __init__(self, folders: Sequence[Path], static: bool = False) -> None:
        self.library, self.static = Library(folders, patient=static), static

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.library.close()

    def page(self, path: str, query: Query | None = None) -> Page:
        """The page at a path, such as `run/ID/cases.html`.

        A run that cannot be read gives a page that says so.

        Raises:
            PageMissing: there is none.
        """
        request = PageRequest(self.library, path, query or {}, self.static)
        try:
            page = self._find(request)
        except EmendError as error:
            # of a run that goes on: such a case has no answers yet
            status = 404 if isinstance(error, BadSettings) else UNREADABLE
            page = self.problem(path, "This cannot be shown", str(error), status)
        if page is None:
            raise PageMissing(path)
        return page

    def problem(self, path: str, title: str, text: str, status: int) -> Page:
        """A page that says why there is no other."""
        request = PageRequest(self.library, path, {}, self.static)
        return Page(request.head("problem", title), ViewData(text=text), status)

    def _find(self, request: PageRequest) -> Page | None:
        if make := GENERAL_PAGES.get(request.path):
            return make(request)
        if match := _RUN.fullmatch(request.path):
            place = self.library.scan.find(match[1])
            if place is None or (self.static and match[2] == "live"):
                return None
            if match[3]:
                return case_page(request, place, CaseKey(int(match[3]), int(match[4])))
            return RUN_PAGES[match[2]](request, place) if match[2] in RUN_PAGES else None
        match = _COMPARE.fullmatch(request.path)
        sides = find_sides(request, match[1].split("~")) if match else None
        if match is None or sides is None:
            return None
        return (
            beside_page(request, sides, CaseKey(int(match[2]), int(match[3])))
            if match[2]
            else compare_page(request, sides)
        )

    def compare_path(self, keys: Sequence[str]) -> str | None:
        """Path of the comparison of these sides; None if they cannot be compared."""
        request = PageRequest(self.library, "compare.html", {}, self.static)
        return f"compare/{'~'.join(keys)}.html" if find_sides(request, keys) else None

    def case_paths(self, run: str, choice: str) -> list[str]:
        """Paths of the cases of a run that an export has.

        Args:
            run: its id.
            choice: `all`, `wrong` (not all answers right), `flipped` (right under one editor, wrong under another), or
                the number of cases of a seeded sample.

        Raises:
            BadSettings: no such choice.
        """
        place = self.library.scan.find(run)
        answers = self.library.answers(place)[0] if place else None
        if place is None or answers is None:
            return []
        return [case_path(place, *answers.key_of(int(at))) for at in answers.chosen_cases(choice)]

    def compare_paths(self, run: str) -> list[str]:
        """Paths of the comparisons of each two editors of a run."""
        place = self.library.scan.find(run)
        numbers = range(len(place.manifest.config.editors)) if place else ()
        return [f"compare/{run}.{a}~{run}.{b}.html" for a, b in combinations(numbers, 2)]

    def runs(self) -> tuple[RunEntry, ...]:
        """All runs in short."""
        return tuple(self.library.entry(place) for place in self.library.scan.runs().values())


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
MAX_PORT = 2**16 - 1
MAX_PATH, MAX_PARAMETERS = 2000, 40
_STATIC_NAME = re.compile(r"[a-zA-Z0-9_-]+\.(css|js|svg|png)")
_LIVE = re.compile(r"run/([a-z0-9-]{1,60})/live\.json")
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
    routes = [
        Route("/", partial(_page, site, "index.html")),
        Route("/static/{name}", _static),
        Route("/{path:path}", partial(_any, site)),
    ]
    return Guard(Starlette(routes=routes), token)


async def _any(site: Site, request: Request) -> Response:
    path = request.scope["path"][1:]  # that of the route lacks a line end
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


def _live(site: Site, name: str, path: str) -> Response:
    """Progress of a run as JSON, for which its page asks again and again."""
    place = site.library.scan.find(name)
    if place is None:
        return PlainTextResponse("no such run", 404)
    try:
        progress = live_view(PageRequest(site.library, path, {}), place).model_dump(mode="json")
    except EmendError as error:
        progress = {"problem": str(error)}
    return Response(json.dumps(_harmless(progress)), media_type="application/json")


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
        # the socket listens already, so that a browser waits for the first answer
        threading.Thread(target=webbrowser.open, args=(page,), name="emend-view-browser", daemon=True).start()
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
