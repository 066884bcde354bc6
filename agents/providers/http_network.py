"""A transport for httpx that enforces a deadline on every wait, built on httpcore's public API."""

import importlib
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar
from urllib.request import getproxies, proxy_bypass

# Bytes that are sent between two checks of the deadline.
CHUNK_BYTES = 1 << 16
# Seconds after a reply for which its connection is assumed to be open; servers close idle ones
# later.
FRESH = 1.0
# Seconds after which an unused connection is closed, as in httpx.
IDLE_SECONDS = 5.0
# TCP keep-alive, to detect a lost server while waiting for its reply, as in Anthropic's client.
KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 60), ("TCP_KEEPCNT", 5))
        if hasattr(socket, name)
    ),
]
# Base classes of httpcore's errors; httpx has classes of the same names.
ERRORS = ("TimeoutException", "NetworkError", "ProtocolError", "ProxyError", "UnsupportedProtocol")
T = TypeVar("T")
_CALL_END: ContextVar[float] = ContextVar("call_end", default=float("inf"))


@contextmanager
def call_end(at: float) -> Iterator[None]:
    """Set the deadline of exchanges made inside the context, as a time of `time.monotonic`."""
    token = _CALL_END.set(at)
    try:
        yield
    finally:
        _CALL_END.reset(token)


def time_of_end() -> float:
    """Return the deadline of the call in seconds of `time.monotonic`; infinite if there is none."""
    return _CALL_END.get()


def _left(timeout: float | None) -> float:
    """Return the seconds left for one more network wait, since a slow server could otherwise reset
    its timeout with every byte.

    Raises:
        TimeoutError: the deadline has passed.
    """
    left = _CALL_END.get() - time.monotonic()
    if left <= 0:
        raise TimeoutError("the call's deadline has passed")
    return left if timeout is None else min(timeout, left)


def _until(end: float, act: Callable[[], T], close: Callable[[T], object]) -> T:
    """Run a function in a separate thread, which is abandoned if the network blocks beyond the
    deadline.

    Raises:
        TimeoutError: there was no result by the deadline; a late one is closed.
    """
    future = Future[T]()

    def work() -> None:
        try:
            future.set_result(act())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="emend-http", daemon=True).start()
    try:
        return future.result(None if end == float("inf") else end - time.monotonic())
    except TimeoutError:
        future.add_done_callback(lambda late: late.exception() or close(late.result()))
        raise


class BoundedStream:
    """A network stream for httpcore that waits at most until the deadline, however slowly the
    server sends or reads.

    The head and body of a request are sent together before waiting for the reply, since each wait
    lets other threads run.
    """

    def __init__(self, stream: Any, network: "BoundedNetwork") -> None:
        self._stream, self._network = stream, network
        self._unsent: list[bytes] = []
        self._used = 0.0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Send the buffered data, and return the received data."""
        if self._unsent:
            # the server may have closed its side after sending the reason
            with suppress(Exception):
                self._send(timeout)
        content: bytes = b""
        try:
            content = self._stream.read(max_bytes, _left(timeout))
        except Exception as error:
            if isinstance(error.__cause__, ConnectionError):
                self._network.fresh_seconds = 0.0
            raise
        if not content:  # the server closes connections without announcing it
            self._network.fresh_seconds = 0.0
        self._used = time.monotonic()
        return content

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Buffer small data, and send large data."""
        self._unsent.append(buffer)
        if len(buffer) > CHUNK_BYTES:
            self._send(timeout)

    def _send(self, timeout: float | None) -> None:
        content, self._unsent = b"".join(self._unsent), []
        for at in range(0, len(content), CHUNK_BYTES):
            self._stream.write(content[at : at + CHUNK_BYTES], _left(timeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(self, *args: Any, **settings: Any) -> "BoundedStream":
        """Start TLS within the deadline: a handshake has several messages, and a server may delay
        each.
        """
        stream = self._stream
        secured = _until(
            _CALL_END.get(), lambda: stream.start_tls(*args, **settings), lambda late: late.close()
        )
        return BoundedStream(secured, self._network)

    def get_extra_info(self, info: str) -> Any:
        """Return information about the socket; one that was just read from is assumed to be open.

        Checking with the system whether the server has closed the socket lets other threads run,
        which delays the call. A call on a closed connection is repeated, and from then on the
        system is asked.
        """
        if info == "is_readable" and time.monotonic() - self._used < self._network.fresh_seconds:
            return False
        return self._stream.get_extra_info(info)


class BoundedNetwork:
    """A network backend for httpcore whose streams respect the deadline."""

    def __init__(self, network: Any) -> None:
        self._network = network
        self.fresh_seconds = FRESH

    def connect_tcp(self, *args: Any, **settings: Any) -> BoundedStream:
        """Connect within the deadline: a name may have many addresses, each with its own wait."""
        connect = self._network.connect_tcp
        stream = _until(
            _CALL_END.get(), lambda: connect(*args, **settings), lambda late: late.close()
        )
        return BoundedStream(stream, self)


class BoundedTransport:
    """A transport with deadlines, whose connections have a pool each.

    A shared pool checks all its connections twice per request, with a system call for each idle
    one, while all threads wait for its lock: with 64 concurrent calls that is the longest wait of a
    call.

    Args:
        library: `httpx`, or `httpx2` of OpenAI's and Anthropic's packages, each of which has an
            httpcore.
        proxy: address of the proxy; None uses the proxies of the environment.
    """

    def __init__(self, library: str, proxy: Any = None) -> None:
        self._httpx = httpx = importlib.import_module(library)
        self._core = core = importlib.import_module(library.replace("httpx", "httpcore"))
        self._certificates = httpx.create_ssl_context()
        self._network = BoundedNetwork(core.SyncBackend())
        self._proxy = None if proxy is None else _as_proxy(httpx, proxy)
        addresses = {} if proxy is not None else getproxies()
        schemes = (name for name in ("http", "https", "all") if addresses.get(name))
        self._proxies = {name: _as_proxy(httpx, addresses[name]) for name in schemes}
        self._errors = tuple(getattr(core, name) for name in ERRORS)
        self._body = type("Body", (_ResponseBody, httpx.SyncByteStream), {})
        self._idle: dict[Any, deque[Any]] = defaultdict(deque)
        self._all: list[Any] = []
        for each in (self._proxy, *self._proxies.values()):
            self._new_pool(each).close()  # an unusable proxy is rejected now

    def handle_request(self, request: Any) -> Any:
        """Send a request over the most recently used connection, since others may have been
        closed.
        """
        proxy = self._proxy or self._environment_proxy(request.url)
        idle = self._idle[proxy and str(proxy.url)]
        try:
            pool = idle.pop()
        except IndexError:
            self._all.append(pool := self._new_pool(proxy))
        url = request.url
        address = self._core.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )
        sent = self._core.Request(
            request.method,
            address,
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            with self._named_errors():
                response = pool.handle_request(sent)
        except BaseException:
            idle.append(pool)
            raise
        body = self._body(response.stream, lambda: idle.append(pool), self._named_errors)
        return self._httpx.Response(
            response.status, headers=response.headers, stream=body, extensions=response.extensions
        )

    def _environment_proxy(self, url: Any) -> Any:
        proxy = self._proxies.get(url.scheme) or self._proxies.get("all")
        return None if proxy is None or proxy_bypass(url.host) else proxy

    def _new_pool(self, proxy: Any) -> Any:
        settings: dict[str, Any] = {
            "ssl_context": self._certificates,
            "network_backend": self._network,
            "keepalive_expiry": IDLE_SECONDS,
        }
        if proxy is None:
            return self._core.ConnectionPool(**settings, socket_options=KEEP_ALIVE)
        settings |= {"proxy_url": self._core.URL(str(proxy.url)), "proxy_auth": proxy.raw_auth}
        if proxy.url.scheme.startswith("socks"):
            return self._core.SOCKSProxy(**settings)
        return self._core.HTTPProxy(
            **settings, proxy_headers=proxy.headers.raw, socket_options=KEEP_ALIVE
        )

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Convert httpcore's errors to httpx's."""
        try:
            yield
        except self._errors as error:
            raise getattr(self._httpx, type(error).__name__)(str(error)) from error

    def close(self) -> None:
        """Close all connections."""
        for pool in self._all:
            pool.close()


def _as_proxy(httpx: Any, address: Any) -> Any:
    if isinstance(address, str) and "://" not in address:
        address = f"http://{address}"
    return address if isinstance(address, httpx.Proxy) else httpx.Proxy(address)


class _ResponseBody:
    """The body of a response; closing it releases the connection."""

    def __init__(
        self, stream: Any, give_back: Callable[[], None], named_errors: Callable[[], Any]
    ) -> None:
        self._stream, self._give_back, self._named_errors = stream, give_back, named_errors

    def __iter__(self) -> Iterator[bytes]:
        with self._named_errors():
            yield from self._stream

    def close(self) -> None:
        """Close the body, once."""
        give_back, self._give_back = self._give_back, lambda: None
        try:
            self._stream.close()
        finally:
            give_back()
