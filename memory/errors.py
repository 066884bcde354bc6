"""Errors, named by who must act; every message says what is wrong, the value, and the remedy."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

    from emend.memory.probe import Usage


def first_problem(error: "ValidationError") -> str:
    """Return the first field that a validation refuses, and why."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


class EmendError(Exception):
    """Base of all errors that Emend raises on purpose; the command line prints it in one line and exits with 2."""


class BadData(EmendError):
    """Raised when a file, record or field violates its format; names file, record and field."""


class BadSettings(EmendError):
    """Raised when an argument, setting or name is unknown or impossible; names the nearest known one."""


class EditorUnusable(BadSettings):
    """Raised when an editor cannot work with a model, while others can."""


class MissingData(EmendError):
    """Raised when a data folder or file is absent; names the command or page that gets it."""


class FetchFailed(EmendError):
    """Raised when a data file cannot be downloaded or stored: missing, no connection, no space, not writable."""


class ExportFailed(EmendError):
    """Raised when an export is not accepted: no connection, a wrong address, or a refusal."""


class MissingExtra(EmendError):
    """Raised when an optional package is needed and not installed; names the install line."""


class MemoryMismatch(EmendError):
    """Raised when a stored memory was built with another embedding model."""


class MemoryUnavailable(EmendError):
    """Raised when a memory cannot be reached: its server stopped answering, or another process uses its folder."""


class RunRefused(EmendError):
    """Raised when a run cannot start or resume: changed configuration, second process, no space, read-only."""


class ModelError(EmendError):
    """Raised when a model cannot be loaded or called."""


class ModelReplyError(ModelError):
    """Raised when a model's reply is unusable; carries the raw reply and its cost.

    Args:
        message: the expected and the actual reply.
        reply: the raw reply, for the record.
        usage: its tokens and calls; None counts as one call.
    """

    def __init__(self, message: str, reply: str = "", usage: "Usage | None" = None) -> None:
        from emend.memory.probe import Usage

        super().__init__(message)
        self.reply = reply
        self.usage = Usage(calls=1) if usage is None else usage


class ReplyRefused(ModelReplyError):
    """Raised when a model, or its provider's filter, declines to answer."""


class ReplyCutOff(ModelReplyError):
    """Raised when a reply that must be complete stops at the limit of new tokens."""


class ModelUnreachable(ModelError):
    """Raised when a provider does not answer: no connection, a timeout, a broken body, a server error."""


class RateLimited(ModelError):
    """Raised when a provider's rate limit outlasts the allowed wait."""


class ProviderPaused(ModelError):
    """Raised when a provider asks for a longer pause than is waited for; names the time at which to resume."""


class QuotaExhausted(ModelError):
    """Raised when the account at a provider has no credit left."""


class KeyRefused(ModelError):
    """Raised when a provider does not accept the key, or the key may not use the model."""


class RequestRefused(ModelError):
    """Raised when a provider rejects a request: unknown model, or an unsupported parameter."""


class ContextOverflow(ModelError):
    """Raised when a prompt does not fit the model's window and may not be cut."""


class NotApplicable(EmendError):
    """Raised when a probe cannot be asked, because its editor cannot apply the edits of the setting."""


class TooManyFailures(EmendError):
    """Raised when more units failed than `--fail-on-error` allows; finished units are kept."""


class WorkerDied(EmendError):
    """Raised when workers cannot be kept alive: what a worker evaluated when it died is tried once more, alone."""


class CallDropped(ModelError):
    """Raised when a waiting call is cancelled because the run is ending; it is repeated on resume."""


class BudgetReached(EmendError):
    """Raised when a call would exceed `--max-cost` or `--max-calls`; finished units are kept."""
