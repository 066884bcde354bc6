"""HTTP client that bounds every exchange with a provider: its time, the size of the reply, and where it is sent."""

import importlib
import json
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from emend.agents.providers.errors import BadExchange
from emend.memory.errors import ModelUnreachable, RequestRefused
from emend.memory.redaction import add_secret_headers, hide_keys

MAX_REDIRECTS = 5
MOST_TOKENS = 10**12
"""A larger number of tokens is no number of tokens."""
STEP = 1 << 16
"""Bytes that are decompressed at once."""
OF_THE_TRANSFER = {"content-length", "transfer-encoding"}
GZIP = {"gzip", "x-gzip", "deflate"}
_CALL_END: ContextVar[float] = ContextVar("call_end", default=float("inf"))


@contextmanager
def call_end(at: float) -> Iterator[None]:
    """End exchanges that are made inside at this time of `time.monotonic`."""
    token = _CALL_END.set(at)
    try:
        yield
    finally:
        _CALL_END.reset(token)


class BoundedExchanges:
    """Mixin for the HTTP clients of OpenAI's and Anthropic's packages, which have an httpx each.

    A redirect is followed to the same origin only: the prompt, and with some clients the key, would go elsewhere. A
    usage that is not made of numbers is replaced, see `replace_usage`.

    Args:
        seconds: limit of one exchange, from the connection to the end of the reply.
        max_bytes: limit of a reply's body, decompressed.
        settings: of the client.
    """

    def __init__(self, seconds: float, max_bytes: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.seconds, self.max_bytes = seconds, max_bytes

    def __del__(self) -> None:
        with suppress(Exception):  # at the interpreter's end parts of it may be gone
            self.close()  # type: ignore[attr-defined]

    def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """Send a request; a stream is bounded while it is read, any other reply is read here.

        Raises:
            BadExchange: a limit is exceeded, the reply is not JSON, or the provider redirects elsewhere.
        """
        add_secret_headers(dict(request.headers))
        request.headers["Accept-Encoding"] = "identity"
        end = min(time.monotonic() + self.seconds, _CALL_END.get())
        return self._until(end, lambda: self._exchange(request, stream, options, end))

    def _until(self, end: float, act: Callable[[], Any]) -> Any:
        """Return the result; a thread of its own can be left behind where a server keeps it waiting."""
        future = Future[Any]()

        def work() -> None:
            try:
                future.set_result(act())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, name="emend-http", daemon=True).start()
        try:
            return future.result(end - time.monotonic())
        except TimeoutError:
            future.add_done_callback(lambda late: late.exception() or late.result().close())
            raise self._too_slow() from None

    def _exchange(self, request: Any, stream: bool, options: dict[str, Any], end: float) -> Any:
        response = self._open(request, options)
        pieces = self._pieces(response, end)
        if stream and "text/event-stream" in response.headers.get("content-type", ""):
            return _with_body(response, _with_usage_in_lines(pieces))
        content = b"".join(pieces)
        return _with_body(response, _checked(content) if response.is_success else content)

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
        encoding = response.headers.pop("content-encoding", "identity").lower()
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
                    raise self._too_slow()
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
        finally:
            body.close()

    def _too_slow(self) -> BadExchange:
        return BadExchange(
            ModelUnreachable,
            f"no whole reply within the deadline of {self.seconds:g} s. Allow more: --set model.deadline=SECONDS.",
        )


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
