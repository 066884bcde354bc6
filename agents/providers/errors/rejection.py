"""Parsing of a client's error: status, the provider's sentences and codes, and the requested
pause.
"""

import json
import re
from collections.abc import Iterator, Mapping
from html import unescape
from itertools import islice
from typing import Any, NamedTuple

from emend.agents.providers.errors.words import PAGE
from emend.agents.providers.retry_after import pause_in_headers, pause_in_words
from emend.memory.errors import ModelError

# Fields of a body that contain a code, in lower case.
NAMING = {"code", "type", "status", "reason", "param", "quotaid", "errorcode", "error_code"}
# Fields with the provider's message, in order of precedence; `detail` is FastAPI's.
MESSAGES = (
    "message",
    "detail",
    "msg",
    "error",
    "errors",
    "error_msg",
    "error_message",
    "title",
    "reason",
    "raw",
)
# Fields that quote the model or the request, whose words must be ignored.
ECHOED = {
    "failed_generation", "input", "ctx", "prompt", "messages", "body", "url", "user_id",
    "request_id", "id", "loc",
}  # fmt: skip
ADDRESS = re.compile(r"https?://\S+")
END = re.compile(r"[.!?;](?=\s|$)|[\n。!?;]")
HIDDEN = re.compile(r"<(script|style|head)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
TAG = re.compile(r"<[^>]*>")
TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
# Maximum depth of a body that is read, characters of an error's text, and number of its texts: some
# patterns take time that grows with the square of the length.
DEEPEST, LONGEST, MOST = 8, 10_000, 1_000


class BadExchange(Exception):  # noqa: N818  kept apart from the client's own errors by its name
    """An aborted HTTP exchange, see `http_client`; `kind` is Emend's error class for it."""

    def __init__(self, kind: type[ModelError], message: str) -> None:
        super().__init__(message)
        self.kind = kind


class BrokenReply(Exception):  # noqa: N818  kept apart from the client's own errors by its name
    """An unreadable reply that came with status 200; `body` is the error object in it, if there is
    one.
    """

    def __init__(self, error: Exception) -> None:
        content = error.args[0] if error.args else ""
        self.body = content if isinstance(content, dict) else _fields(content)
        code = self.body.get("code")
        self.status_code = code if isinstance(code, int) and 400 <= code < 600 else 0
        cause = "" if self.body else f" ({type(error).__name__}: {error})"
        super().__init__(f"the reply cannot be read{cause}")


def _fields(thing: object) -> dict[str, str]:
    """Code and message of a client's error object."""
    values = {name: getattr(thing, name, None) for name in ("code", "message")}
    fields = {name: str(value) for name, value in values.items() if value is not None}
    return fields if "message" in fields else {}


class Rejection(NamedTuple):
    """A parsed provider error, in lower case and without addresses.

    Args:
        status: HTTP status; 0 without one.
        codes: short texts of the fields with error codes.
        sentences: all other texts, split into sentences.
        pause: requested pause in seconds; None if there is none.
        is_page: whether the response is an HTML page, which does not come from a provider's API.
    """

    status: int
    codes: frozenset[str]
    sentences: tuple[str, ...]
    pause: float | None = None
    is_page: bool = False

    @property
    def text(self) -> str:
        """All codes and sentences as one text."""
        return " ".join((*self.sentences, *sorted(self.codes)))


def read_rejection(error: BaseException) -> Rejection:
    """Parse a client's error; without a body, its own text is used."""
    body = getattr(error, "body", None)
    leaves = islice(_leaves("", body or str(error)), MOST)
    pairs = [*leaves, ("code", str(getattr(error, "code", None) or ""))]
    codes = frozenset(text.lower() for name, text in pairs if name in NAMING and text)
    texts = [text for name, text in pairs if name not in NAMING]
    is_page = bool(PAGE.search(" ".join(texts).lower()))
    readable = (readable_page(text) if is_page else text for text in texts)
    whole = _excerpt("\n".join(readable)).lower()
    sentences = (" ".join(part.split()) for part in END.split(ADDRESS.sub("", whole)))
    pause = retry_after(error)
    return Rejection(status_of(error), codes, tuple(filter(None, sentences)), pause, is_page)


def _leaves(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the texts and numbers of a body with their field names, including JSON within a
    text.
    """
    if depth > DEEPEST or name in ECHOED or isinstance(value, bool) or value is None:
        return
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(str(key).lower(), part, depth + 1)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(name, part, depth + 1)
    elif isinstance(value, str) and (inner := _json_in(value)) is not None:
        yield from _leaves(name, inner, depth + 1)
    else:
        yield name, _excerpt(str(value))


def _json_in(text: str) -> Any:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return inner if isinstance(inner, (dict, list)) else None


def _excerpt(text: str) -> str:
    """Return a text, or beginning and end of a very long one, which may quote the request."""
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]} … {text[-half:]}"


def readable_page(text: str) -> str:
    """Return title and text of an HTML page without tags and scripts, other texts as they are; of
    both an excerpt.
    """
    text = _excerpt(text)
    if not PAGE.search(text.lower()):
        return text
    title = TITLE.search(text)
    visible = TAG.sub(" ", HIDDEN.sub(" ", text))
    return unescape(" ".join(f"{title[1] if title else ''} {visible}".split()))


def message_of(error: BaseException) -> str:
    """Return the provider's message, or the whole error if its body has none."""
    message = _message_in(getattr(error, "body", None))
    if message:
        return readable_page(message)
    cause = str(error.__cause__ or "")
    return readable_page(f"{error} ({cause})" if cause and cause not in str(error) else str(error))


def _message_in(value: Any, depth: int = 0) -> str:
    """Return the message in a body; messages of a list are joined, each with its location in the
    request.
    """
    if isinstance(value, str):
        inner = _json_in(value)
        return _message_in(inner, depth + 1) or value if inner is not None else value
    if isinstance(value, list) and depth <= DEEPEST:
        return "; ".join(filter(None, (_message_in(part, depth + 1) for part in value)))
    if not isinstance(value, Mapping) or depth > DEEPEST:
        return ""
    message = next(filter(None, (_message_in(value.get(name), depth + 1) for name in MESSAGES)), "")
    place = value.get("loc")
    if message and isinstance(place, list):
        return f"{'.'.join(map(str, place))}: {message}"
    metadata = value.get("metadata")
    raw = _message_in(metadata.get("raw")) if isinstance(metadata, Mapping) else ""
    return f"{message} ({raw})" if raw and raw not in message else message


def retry_after(error: BaseException) -> float | None:
    """Return the pause in seconds that the provider asks for, at least 0; None if it asks for
    none.
    """
    for cause in causes(error):
        headers = getattr(getattr(cause, "response", None), "headers", None)
        if headers is not None and (pause := pause_in_headers(headers)) is not None:
            return pause
        if headers is not None or hasattr(cause, "body"):
            return pause_in_words(_text(cause))
    return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def find_status(error: BaseException) -> int:
    """Return the HTTP status of an error or of its cause; 0 without one."""
    return next((status for cause in causes(error) if (status := status_of(cause))), 0)


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error; 0 without one."""
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and not isinstance(status, bool) else 0


def provider_text(error: BaseException) -> str:
    """Return the client's error as text, without Emend's message, which contains the model's
    name.
    """
    return _text(error.__cause__ or error)


def _text(error: BaseException) -> str:
    text = f"{error} {getattr(error, 'body', '')} {getattr(error, 'code', '')}"
    return _excerpt(text).lower()
