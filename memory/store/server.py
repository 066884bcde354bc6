"""Client of a Chroma server: every wait and every reply is bounded, and what failed in passing is repeated."""

import threading
import time
from typing import Any

import chromadb
import httpx
from chromadb.api import fastapi
from chromadb.config import Settings, System
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

CONNECT_SECONDS, READ_SECONDS, REPLY_SECONDS = 10.0, 60.0, 120.0
"""Bounds on a connection, on the wait for the next bytes of a reply, and on a whole reply."""
REPLY_BYTES = 500_000_000
"""Far more than `collection.PAGE` rows with their vectors take."""
ATTEMPTS = 5
BUSY = (429, 502, 503, 504)


class ServerBusy(httpx.HTTPError):
    """A reply that asks to be asked again."""


class BoundedSession(httpx.Client):
    """The HTTP session of Chroma's client, which by itself would wait and read without end.

    Each request may be repeated: all that the memory sends has the same effect twice as once. Until the server has
    answered once nothing is repeated, since its address may be wrong.
    """

    answered = False

    def request(self, method: str, url: httpx.URL | str, **options: Any) -> httpx.Response:
        """Return the reply, read whole.

        Raises:
            httpx.HTTPError: there is none, it is too long or takes too long, or the server stays busy.
        """
        retrying = Retrying(
            retry=retry_if_exception_type((httpx.TransportError, ServerBusy)),
            stop=stop_after_attempt(ATTEMPTS if self.answered else 1),
            wait=wait_random_exponential(multiplier=0.25, max=4),
            reraise=True,
        )
        response: httpx.Response = retrying(self._request_once, method, url, options)
        self.answered = True
        return response

    def _request_once(self, method: str, url: httpx.URL | str, options: dict[str, Any]) -> httpx.Response:
        start, content = time.monotonic(), bytearray()
        with self.stream(method, url, **options) as response:
            for part in response.iter_bytes():
                content += part
                if len(content) > REPLY_BYTES or time.monotonic() - start > REPLY_SECONDS:
                    raise httpx.HTTPError(f"a reply of over {REPLY_BYTES:,} bytes, or that takes {REPLY_SECONDS:.0f} s")
        if response.status_code in BUSY:
            raise ServerBusy(f"HTTP {response.status_code}")
        # Without the headers: the content is decoded already.
        return httpx.Response(response.status_code, content=bytes(content), request=response.request)


class BoundedApi(fastapi.FastAPI):
    """Chroma's client of a server, with a bounded session."""

    def __init__(self, system: System) -> None:
        super().__init__(system)
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        with self._session as unbounded:
            self._session = BoundedSession(timeout=timeout, limits=self.http_limits, headers=unbounded.headers)


_constructing, _UNBOUNDED = threading.Lock(), fastapi.FastAPI


def bounded_client(host: str, port: int, ssl: bool, settings: Settings) -> Any:
    """Connect to a server by `chromadb.HttpClient`, which looks its class for requests up by this name alone."""
    with _constructing:
        try:
            fastapi.FastAPI = BoundedApi  # type: ignore[misc]
            return chromadb.HttpClient(host, port, ssl=ssl, settings=settings)
        finally:
            fastapi.FastAPI = _UNBOUNDED  # type: ignore[misc]
