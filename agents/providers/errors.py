"""Sorts what a provider's client raises: one class for each remedy, and how long a provider asks to wait."""

from collections.abc import Iterator
from dataclasses import dataclass

from emend.agents.providers.retry_after import pause_in_headers, pause_in_words
from emend.memory.errors import (
    ContextOverflow,
    EmendError,
    KeyRefused,
    ModelError,
    ModelReplyError,
    ModelUnreachable,
    QuotaExhausted,
    RateLimited,
    ReplyCutOff,
    ReplyRefused,
    RequestRefused,
)
from emend.memory.probe import Usage
from emend.memory.redaction import hide_keys

TRANSIENT = (ModelUnreachable, RateLimited)
"""What may pass when one waits; everything else stays as it is."""
NO_CREDIT = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "credit balance",
    "payment required",
    "specified api usage limits",
)
QUOTA = (*NO_CREDIT, "billing", "exceeded your current quota")
PASSES = ("rate_limit", "try again in", "retry in", "per minute")
"""Words of a limit that passes, beside which a hint at the account's plan is advice."""
OVERFLOW = (
    "context_length_exceeded",
    "context length",
    "context window",
    "prompt is too long",
    "too many tokens",
    "input tokens exceed",
    "exceed context limit",
    "exceeds the maximum number of tokens",
    "maximum model length",
    "available context size",
    "context size has been exceeded",
    "exceed_context_size",
    "`inputs` tokens + `max_new_tokens` must be",
    "`inputs` must have less than",
)
TOO_LONG_A_REPLY = ("max_tokens", "max_completion_tokens", "max_output_tokens")
FILTERED = ("content_filter", "content_policy", "content management policy", "safety system", "content filtering")
NO_TOOLS = ("requires --jinja",)
"""With status 500 what llama.cpp says to tools that it was not started for: asking again does not help."""
NO_ANSWER = {"APIConnectionError", "APITimeoutError", "TransportError", "ModelConnectionError", "ModelTimeoutError"}
BROKEN_BODY = {"APIResponseValidationError", "JSONDecodeError", "DecodingError", "RemoteProtocolError"}


@dataclass(frozen=True)
class Told:
    """What of a client's exception decides its class; `status` 0 is no answer over HTTP."""

    kinds: frozenset[str]
    status: int
    text: str
    pause: float | None

    @property
    def spent(self) -> bool:
        """Whether it says that there is no credit left, and not that a limit passes."""
        if _has(self.text, NO_CREDIT):
            return True
        return _has(self.text, QUOTA) and self.pause is None and not _has(self.text, PASSES)


class BrokenReply(Exception):  # noqa: N818  kept apart from the client's own errors by its name
    """A reply that came with status 200 and cannot be read; `body` is the error that stands in it, if there is one."""

    def __init__(self, error: Exception) -> None:
        told = error.args[0] if error.args else ""
        self.body = told if isinstance(told, dict) else _fields(told)
        code = self.body.get("code")
        self.status_code = code if isinstance(code, int) and 400 <= code < 600 else 0
        shown = "" if self.body else f" ({type(error).__name__}: {error})"
        super().__init__(f"the reply cannot be read{shown}")


def _fields(told: object) -> dict[str, str]:
    """The code and message of an error object of a client."""
    found = {name: str(value) for name in ("code", "message") if (value := getattr(told, name, None)) is not None}
    return found if "message" in found else {}


def as_model_error(error: BaseException, model: str, *keys: str) -> ModelError | None:
    """The same as one of Emend's errors, which says what to do; None for what is no provider's doing.

    The classes of clients are known by name, so that none has to be installed.

    Args:
        error: what the client raised.
        model: the model's spec, for the message.
        keys: values to keep out of the message, besides those of the environment.
    """
    if isinstance(error, EmendError):
        return error if isinstance(error, ModelError) else None
    told = Told(_kinds(error), _status(error), _text(error), retry_after(error))
    sort = _of_reply(error, told) or _of_status(told) or _of_transport(told)
    if sort is None:
        return None
    kind, remedy = sort
    shown = hide_keys(" ".join(_message(error).split()), *keys)[:300]
    code = f" (HTTP {told.status})" if told.status else ""
    message = f"{model}: {LEADS[kind]}{code}: {shown.rstrip('.') or type(error).__name__}. {remedy}"
    if issubclass(kind, ModelReplyError):
        return kind(message, _reply(error), _usage(error))
    return kind(message)


LEADS: dict[type[ModelError], str] = {
    ModelUnreachable: "the provider does not answer",
    RateLimited: "the provider asks for fewer calls",
    QuotaExhausted: "the account has no credit left",
    KeyRefused: "the key is not accepted",
    ReplyRefused: "the model declined to answer",
    ReplyCutOff: "the reply was cut off",
    ContextOverflow: "the prompt does not fit the model's window",
    RequestRefused: "the request was rejected",
}
Sort = tuple[type[ModelError], str]
CUT: Sort = (ReplyCutOff, "Allow more new tokens: --set model.max_tokens=4096 (of a judge: judge.max_tokens=4096).")
REFUSED: Sort = (ReplyRefused, "The probe has no answer from this model.")
AWAY: Sort = (ModelUnreachable, "Check the provider and the address, then resume the run.")
LIMITED: Sort = (RateLimited, "Lower --concurrency, or give --rpm and --tpm, then resume the run.")
EMPTY: Sort = (QuotaExhausted, "Add credit at the provider, then resume the run.")
NO_KEY: Sort = (KeyRefused, "Check the key in the environment and what it may use.")
LONG: Sort = (ContextOverflow, "Take fewer retrieved entries or a model with a longer window.")
TOO_MANY: Sort = (RequestRefused, "Allow fewer new tokens, for example --set model.max_tokens=1024.")
WRONG: Sort = (RequestRefused, "Check the model's name and its settings (--set model.NAME=VALUE; null sends none).")


def _of_reply(error: BaseException, told: Told) -> Sort | None:
    if "LengthFinishReasonError" in told.kinds:
        return CUT
    if told.kinds & {"OpenAIRefusalError", "ContentFilterFinishReasonError"}:
        return REFUSED
    return None


def _of_status(told: Told) -> Sort | None:
    status, text = told.status, told.text
    if told.kinds & {"ContextOverflowError"} or status == 413:
        return LONG
    if status == 402 or (status in (400, 403) and _has(text, QUOTA)) or (status == 429 and told.spent):
        return EMPTY
    if status in (401, 403):
        return NO_KEY
    if status == 429:
        return LIMITED
    if status == 500 and _has(text, (*OVERFLOW, *NO_TOOLS)):
        return LONG if _has(text, OVERFLOW) else WRONG
    if status in (408, 409) or status >= 500:
        return AWAY
    if status >= 400:
        if _has(text, TOO_LONG_A_REPLY) and _has(text, ("too large", "at most", "too high")):
            return TOO_MANY
        return LONG if _has(text, OVERFLOW) else REFUSED if _has(text, FILTERED) else WRONG
    return None


def _of_transport(told: Told) -> Sort | None:
    """No answer over HTTP, or a body that is none; inside a stream an error has a code and no status."""
    if told.kinds & (NO_ANSWER | BROKEN_BODY) or told.kinds & {"ConnectionError", "TimeoutError"}:
        return AWAY
    if not told.kinds & {"APIError", "BrokenReply"}:
        return None
    if told.spent:
        return EMPTY
    if _has(told.text, (*OVERFLOW, *FILTERED)):
        return LONG if _has(told.text, OVERFLOW) else REFUSED
    return LIMITED if _has(told.text, ("rate_limit", "too many requests")) else AWAY


def _has(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def retry_after(error: BaseException) -> float | None:
    """The seconds for which the provider asks to be left alone, not below 0; None when it does not say."""
    for one in _chain(error):
        headers = getattr(getattr(one, "response", None), "headers", None)
        if headers is not None and (pause := pause_in_headers(headers)) is not None:
            return pause
        if headers is not None or hasattr(one, "body"):
            return pause_in_words(_text(one))
    return None


def _kinds(error: BaseException) -> frozenset[str]:
    return frozenset(kind.__name__ for kind in type(error).__mro__)


def _chain(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__


def status_of(error: BaseException) -> int:
    """The HTTP status that an error, or what caused it, came with; 0 without one."""
    return next((status for one in _chain(error) if (status := _status(one))), 0)


def _status(error: BaseException) -> int:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and not isinstance(status, bool) else 0


def _message(error: BaseException) -> str:
    """What the provider says, without the whole body where it has a message."""
    body = getattr(error, "body", None)
    if isinstance(body, list) and body:  # as Google's compatible endpoint has it
        body = body[0]
    inner = body.get("error", body) if isinstance(body, dict) else body
    said = inner.get("message") if isinstance(inner, dict) else inner if isinstance(inner, str) else None
    cause = str(error.__cause__ or "")
    return str(said) if said else f"{error} ({cause})" if cause and cause not in str(error) else str(error)


def said_by_provider(error: BaseException) -> str:
    """What the client raised, without what Emend says about it, in which the model's name stands."""
    return _text(error.__cause__ or error)


def _text(error: BaseException) -> str:
    return f"{error} {getattr(error, 'body', '')} {getattr(error, 'code', '')}".lower()


def _reply(error: BaseException) -> str:
    choices = getattr(getattr(error, "completion", None), "choices", None) or []
    return str(choices[0].message.content or "") if choices else ""


def _usage(error: BaseException) -> Usage | None:
    told = getattr(getattr(error, "completion", None), "usage", None)
    if told is None:
        return None
    return Usage(input_tokens=told.prompt_tokens, output_tokens=told.completion_tokens, calls=1)
