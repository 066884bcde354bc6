"""Conversion of client exceptions into Emend's errors, which name the remedy."""

from typing import Any

from emend.agents.providers.errors.classifier import classify
from emend.agents.providers.errors.rejection import (
    BadExchange,
    BrokenReply,
    causes,
    message_of,
    read_rejection,
    status_of,
)
from emend.agents.providers.errors.remedies import (
    AWAY,
    CUT,
    LONG,
    NO_MODEL,
    REFUSED,
    UNCLEAR,
    UNSENT,
    WRONG,
    Row,
)
from emend.memory.errors import (
    EmendError,
    ModelError,
    ModelReplyError,
    ModelUnreachable,
    RateLimited,
)
from emend.memory.escape import safe
from emend.memory.probe import Usage
from emend.memory.redaction import hide_keys

# Transient errors; all others are final.
TRANSIENT = (ModelUnreachable, RateLimited)
# Error classes for a missing HTTP response or a broken body.
NO_ANSWER = {
    "APIConnectionError", "APITimeoutError", "TransportError", "ModelConnectionError",
    "ModelTimeoutError",
    "ConnectionError", "TimeoutError", "APIResponseValidationError", "JSONDecodeError",
    "DecodingError",
    "RemoteProtocolError",
}  # fmt: skip
# Error classes for a request of which no byte was sent; clients wrap them into connection errors.
NOT_SENT = {
    "LocalProtocolError",
    "UnsupportedProtocol",
    "InvalidURL",
    "UnicodeEncodeError",
    "InvalidHeader",
}
# Maximum number of shown characters of a provider's message.
LONGEST = 300


def as_model_error(error: BaseException, model: str) -> ModelError | None:
    """Return Emend's error with a remedy, or None for errors that are not the provider's.

    Client classes are recognised by name, so that no client package has to be installed.

    Args:
        error: the client's exception.
        model: the model's spec, for the message.
    """
    if isinstance(error, EmendError):
        return error if isinstance(error, ModelError) else None
    for cause in causes(error):
        if isinstance(cause, BadExchange):
            return cause.kind(f"{model}: {cause}")
    row = _find_row(error)
    if row is None:
        return None
    message = f"{model}: {_problem(error, row)}. {row.remedy}"
    if issubclass(row.error, ModelReplyError):
        return row.error(message, _reply(error), _usage(error))
    return row.error(message)


def _problem(error: BaseException, row: Row) -> str:
    excerpt = safe(" ".join(message_of(error).split()))[:LONGEST]
    if isinstance(error, BrokenReply) and not error.body and row is not UNSENT:
        return excerpt.rstrip(".")
    code = f" (HTTP {status})" if (status := status_of(error)) else ""
    return f"{row.problem}{code}: {excerpt.rstrip('.。') or type(error).__name__}"


def _find_row(error: BaseException) -> Row | None:
    classes = {parent.__name__ for parent in type(error).__mro__}
    if "LengthFinishReasonError" in classes:
        return CUT
    if classes & {"OpenAIRefusalError", "ContentFilterFinishReasonError"}:
        return REFUSED
    if status_of(error) >= 400:
        row = classify(read_rejection(error))
        return (
            LONG if "ContextOverflowError" in classes and row in (NO_MODEL, UNCLEAR, WRONG) else row
        )
    if "ContextOverflowError" in classes:
        return LONG
    if any(type(cause).__name__ in NOT_SENT for cause in causes(error)):
        return UNSENT
    if classes & NO_ANSWER:
        return AWAY
    # Inside a stream an error has a code and no status.
    return classify(read_rejection(error)) if classes & {"APIError", "BrokenReply"} else None


def _reply(error: BaseException) -> str:
    choices = getattr(getattr(error, "completion", None), "choices", None) or []
    return (
        str(choices[0].message.content or "")
        if choices
        else _failed_generation(getattr(error, "body", None))
    )


def _failed_generation(body: Any) -> str:
    """Return the model's text if a provider includes the rejected reply."""
    inner = body.get("error", body) if isinstance(body, dict) else None
    text = inner.get("failed_generation") if isinstance(inner, dict) else None
    return hide_keys(text) if isinstance(text, str) else ""


def _usage(error: BaseException) -> Usage | None:
    usage = getattr(getattr(error, "completion", None), "usage", None)
    if usage is None:
        return None
    return Usage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens, calls=1)
