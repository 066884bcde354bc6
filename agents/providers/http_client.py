"""HTTP client that bounds every exchange with a provider: its time, the size of the reply, and where it is sent."""

import copy
import importlib
import json
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, ClassVar, TypeVar

from emend.agents.providers.errors import BadExchange
from emend.memory.errors import ModelUnreachable, RequestRefused
from emend.memory.redaction import add_secret_headers, hide_keys

MAX_REDIRECTS = 5
MOST_TOKENS = 10**12
"""A larger number of tokens is no number of tokens."""
STEP = 1 << 16
"""Bytes that are decompressed at once."""
OF_THE_TRANSFER = {"content-length", "transfer-encoding", "content-encoding"}
GZIP = {"gzip", "x-gzip", "deflate"}
CHUNK_BYTES = 1 << 16
"""Bytes that are sent between two looks at the clock."""
FRESH = 1.0
"""Seconds after a reply for which its connection is taken to be open; servers close idle ones after more."""
T = TypeVar("T")
_CALL_END: ContextVar[float] = ContextVar("call_end", default=float("inf"))


@contextmanager
def call_end(at: float) -> Iterator[None]:
    """End exchanges that are made inside at this time of `time.monotonic`."""
    token = _CALL_END.set(at)
    try:
        yield
    finally:
        _CALL_END.reset(token)


def _left(timeout: float | None) -> float:
    """Seconds that one more wait for the network may take: a server may send a byte whenever one is about to be missed.

    Raises:
        TimeoutError: none.
    """
    left = _CALL_END.get() - time.monotonic()
    if left <= 0:
        raise TimeoutError("the call's time is over")
    return left if timeout is None else min(timeout, left)


def _until(end: float, act: Callable[[], T], close: Callable[[T], object]) -> T:
    """Return the result of a thread of its own, which can be left behind where the network keeps it waiting.

    Raises:
        TimeoutError: there was none by the end; a late one is closed.
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
    """Network stream of httpcore that waits for a server until the call ends, however slowly it sends or reads.

    Head and body of a request are sent together, before the reply is waited for: each wait lets other threads run.
    """

    def __init__(self, stream: Any, network: "BoundedNetwork") -> None:
        self._stream, self._network = stream, network
        self._unsent: list[bytes] = []
        self._used = 0.0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Send what was written, and return what has come."""
        if self._unsent:
            with suppress(Exception):  # the server may have closed its side, and have said why
                self._send(timeout)
        content: bytes = b""
        try:
            content = self._stream.read(max_bytes, _left(timeout))
        except Exception as error:
            if isinstance(error.__cause__, ConnectionError):
                self._network.fresh_seconds = 0.0
            raise
        if not content:  # the server closes connections without saying so
            self._network.fresh_seconds = 0.0
        self._used = time.monotonic()
        return content

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Keep a little, and send much."""
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
        """Encrypt: a handshake has many messages, and a server may delay each."""
        stream = self._stream
        secured = _until(_CALL_END.get(), lambda: stream.start_tls(*args, **settings), lambda late: late.close())
        return BoundedStream(secured, self._network)

    def get_extra_info(self, info: str) -> Any:
        """Return what the stream tells of its socket; one that was just read from is taken to be open.

        To ask the system whether the server has closed it lets other threads run, while the call holds its place.
        A call that meets a closed connection is made again, and from then on the system is asked.
        """
        if info == "is_readable" and time.monotonic() - self._used < self._network.fresh_seconds:
            return False
        return self._stream.get_extra_info(info)


class BoundedNetwork:
    """Network backend of httpcore whose streams are bounded by the call's end."""

    def __init__(self, network: Any) -> None:
        self._network = network
        self.fresh_seconds = FRESH

    def connect_tcp(self, *args: Any, **settings: Any) -> BoundedStream:
        """Connect: a name may have many addresses, and each be waited for."""
        connect = self._network.connect_tcp
        stream = _until(_CALL_END.get(), lambda: connect(*args, **settings), lambda late: late.close())
        return BoundedStream(stream, self)

    def connect_unix_socket(self, *args: Any, **settings: Any) -> BoundedStream:
        """Connect to a socket of this machine."""
        return BoundedStream(self._network.connect_unix_socket(*args, **settings), self)

    def sleep(self, seconds: float) -> None:
        """Wait between two attempts to connect."""
        time.sleep(_left(seconds))


class Connections:
    """Connections of httpcore, each in a pool of its own.

    A pool shared by many threads looks at all of its connections twice a request, and asks the system about the idle
    ones, while all threads wait for its lock: with 64 calls at once that is the longest wait of a call.

    Args:
        pool: pool without connections, of which the others are copies.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._idle, self._all = deque[Any](), list[Any]()

    def handle_request(self, request: Any) -> Any:
        """Send a request over the connection that was used last, since that of another may have been closed."""
        try:
            pool = self._idle.pop()
        except IndexError:
            pool = self._new_pool()
        try:
            response = pool.handle_request(request)
        except BaseException:
            self._idle.append(pool)
            raise
        response.stream = _ResponseBody(response.stream, lambda: self._idle.append(pool))
        return response

    def _new_pool(self) -> Any:
        pool = copy.copy(self._pool)  # shares what is slow to make, the certificates
        pool._connections, pool._requests = [], []
        pool._optional_thread_lock = type(self._pool._optional_thread_lock)()
        self._all.append(pool)
        return pool

    def close(self) -> None:
        """Close all connections."""
        for pool in self._all:
            pool.close()


class _ResponseBody:
    """Body of a response, whose connection is free again when it is closed."""

    def __init__(self, stream: Any, give_back: Callable[[], None]) -> None:
        self._stream, self._give_back = stream, give_back

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        """Close the body, once."""
        give_back, self._give_back = self._give_back, lambda: None
        try:
            self._stream.close()
        finally:
            give_back()


class BoundedExchanges:
    """Mixin for the HTTP clients of OpenAI's and Anthropic's packages, which have an httpx each.

    A redirect is followed to the same origin only: the prompt, and with some clients the key, would go elsewhere. A
    usage that is not made of numbers is replaced, see `replace_usage`.

    Args:
        seconds: limit of one exchange, from the connection to the end of the reply.
        max_bytes: limit of a reply's body, decompressed.
        settings: of the client.
    """

    is_json: ClassVar[bool] = True
    """Whether replies must be JSON."""

    def __init__(self, seconds: float, max_bytes: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.seconds, self.max_bytes = seconds, max_bytes
        self._is_bounded = _bound_network(self)

    def __del__(self) -> None:
        with suppress(Exception):  # at the interpreter's end parts of it may be gone
            self.close()  # type: ignore[attr-defined]

    def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """Send a request; a stream is bounded while it is read, any other reply is read here.

        Raises:
            BadExchange: a limit is exceeded, the reply is not JSON, or the provider redirects elsewhere.
        """
        add_secret_headers(request.headers)
        request.headers["Accept-Encoding"] = "identity"
        end = min(time.monotonic() + self.seconds, _CALL_END.get())
        with call_end(end):
            try:
                if self._is_bounded:
                    return self._exchange(request, stream, options, end)
                return _until(end, lambda: self._exchange(request, stream, options, end), lambda late: late.close())
            except Exception as error:
                self._refuse_late(error, end)
                raise

    def _exchange(self, request: Any, stream: bool, options: dict[str, Any], end: float) -> Any:
        response = self._open(request, options)
        pieces = self._pieces(response, end)
        if stream and "text/event-stream" in response.headers.get("content-type", ""):
            return _with_body(response, _with_usage_in_lines(pieces))
        content = b"".join(pieces)
        return _with_body(response, _checked(content) if self.is_json and response.is_success else content)

    def _open(self, request: Any, options: dict[str, Any]) -> Any:
        options = options | {"stream": True, "follow_redirects": False}
        for _ in range(MAX_REDIRECTS):
            response = super().send(request, **options)  # type: ignore[misc]
            if response.next_request is None:
                return response
            response.close()
            before, request = request.url, response.next_request
            if (before.scheme, before.host, before.port) != (request.url.scheme, request.url.host, request.url.port):
                break
        raise BadExchange(
            RequestRefused,
            f"the provider redirects to {request.url.scheme}://{request.url.host}, and nothing was sent "
            "there. Give that address yourself if you trust it: PROVIDER:NAME@URL.",
        )

    def _pieces(self, response: Any, end: float) -> Iterator[bytes]:
        """Return the body's pieces, decompressed, within the bounds."""
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding not in {"identity", *GZIP}:
            response.close()
            raise BadExchange(ModelUnreachable, f"the reply is encoded as '{encoding}', which was not asked for.")
        return self._bounded(response.stream, encoding in GZIP, end)

    def _bounded(self, body: Any, is_zipped: bool, end: float) -> Iterator[bytes]:
        unzip = zlib.decompressobj(47) if is_zipped else None  # 47: gzip or zlib, by the header
        size = 0
        try:
            for piece in _unzipped(body, unzip) if unzip else body:
                if time.monotonic() > end:
                    raise TimeoutError
                size += len(piece)
                if size > self.max_bytes:
                    raise BadExchange(
                        ModelUnreachable,
                        f"the reply is larger than {self.max_bytes / 1e6:g} MB, and was not read on. "
                        "Larger ones are allowed by --set model.reply_mb=NUMBER.",
                    )
                yield piece
        except zlib.error as error:
            raise BadExchange(ModelUnreachable, f"the reply cannot be decompressed: {error}.") from error
        except Exception as error:
            self._refuse_late(error, end)
            raise
        finally:
            body.close()

    def _refuse_late(self, error: Exception, end: float) -> None:
        """Raise that the exchange took too long, in place of an error of the network's after its end."""
        if time.monotonic() < end or isinstance(error, BadExchange):
            return
        raise BadExchange(
            ModelUnreachable,
            f"no whole reply within the deadline of {self.seconds:g} s. Allow more: --set model.deadline=SECONDS.",
        ) from error


def _unzipped(body: Iterable[bytes], unzip: Any) -> Iterator[bytes]:
    """Yield what the body holds in small pieces: a few bytes may hold a thousand times as many."""
    for raw in body:
        yield unzip.decompress(raw, STEP)
        while unzip.unconsumed_tail:
            yield unzip.decompress(unzip.unconsumed_tail, STEP)


def _checked(content: bytes) -> bytes:
    """Return a body that is JSON, with a usage that is made of numbers."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        beginning = hide_keys(" ".join(content[:2000].decode(errors="replace").split()))[:100]
        raise BadExchange(ModelUnreachable, f"the reply was not JSON: {beginning!r}.") from None
    return json.dumps(body).encode() if replace_usage(body) else content


def _bound_network(client: Any) -> bool:
    """Bound the waits of a client's connections; False if the parts of its library are not the known ones."""
    transports = [client._transport, *filter(None, client._mounts.values())]
    pools = [getattr(transport, "_pool", None) for transport in transports]
    if not all(hasattr(pool, "_network_backend") for pool in pools):
        return False
    for transport, pool in zip(transports, pools, strict=True):
        pool._network_backend = BoundedNetwork(pool._network_backend)  # type: ignore[union-attr]
        transport._pool = Connections(pool)
    return True


def bound_exchanges(model: Any, provider: str, **bounds: Any) -> None:
    """Make a chat model of OpenAI or Anthropic send its requests within bounds, see `BoundedExchanges`."""
    base = importlib.import_module(provider).DefaultHttpxClient
    proxy = getattr(model, f"{provider}_proxy", None)
    http_client = type("BoundedClient", (BoundedExchanges, base), {})(**bounds, proxy=proxy)
    if provider == "openai":
        model.root_client = model.root_client.with_options(http_client=http_client)
        model.client = model.root_client.chat.completions
    else:
        model.__dict__["_client"] = model._client.with_options(http_client=http_client)  # a cached property


def _with_body(response: Any, content: bytes | Iterator[bytes]) -> Any:
    """Return the response with another body."""
    headers = {name: text for name, text in response.headers.items() if name not in OF_THE_TRANSFER}
    return type(response)(response.status_code, headers=headers, content=content, request=response.request)


def _with_usage_in_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield _event_line(line) + b"\n"
    yield rest


def _event_line(line: bytes) -> bytes:
    if line.startswith(b"data:") and b'"usage"' in line:
        try:
            body = json.loads(line[5:])
        except (ValueError, RecursionError):
            return line
        if replace_usage(body):
            return b"data: " + json.dumps(body).encode()
    return line


def replace_usage(body: Any) -> bool:
    """Put zeros in place of a usage that is not made of numbers; return True if there is one.

    `repaired` takes zeros for an unknown usage, and clients need the fields.
    """
    holders = [body, body.get("response"), body.get("message")] if isinstance(body, dict) else []
    wrong = [holder for holder in holders if isinstance(holder, dict) and not _is_usage(holder.get("usage") or {})]
    for holder in wrong:
        usage = holder["usage"] if isinstance(holder["usage"], dict) else {}
        holder["usage"] = {name: 0 for name in usage if name.endswith("tokens")} or None
    return bool(wrong)


def _is_usage(usage: Any) -> bool:
    return isinstance(usage, dict) and all(
        _is_usage(value) if isinstance(value, dict) else value is None or _is_count(value)
        for name, value in usage.items()
        if name.endswith(("tokens", "details"))
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
