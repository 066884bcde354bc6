"""A server on this machine that answers as Wikimedia's do, well or badly."""

import json
import re
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from emend.evals.construction.wikidata.query import WikiServers


class Fault(NamedTuple):
    """A bad answer in place of a good one."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}
    endless: bool = False
    """The body is repeated until the client goes away."""
    pause: float = 0.0
    """Seconds between two times."""
    silent: bool = False
    """Nothing is ever sent."""
    dripping: bool = False
    """A header is sent byte by byte until the client goes away."""


class WikiServer(ThreadingHTTPServer):
    """The query service, the API of Wikidata and that of a Wikipedia."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.entities: dict[str, dict[str, Any]] = {}
        self.redirects: dict[str, str] = {}
        self.extracts: dict[str, str] = {}
        self.moved: dict[str, str] = {}
        self.faults: deque[Fault] = deque()
        self.requests: list[tuple[str, dict[str, str], dict[str, str]]] = []
        """(path, parameters, headers) of each."""
        self.closed = False

    @property
    def servers(self) -> WikiServers:
        """The addresses."""
        root = f"http://127.0.0.1:{self.server_address[1]}"
        paths = {"sparql": "sparql", "wikidata": "wikidata", "wikipedia": "{language}/wikipedia"}
        return WikiServers(**{name: f"{root}/{path}" for name, path in paths.items()})

    def publish(self, *entities: dict[str, Any]) -> None:
        """Put entities up."""
        self.entities |= {entity["id"]: entity for entity in entities}

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that went away."""

    def answer(self, path: str, parameters: dict[str, str]) -> Any:
        """The JSON of a good answer."""
        if path == "/sparql":
            return self._select(parameters["query"])
        return self._entities(parameters) if path == "/wikidata" else self._extracts(parameters)

    def _select(self, query: str) -> Any:
        relation = re.findall(r"p:(P\d+)", query)[0]
        ids = [id_ for id_, entity in self.entities.items() if relation in entity["claims"]]
        rows = [{"item": {"type": "uri", "value": f"http://www.wikidata.org/entity/{id_}"}} for id_ in ids]
        return {"head": {"vars": ["item"]}, "results": {"bindings": rows}}

    def _entities(self, parameters: dict[str, str]) -> Any:
        answers = {}
        for id_ in parameters["ids"].split("|"):
            target = self.redirects.get(id_, id_)
            answers[id_] = dict(self.entities.get(target, {"id": target, "missing": ""}))
            if "claims" not in parameters["props"]:
                answers[id_].pop("claims", None)
            if target != id_:
                answers[id_]["redirects"] = {"from": id_, "to": target}
        return {"entities": answers, "success": 1}

    def _extracts(self, parameters: dict[str, str]) -> Any:
        """One page an answer, the others behind `continue`."""
        titles = parameters["titles"].split("|")
        place = int(parameters.get("excontinue", 0))
        names = [title[0].upper() + title[1:] for title in titles]
        targets = [self.moved.get(name, name) for name in names]
        pages: list[dict[str, Any]] = [{"pageid": 1, "ns": 0, "title": title} for title in dict.fromkeys(targets)]
        extract = self.extracts.get(pages[place]["title"])
        pages[place] |= {"missing": True} if extract is None else {"extract": extract}
        renamed = [{"fromencoded": False, "from": a, "to": b} for a, b in zip(titles, names, strict=True) if a != b]
        moved = [{"from": a, "to": b} for a, b in self.moved.items() if a in names]
        query: Any = {"query": {"normalized": renamed, "redirects": moved, "pages": pages}}
        return query | ({"continue": {"excontinue": place + 1, "continue": "||"}} if place + 1 < len(pages) else {})


class _Handler(BaseHTTPRequestHandler):
    server: WikiServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.server.requests.append((parts.path, parameters, dict(self.headers)))
        fault = self.server.faults.popleft() if self.server.faults else None
        if fault is None:
            self._send(Fault(body=json.dumps(self.server.answer(parts.path, parameters)).encode()))
        elif fault.silent:
            self.close_connection = True
            while not self.server.closed and not self.rfile.read1(1):
                break
        elif fault.dripping:
            self._drip()
        else:
            self._send(fault)

    def _drip(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not self.server.closed:
                self.wfile.write(b"x")
                time.sleep(0.02)

    def _send(self, answer: Fault) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if not answer.endless:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(answer.body)
            while answer.endless and not self.server.closed:
                time.sleep(answer.pause)
                self.wfile.write(answer.body)
        self.close_connection = answer.endless

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[WikiServer]:
    """A server for the time of the `with`."""
    with WikiServer() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.closed = True
            server.shutdown()
            thread.join()
