"""A Chroma server that is slow, busy, hostile, or asked by several processes at once."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from typing import Any

import httpx
import numpy as np
import pytest

import emend.memory.store.server as server_module
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings
from emend.memory.store.chroma import ChromaMemory
from emend.memory.store.server import BoundedSession

SMALL = LexicalEmbedding(128)


def edits(count: int) -> list[Edit]:
    triplets = [Triplet(subject=f"town {i // 2}", relation="mayor", object=f"Mira {i}") for i in range(count)]
    return [Edit(form="triplets" if i % 3 else "document", text=t.text, triplets=(t,)) for i, t in enumerate(triplets)]


@pytest.fixture
def stub() -> Iterator[Callable[..., str]]:
    """Starts a server that answers every request by a function of the handler and of the request's number."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Callable[[Any, int], None]) -> str:
        class Handler(BaseHTTPRequestHandler):
            count = 0

            def do_GET(self) -> None:
                type(self).count += 1
                answer(self, self.count)

            do_POST = do_GET

            def log_message(self, *_: object) -> None: ...

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def reply(handler: Any, status: int = 200, body: Any = None) -> None:
    content = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def endless(handler: Any, number: int) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"1" * 10_000)
    except OSError:
        pass


ended = threading.Event()


def silent(handler: Any, number: int) -> None:
    ended.wait(5)


HOSTILE: dict[str, Callable[[Any, int], None]] = {
    "silent": silent,
    "endless": endless,
    "another kind": lambda handler, number: reply(handler, body=["no", "Chroma"]),
    "an error": lambda handler, number: reply(handler, 500, {"error": "InternalError", "message": "broken"}),
    "busy": lambda handler, number: reply(handler, 503),
    "redirect": lambda handler, number: reply(handler, 301),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_chroma_server_is_refused_in_bounded_time(kind: str, stub: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(server_module, "READ_SECONDS", 0.1)
    monkeypatch.setattr(server_module, "REPLY_BYTES", 100_000)
    ended.clear()
    url = stub(HOSTILE[kind])
    try:
        with pytest.raises(BadSettings, match=f"no Chroma server at '{url}'"):
            ChromaMemory(url, SMALL)
    finally:
        ended.set()


def test_a_busy_server_is_asked_again_once_it_has_answered(stub: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(server_module, "wait_random_exponential", lambda **_: lambda state: 0.0)
    seen: list[int] = []

    def answer(handler: Any, number: int) -> None:
        seen.append(number)
        reply(handler, 503 if number in (2, 3) else 200, body=number)

    def busy(handler: Any, number: int) -> None:
        seen.append(number)
        reply(handler, 503)

    url = stub(answer)
    with BoundedSession() as session:
        assert [session.request("GET", url).json() for _ in range(2)] == [1, 4]
    with BoundedSession() as session:
        seen.clear()
        url = stub(busy)
        with pytest.raises(httpx.HTTPError, match="503"):
            session.request("GET", url)
        assert seen == [1]


def _add(url: str, place: int) -> int:
    """What a process does: it adds the same edits as others, in its own order, several times."""
    added = edits(60)
    with ChromaMemory(url, SMALL, superseding="time", name="run-a") as memory:
        for start in range(0, 60, 10):
            memory.add(added[start : start + 10][:: 1 if place % 2 else -1])
            memory.view([edit.id for edit in added[start : start + 10]])
        return memory.count()


@pytest.mark.slow
def test_the_same_edits_added_by_several_processes_at_once_count_once(server: str) -> None:
    with ProcessPoolExecutor(4, get_context("forkserver")) as pool:
        counts = list(pool.map(_add, [server] * 4, range(4)))
    added = edits(60)
    ids = [edit.id for edit in added]
    with ChromaMemory(None, SMALL, superseding="time") as local:
        local.add(added)
        with ChromaMemory(server, SMALL, superseding="time", name="run-a") as memory:
            assert max(counts) == memory.count() == local.count() == 60
            ours, theirs = memory.view(ids), local.view(ids)
            assert ours.entries() == theirs.entries()
            for query in ("Who is the mayor of town 3?", "Mira 59"):
                scores = {hit.entry: hit.score for hit in theirs.nearest(query, 60)}
                # The server normalises vectors once more.
                assert {hit.entry: hit.score for hit in ours.nearest(query, 60)} == pytest.approx(scores, abs=1e-4)
            np.testing.assert_array_equal(ours.embed(["a b"]), theirs.embed(["a b"]))
        with ChromaMemory(server, SMALL, superseding="time", name="run-b") as other:
            assert other.count() == 0
