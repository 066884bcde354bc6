"""An HTTP client that limits the duration, reply size and redirects of every exchange with a
provider.
"""

import importlib
import json
import re
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

from emend.agents.providers.errors.rejection import BadExchange
from emend.agents.providers.http_network import BoundedTransport, call_end, time_of_end
from emend.agents.providers.repair import replace_usage
from emend.memory.errors import ModelUnreachable, RequestRefused
from emend.memory.json_files import DEPTH_LIMIT, is_too_deep
from emend.memory.redaction import add_headers_of_user, add_secret_headers, hide_keys

MAX_REDIRECTS = 5
# Bytes that are decompressed per step.
STEP = 1 << 16
OF_THE_TRANSFER = {b"content-length", b"transfer-encoding", b"content-encoding"}
# Lines of a stream of events may end in any of the three ways.
_LINE_END = re.compile(rb"(?<=[\r\n])")
GZIP = {"gzip", "x-gzip", "deflate"}


class BoundedExchanges:
    """Mixin for the HTTP clients of OpenAI's and Anthropic's packages, which use different httpx
    packages.

    Redirects are followed only to the same origin, since the prompt, and with some clients the key,
    would be sent elsewhere. A usage with values that are not numbers is replaced, see
    `replace_usage`.

    Args:
        seconds: time limit of one exchange, from connecting to the end of the reply.
        max_bytes: size limit of a reply's decompressed body.
        proxy: the proxy's address; None uses the proxies of the environment.
        settings: settings of the client.
    """

    is_json: ClassVar[bool] = True
    """True if replies must be JSON."""

    def __init__(self, seconds: float, max_bytes: int, proxy: Any = None, **settings: Any) -> None:
        client = next(base for base in type(self).__mro__ if base.__name__ == "Client")
        settings["transport"] = BoundedTransport(client.__module__.partition(".")[0], proxy)
        super().__init__(**settings)
        self.seconds, self.max_bytes = seconds, max_bytes

    def __del__(self) -> None:
        with suppress(Exception):  # at interpreter shutdown parts of the client may be gone
            self.close()  # type: ignore[attr-defined]

    def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """Send a request; a stream is limited while it is read, any other reply is read here.

        Raises:
            BadExchange: a limit is exceeded, the reply is not JSON, or the provider redirects
                elsewhere.
        """
        add_secret_headers(request.headers.raw)
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
        return _with_body(
            response, _checked(content) if self.is_json and response.is_success else content
        )

    def _open(self, request: Any, options: dict[str, Any]) -> Any:
        options = options | {"stream": True, "follow_redirects": False}
        for _ in range(MAX_REDIRECTS):
            response = self._sent(request, options)
            if response.next_request is None:
                return response
            response.close()
            before, request = request.url, self._redirected(request, response.next_request)
            if (before.scheme, before.host, before.port) != (
                request.url.scheme,
                request.url.host,
                request.url.port,
            ):
                break
        raise BadExchange(
            RequestRefused,
            f"the provider redirects to {request.url.scheme}://{request.url.host}, but nothing "
            "was sent there. If you trust that address, give it yourself: PROVIDER:NAME@URL.",
        )

    def _sent(self, request: Any, options: dict[str, Any]) -> Any:
        try:
            return super().send(request, **options)  # type: ignore[misc]
        except Exception as error:
            # httpx raises it for a redirect to `javascript:x`, and it is none of its HTTP errors
            if type(error).__name__ != "InvalidURL":
                raise
            raise BadExchange(
                RequestRefused, "the provider redirects to an invalid address. Check its URL."
            ) from error

    def _redirected(self, request: Any, following: Any) -> Any:
        """Return the unchanged request after a redirect, which httpx would turn into a GET without
        body.
        """
        if request.method == following.method:
            return following
        headers = {**request.headers, "host": following.headers["host"]}
        return type(request)(request.method, following.url, headers=headers, content=request.read())

    def _pieces(self, response: Any, end: float) -> Iterator[bytes]:
        """Yield the decompressed pieces of the body within the limits."""
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding not in {"identity", *GZIP}:
            response.close()
            raise BadExchange(
                ModelUnreachable,
                f"the reply has the encoding '{encoding}', which the request did not accept.",
            )
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
                        f"the reply is larger than {self.max_bytes / 1e6:g} MB: the rest was not "
                        "read. Allow larger replies: --set model.reply_mb=NUMBER.",
                    )
                yield piece
        except zlib.error as error:
            raise BadExchange(
                ModelUnreachable, f"the reply cannot be decompressed: {error}."
            ) from error
        except Exception as error:
            self._refuse_late(error, end)
            raise
        finally:
            body.close()

    def _refuse_late(self, error: Exception, end: float) -> None:
        """Raise a timeout of the exchange instead of the network error that it caused."""
        if time.monotonic() < end or isinstance(error, BadExchange):
            return
        raise BadExchange(
            ModelUnreachable,
            f"no complete reply within the deadline of {self.seconds:g} s. Allow more: --set "
            "model.deadline=SECONDS.",
        ) from error


def _unzipped(body: Iterable[bytes], unzip: Any) -> Iterator[bytes]:
    """Decompress the body in small pieces, since a few bytes may expand a thousandfold."""
    for raw in body:
        yield unzip.decompress(raw, STEP)
        while unzip.unconsumed_tail:
            yield unzip.decompress(unzip.unconsumed_tail, STEP)


def _checked(content: bytes) -> bytes:
    """Return a JSON body after replacing a usage that is not made of numbers.

    Raises:
        BadExchange: it is not JSON, or nested so deeply that it could not be processed.
    """
    try:
        body = json.loads(content)
        is_deep = content.count(b"[") + content.count(b"{") > DEPTH_LIMIT and is_too_deep(body)
    except RecursionError:
        is_deep = True
    except ValueError:
        beginning = hide_keys(" ".join(content[:2000].decode(errors="replace").split()))[:100]
        raise BadExchange(
            ModelUnreachable,
            f"the reply was not JSON: {beginning!r}. Check that the address is that of the API.",
        ) from None
    if is_deep:
        raise BadExchange(
            ModelUnreachable,
            f"the reply is nested more than {DEPTH_LIMIT} levels deep. Check that the address is "
            "that of the API.",
        )
    return json.dumps(body).encode() if replace_usage(body) else content


def bound_exchanges(model: Any, provider: str, **bounds: Any) -> None:
    """Limit the exchanges of a chat model of OpenAI or Anthropic, see `BoundedExchanges`."""
    base = importlib.import_module(provider).DefaultHttpxClient
    proxy = getattr(model, f"{provider}_proxy", None)
    http_client = type("BoundedClient", (BoundedExchanges, base), {})(**bounds, proxy=proxy)
    sdk = model.root_client if provider == "openai" else model._client
    add_headers_of_user({"headers": sdk._custom_headers})  # also those of the environment
    if provider == "openai":
        model.root_client = sdk.with_options(http_client=http_client)
        model.client = model.root_client.chat.completions
    else:
        # a cached property
        model.__dict__["_client"] = sdk.with_options(http_client=http_client)


def _with_body(response: Any, content: bytes | Iterator[bytes]) -> Any:
    """Return the response with another body."""
    raw = response.headers.raw
    headers = [(name, text) for name, text in raw if name.lower() not in OF_THE_TRANSFER]
    changed = type(response)(
        response.status_code, headers=headers, content=content, request=response.request
    )
    if not _is_text_encoding(changed.charset_encoding or "utf-8"):
        changed.encoding = "utf-8"
    return changed


def _is_text_encoding(name: str) -> bool:
    """Return whether Python decodes texts by a charset; it also has `zlib`, `hex` and others."""
    try:
        "x".encode(name)
    except (LookupError, UnicodeError):
        return False
    return True


def _with_usage_in_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = _LINE_END.split(rest + piece)
        for line in lines:
            yield _event_line(line)
    yield rest


def _event_line(line: bytes) -> bytes:
    if line.startswith(b"data:") and b'"usage"' in line:
        try:
            body = json.loads(line[5:])
        except (ValueError, RecursionError):
            return line
        if replace_usage(body):
            return b"data: " + json.dumps(body).encode() + line[len(line.rstrip(b"\r\n")) :]
    return line
