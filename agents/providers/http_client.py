"""HTTP client that bounds every exchange with a provider: its time, the size of the reply, and where it is sent."""

import importlib
import json
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

from emend.agents.providers.errors import BadExchange
from emend.agents.providers.http_network import BoundedTransport, call_end, time_of_end
from emend.agents.providers.repair import replace_usage
from emend.memory.errors import ModelUnreachable, RequestRefused
from emend.memory.redaction import add_secret_headers, hide_keys

MAX_REDIRECTS = 5
STEP = 1 << 16
"""Bytes that are decompressed at once."""
OF_THE_TRANSFER = {"content-length", "transfer-encoding", "content-encoding"}
GZIP = {"gzip", "x-gzip", "deflate"}


class BoundedExchanges:
    """Mixin for the HTTP clients of OpenAI's and Anthropic's packages, which have an httpx each.

    A redirect is followed to the same origin only: the prompt, and with some clients the key, would go elsewhere. A
    usage that is not made of numbers is replaced, see `replace_usage`.

    Args:
        seconds: limit of one exchange, from the connection to the end of the reply.
        max_bytes: limit of a reply's body, decompressed.
        proxy: the address that requests go through; None takes those of the environment.
        settings: of the client.
    """

    is_json: ClassVar[bool] = True
    """Whether replies must be JSON."""

    def __init__(self, seconds: float, max_bytes: int, proxy: Any = None, **settings: Any) -> None:
        client = next(base for base in type(self).__mro__ if base.__name__ == "Client")
        settings["transport"] = BoundedTransport(client.__module__.partition(".")[0], proxy)
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
        add_secret_headers(request.headers)
        request.headers["Accept-Encoding"] = "identity"
        end = min(time.monotonic() + self.seconds, time_of_end())
        with call_end(end):
            try:
                return self._exchange(request, stream, options, end)
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
