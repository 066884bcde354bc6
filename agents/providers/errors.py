"""Table of providers' errors: one class of Emend's for each remedy, and the pause that a provider asks for."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from emend.agents.providers.retry_after import pause_in_headers, pause_in_words
from emend.memory.errors import (
    ContextOverflow,
    EmendError,
    KeyRefused,
    ModelError,
    ModelReplyError,
    ModelUnreachable,
    ProviderPaused,
    QuotaExhausted,
    RateLimited,
    ReplyCutOff,
    ReplyRefused,
    RequestRefused,
)
from emend.memory.probe import Usage
from emend.memory.redaction import hide_keys

TRANSIENT = (ModelUnreachable, RateLimited)
"""Errors that may pass with time; all others are final."""
NO_CREDIT = re.compile(
    r"insufficient_quota|billing_hard_limit_reached|credit balance|payment required|specified (\w+ )?api usage limits"
)
REGAINED = re.compile(r"regain access on")
"""Words before the day on which a spending limit ends."""
PLAN = re.compile(r"billing|exceeded your current quota")
PASSES = re.compile(r"rate_limit|try again in|retry in|per minute")
"""Words of a limit that passes; a mention of the account's plan beside them is advice."""
REQUESTED = re.compile(r"limit:?\W+([\d,]+)\b[^{}]{0,80}?requested:?\W+([\d,]+)")
"""Tokens per minute that the account has, and those of the request, as OpenAI, Azure and Groq write them."""
OVERSIZED = re.compile(r"request too large|request_too_large|request exceeds the maximum")
"""Words about the size of the request itself, which no wait changes."""
OVERFLOW = re.compile(
    r"context_length_exceeded|context length|context window|prompt is too long|too many tokens|input tokens exceed"
    r"|exceed context limit|exceeds the maximum number of tokens|maximum model length|available context size"
    r"|context size has been exceeded|exceed_context_size|`inputs` tokens \+ `max_new_tokens` must be"
    r"|`inputs` must have less than|exceeds the maximum allowed length|maximum prompt length|input is too long"
)
REPLY_LIMIT = re.compile(r"max_tokens|max_completion_tokens|max_output_tokens")
TOO_LARGE = re.compile(r"too large|at most|too high")
FILTERED = re.compile(
    r"moderation|content_filter|content_policy|content management policy|safety system|content filtering"
    r"|content exists risk|invalid_prompt|data_inspection_failed|inappropriate content"
)
BAD_KEY = re.compile(r"api key not valid|incorrect api key|invalid api key")
"""Words of Gemini and xAI for a wrong key, which they refuse with status 400."""
NO_TOOLS = re.compile(r"requires --jinja")
"""Answer of llama.cpp, with status 500, to tools that it was not started for: a retry does not help."""
NO_ANSWER = {
    "APIConnectionError", "APITimeoutError", "TransportError", "ModelConnectionError", "ModelTimeoutError",
    "ConnectionError", "TimeoutError", "APIResponseValidationError", "JSONDecodeError", "DecodingError",
    "RemoteProtocolError",
}  # fmt: skip
"""Classes of errors without an answer over HTTP, or with a broken body."""
NOT_SENT = {"LocalProtocolError", "UnsupportedProtocol", "InvalidURL", "UnicodeEncodeError", "InvalidHeader"}
"""Classes of errors of a request that no byte was sent of; clients wrap them into those of a lost connection."""


class Row(NamedTuple):
    """Row of the table of errors."""

    kind: type[ModelError]
    problem: str
    remedy: str


CUT = Row(
    ReplyCutOff,
    "the reply was cut off",
    "Allow more new tokens: --set model.max_tokens=4096 (of a judge: judge.max_tokens=4096).",
)
REFUSED = Row(ReplyRefused, "the model declined to answer", "The probe has no answer from this model.")
AWAY = Row(ModelUnreachable, "the provider does not answer", "Check the provider and the address, then resume the run.")
LIMITED = Row(
    RateLimited,
    "the provider asks for fewer calls",
    "Lower --concurrency, or give --rpm and --tpm, then resume the run.",
)
EMPTY = Row(QuotaExhausted, "the account has no credit left", "Add credit at the provider, then resume the run.")
NO_KEY = Row(KeyRefused, "the key is not accepted", "Check the key in the environment and what it may use.")
LONG = Row(
    ContextOverflow,
    "the prompt does not fit the model's context window",
    "Take fewer retrieved entries or a model with a longer window.",
)
TOO_LARGE_AT_ONCE = Row(
    ContextOverflow,
    "the request is larger than the account may send at once",
    "Take fewer retrieved entries, allow fewer new ones (--set model.max_tokens=1024), or raise the provider's limit.",
)
PAUSED = Row(
    ProviderPaused,
    "the account's spending limit is reached",
    "Raise the limit at the provider, or resume the run after that day.",
)
UNSENT = Row(
    RequestRefused,
    "the request cannot be sent",
    "Check the address (PROVIDER:NAME@URL), the headers and the proxy: nothing has gone over the network.",
)
TOO_MANY = Row(
    RequestRefused, "the request was rejected", "Allow fewer new tokens, for example --set model.max_tokens=1024."
)
WRONG = Row(
    RequestRefused,
    "the request was rejected",
    "Check the model's name and its settings (--set model.NAME=VALUE; null sends none).",
)


class BadExchange(Exception):  # noqa: N818  kept apart from the client's own errors by its name
    """An exchange over HTTP that was given up, see `http_client`; `kind` is the error of Emend's for it."""

    def __init__(self, kind: type[ModelError], message: str) -> None:
        super().__init__(message)
        self.kind = kind


class BrokenReply(Exception):  # noqa: N818  kept apart from the client's own errors by its name
    """An unreadable reply that came with status 200; `body` is the error object in it, if there is one."""

    def __init__(self, error: Exception) -> None:
        content = error.args[0] if error.args else ""
        self.body = content if isinstance(content, dict) else _fields(content)
        code = self.body.get("code")
        self.status_code = code if isinstance(code, int) and 400 <= code < 600 else 0
        cause = "" if self.body else f" ({type(error).__name__}: {error})"
        super().__init__(f"the reply cannot be read{cause}")


def _fields(thing: object) -> dict[str, str]:
    """Code and message of a client's error object."""
    fields = {name: str(value) for name in ("code", "message") if (value := getattr(thing, name, None)) is not None}
    return fields if "message" in fields else {}


def as_model_error(error: BaseException, model: str) -> ModelError | None:
    """Return the error of Emend's that names the remedy; None for errors that are not the provider's.

    The classes of clients are known by name, so that none has to be installed.

    Args:
        error: what the client raised.
        model: the model's spec, for the message.
    """
    if isinstance(error, EmendError):
        return error if isinstance(error, ModelError) else None
    for cause in _chain(error):
        if isinstance(cause, BadExchange):
            return cause.kind(f"{model}: {cause}")
    row = _find_row(error)
    if row is None:
        return None
    message = f"{model}: {_problem(error, row)}. {row.remedy}"
    if issubclass(row.kind, ModelReplyError):
        return row.kind(message, _reply(error), _usage(error))
    return row.kind(message)


def _problem(error: BaseException, row: Row) -> str:
    excerpt = hide_keys(" ".join(_message(error).split()))[:300]
    if isinstance(error, BrokenReply) and not error.body and row is not UNSENT:
        return excerpt.rstrip(".")
    code = f" (HTTP {status})" if (status := _status(error)) else ""
    return f"{row.problem}{code}: {excerpt.rstrip('.') or type(error).__name__}"


def _find_row(error: BaseException) -> Row | None:
    kinds, status, text = {kind.__name__ for kind in type(error).__mro__}, _status(error), _text(error)
    if "LengthFinishReasonError" in kinds:
        return CUT
    if kinds & {"OpenAIRefusalError", "ContentFilterFinishReasonError"}:
        return REFUSED
    if "ContextOverflowError" in kinds:
        return LONG
    no_credit = bool(NO_CREDIT.search(text))
    if not no_credit and PLAN.search(text):
        no_credit = status in (400, 403) or (retry_after(error) is None and not PASSES.search(text))
    if status >= 400:
        return _by_status(status, text, no_credit)
    if any(type(cause).__name__ in NOT_SENT for cause in _chain(error)):
        return UNSENT
    if kinds & NO_ANSWER:
        return AWAY
    # Inside a stream an error has a code and no status.
    return _by_text(text, no_credit) if kinds & {"APIError", "BrokenReply"} else None


def _by_status(status: int, text: str, no_credit: bool) -> Row:
    if REGAINED.search(text) and no_credit:
        return PAUSED
    if (size := _size_row(text)) is not None and status in (400, 413, 429):
        return size
    if status == 413:
        return LONG
    if status == 402 or (status in (400, 403, 429) and no_credit):
        return EMPTY
    if status == 400 and BAD_KEY.search(text):
        return NO_KEY
    if status in (401, 403):
        return REFUSED if status == 403 and FILTERED.search(text) else NO_KEY
    if status == 429:
        return LIMITED
    if status == 500 and (OVERFLOW.search(text) or NO_TOOLS.search(text)):
        return LONG if OVERFLOW.search(text) else WRONG
    if status in (408, 409) or status >= 500:
        return AWAY
    if REPLY_LIMIT.search(text) and TOO_LARGE.search(text):
        return TOO_MANY
    return LONG if OVERFLOW.search(text) else REFUSED if FILTERED.search(text) else WRONG


def _size_row(text: str) -> Row | None:
    """Row for a request that names its size: one above the limit never passes, one below it does, after a wait."""
    if numbers := REQUESTED.search(text):
        limit, requested = (int(number.replace(",", "")) for number in numbers.groups())
        return TOO_LARGE_AT_ONCE if requested > limit else LIMITED
    return TOO_LARGE_AT_ONCE if OVERSIZED.search(text) else None


def _by_text(text: str, no_credit: bool) -> Row:
    if no_credit:
        return PAUSED if REGAINED.search(text) else EMPTY
    if (size := _size_row(text)) is not None:
        return size
    if OVERFLOW.search(text):
        return LONG
    if FILTERED.search(text):
        return REFUSED
    return LIMITED if "rate_limit" in text or "too many requests" in text else AWAY


def retry_after(error: BaseException) -> float | None:
    """Return the seconds that the provider asks to be left alone, at least 0; None without such a request."""
    for cause in _chain(error):
        headers = getattr(getattr(cause, "response", None), "headers", None)
        if headers is not None and (pause := pause_in_headers(headers)) is not None:
            return pause
        if headers is not None or hasattr(cause, "body"):
            return pause_in_words(_text(cause))
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def find_status(error: BaseException) -> int:
    """Return the HTTP status of an error or of its cause; 0 without one."""
    return next((status for cause in _chain(error) if (status := _status(cause))), 0)


def _status(error: BaseException) -> int:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and not isinstance(status, bool) else 0


def _message(error: BaseException) -> str:
    """The provider's message; the whole error where its body has none."""
    body = getattr(error, "body", None)
    if isinstance(body, list) and body:  # as Google's compatible endpoint has it
        body = body[0]
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message") if isinstance(inner, dict) else inner if isinstance(inner, str) else None
    cause = str(error.__cause__ or "")
    return str(message) if message else f"{error} ({cause})" if cause and cause not in str(error) else str(error)


def provider_text(error: BaseException) -> str:
    """Return the client's error as text, without Emend's message, which has the model's name in it."""
    return _text(error.__cause__ or error)


def _text(error: BaseException) -> str:
    return f"{error} {getattr(error, 'body', '')} {getattr(error, 'code', '')}".lower()


def _reply(error: BaseException) -> str:
    choices = getattr(getattr(error, "completion", None), "choices", None) or []
    return str(choices[0].message.content or "") if choices else ""


def _usage(error: BaseException) -> Usage | None:
    usage = getattr(getattr(error, "completion", None), "usage", None)
    if usage is None:
        return None
    return Usage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens, calls=1)
