"""Client of a Chroma server with timeouts, size limits and retries of transient failures."""

import threading
import time
from typing import Any

import chromadb
import httpx
from chromadb.api import fastapi
from chromadb.config import Settings, System
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

# Timeouts in seconds for connecting, for the next bytes of a reply, and for a whole reply.
CONNECT_SECONDS, READ_SECONDS, REPLY_SECONDS = 10.0, 60.0, 120.0
# Far more than the size of `collection.PAGE` rows with their vectors.
REPLY_BYTES = 500_000_000
ATTEMPTS = 5
BUSY = (429, 502, 503, 504)


class ServerBusy(httpx.HTTPError):
    """A reply that asks the client to retry."""


class BoundedSession(httpx.Client):
    """An HTTP session for Chroma's client, whose own has no timeout and no size limit.

    All requests of the memory are idempotent and may be retried. Before the server's first response
    nothing is retried, since its address may be wrong.
    """

    answered = False

    def request(self, method: str, url: httpx.URL | str, **options: Any) -> httpx.Response:
        """Return the reply after reading it completely.

        Raises:
            httpx.HTTPError: there is no reply, it is too large or too slow, or the server stays
                busy.
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

    def _request_once(
        self, method: str, url: httpx.URL | str, options: dict[str, Any]
    ) -> httpx.Response:
        start, content = time.monotonic(), bytearray()
        with self.stream(method, url, **options) as response:
            for part in response.iter_bytes():
                content += part
                if len(content) > REPLY_BYTES or time.monotonic() - start > REPLY_SECONDS:
                    raise httpx.HTTPError(
                        f"a reply of over {REPLY_BYTES:,} bytes, or that takes "
                        f"{REPLY_SECONDS:.0f} s"
                    )
        if response.status_code in BUSY:
            raise ServerBusy(f"HTTP {response.status_code}")
        # Omit the headers: the content is already decoded.
        return httpx.Response(
            response.status_code, content=bytes(content), request=response.request
        )


class BoundedApi(fastapi.FastAPI):
    """Chroma's server client with a bounded session."""

    def __init__(self, system: System) -> None:
        super().__init__(system)
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        with self._session as unbounded:
            self._session = BoundedSession(
                timeout=timeout, limits=self.http_limits, headers=unbounded.headers
            )


_constructing, _UNBOUNDED = threading.Lock(), fastapi.FastAPI


def bounded_client(host: str, port: int, ssl: bool, settings: Settings) -> Any:
    """Connect to a server with `chromadb.HttpClient`, which looks up its API class by this name."""
    with _constructing:
        try:
            fastapi.FastAPI = BoundedApi  # type: ignore[misc]
            return chromadb.HttpClient(host, port, ssl=ssl, settings=settings)
        finally:
            fastapi.FastAPI = _UNBOUNDED  # type: ignore[misc]
