"""A provider on 127.0.0.1 that takes a fixed time a reply and little processor time, and OpenAI's client alone."""

import asyncio
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import NamedTuple

Responder = Callable[[str], str]
"""Says what the model answers to the last message; a module's function, since another process calls it."""


class Served(NamedTuple):
    """What a provider met: requests, the most of them at once, when the first came (monotonic), its processor time."""

    requests: int
    at_once: int
    first: float
    cpu: float


class Serving:
    """A provider's address, and what it met, once the `with` has ended."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spec = f"openai:walker@{url}"
        self.served = Served(0, 0, 0.0, 0.0)


class _Counts:
    """What all connections of a server share."""

    def __init__(self, responder: Responder, latency: float) -> None:
        self.responder, self.latency = responder, latency
        self.requests = self.now = self.most = 0
        self.first = 0.0


class _Chat(asyncio.Protocol):
    """One connection that is kept open: chat completions, one after the other."""

    def __init__(self, counts: _Counts) -> None:
        self._counts = counts
        self._content = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._content += data
        head, end, body = self._content.partition(b"\r\n\r\n")
        _, length, rest = head.lower().partition(b"content-length:")
        if not end or not length or len(body) < int(rest.partition(b"\r\n")[0]):
            return
        self._content = b""
        counts = self._counts
        counts.first = counts.first or time.monotonic()
        counts.requests += 1
        counts.now += 1
        counts.most = max(counts.most, counts.now)
        asyncio.get_running_loop().call_later(counts.latency, self._reply, json.loads(body))

    def _reply(self, body: dict[str, object]) -> None:
        self._counts.now -= 1
        messages = body["messages"]
        assert isinstance(messages, list)
        text = self._counts.responder("\n" + "\n".join(message["content"] for message in messages))
        message = {"role": "assistant", "content": text}
        reply = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "walker",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }
        content = json.dumps(reply).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        self._transport.write(head.encode() + content)


@contextmanager
def serving(responder: Responder, latency: float) -> Iterator[Serving]:
    """A provider that takes `latency` seconds a reply, in another process: a true one takes no time of this one."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(there, responder, latency), daemon=True)
    process.start()
    there.close()
    try:
        told = Serving(here.recv())
        yield told
        here.send("enough")
        told.served = Served(*here.recv())
    finally:
        here.close()
        process.join(10)
        if process.is_alive():
            process.terminate()


def _serve(told: Connection, responder: Responder, latency: float) -> None:
    asyncio.run(_serve_until_told(told, _Counts(responder, latency)))


async def _serve_until_told(told: Connection, counts: _Counts) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    server = await loop.create_server(lambda: _Chat(counts), "127.0.0.1", 0, backlog=1024)
    told.send(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    cpu = time.process_time()
    loop.add_reader(told.fileno(), over.set)  # also where whoever asked has given up
    await over.wait()
    if told.poll() and told.recv():
        told.send((counts.requests, counts.most, counts.first, time.process_time() - cpu))


class Alone(NamedTuple):
    """OpenAI's client without Emend: when the last reply came (monotonic), processor seconds, the process's peak."""

    end: float
    cpu: float
    peak_mb: float


def ask_alone(url: str, chains: Sequence[int], at_once: int, processes: int = 1) -> Alone:
    """Make chains of so many calls each that follow one another: twice as many chains as calls are under way.

    Of several processes, which begin together, each has its share of both.
    """
    if processes == 1:
        return _ask_all(url, chains, at_once)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _load_client, (context.Barrier(processes),)) as pool:
        shares = [
            pool.submit(_ask_all, url, chains[place::processes], at_once // processes) for place in range(processes)
        ]
        alone = [share.result() for share in shares]
    return Alone(max(each.end for each in alone), sum(each.cpu for each in alone), max(each.peak_mb for each in alone))


def _load_client(all_have_it: Barrier) -> None:
    import openai  # noqa: F401

    all_have_it.wait()


def _ask_all(url: str, chains: Sequence[int], at_once: int) -> Alone:
    from openai import AsyncOpenAI

    async def ask_all() -> Alone:
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            calls, waiting = asyncio.Semaphore(at_once), iter(chains)
            cpu = time.process_time()
            await asyncio.gather(*(_ask_chains(waiting, lambda: _ask(client, calls)) for _ in range(2 * at_once)))
            return Alone(time.monotonic(), time.process_time() - cpu, peak_mb())

    return asyncio.run(ask_all())


async def _ask_chains(waiting: Iterator[int], ask: Callable[[], Awaitable[None]]) -> None:
    for count in waiting:
        for _ in range(count):
            await ask()


async def _ask(client: object, calls: asyncio.Semaphore) -> None:
    async with calls:
        await client.chat.completions.create(  # type: ignore[attr-defined]
            model="walker", temperature=0, messages=[{"role": "user", "content": "Where does the trail end?" * 20}]
        )


def peak_mb() -> float:
    """The most memory that this process held, in MB."""
    told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return told / 2**20
