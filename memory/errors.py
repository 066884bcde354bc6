"""Errors, named by who must act; every message says what, the value seen, and the remedy."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emend.memory.probe import Usage


class EmendError(Exception):
    """Base of all errors that Emend raises on purpose; the command line prints it in one line and exits with 2."""


class BadData(EmendError):
    """Raised when a file, record or field is not as its format says; names file, record and field."""


class BadSettings(EmendError):
    """Raised when an argument, setting or name is unknown or impossible; names the nearest known one."""


class MissingData(EmendError):
    """Raised when a data folder or file is absent; names the command or page that gets it."""


class FetchFailed(EmendError):
    """Raised when a data file cannot be fetched or kept: not there, no connection, no space, not writable."""


class ExportFailed(EmendError):
    """Raised when what was to be sent elsewhere is not taken: no connection, a wrong address, or it is refused."""


class MissingExtra(EmendError):
    """Raised when an optional package is needed and not installed; names the install line."""


class MemoryMismatch(EmendError):
    """Raised when a stored memory was built with another embedding model."""


class MemoryUnavailable(EmendError):
    """Raised when a memory cannot be reached: its server stopped answering, or another process has its folder."""


class RunRefused(EmendError):
    """Raised when a run cannot start or go on: changed configuration, second process, no space, read-only."""


class ModelError(EmendError):
    """Raised when a model cannot be loaded or asked."""


class ModelReplyError(ModelError):
    """Raised when a model's reply cannot be used; carries the raw reply and what it cost.

    Args:
        message: what was expected and what came.
        reply: the raw reply, kept for the record.
        usage: tokens and calls that were spent on it; one call where it is not told.
    """

    def __init__(self, message: str, reply: str = "", usage: "Usage | None" = None) -> None:
        from emend.memory.probe import Usage

        super().__init__(message)
        self.reply = reply
        self.usage = Usage(calls=1) if usage is None else usage

    @property
    def calls(self) -> int:
        """How many calls were made before this was raised."""
        return self.usage.calls


class ReplyRefused(ModelReplyError):
    """Raised when a model, or its provider's filter, declines to answer."""


class ReplyCutOff(ModelReplyError):
    """Raised when a reply that must be whole stops at the limit of new tokens."""


class ModelUnreachable(ModelError):
    """Raised when a provider does not answer: no connection, no reply in time, a broken body, an error of its own."""


class RateLimited(ModelError):
    """Raised when a provider still asks for fewer calls after all waiting that is allowed."""


class QuotaExhausted(ModelError):
    """Raised when the account at a provider has no credit left."""


class KeyRefused(ModelError):
    """Raised when a provider does not accept the key, or the key may not use the model."""


class RequestRefused(ModelError):
    """Raised when a provider rejects a request as it stands: unknown model, or a parameter that it does not take."""


class ContextOverflow(ModelError):
    """Raised when a prompt does not fit the model's window and may not be cut."""


class TooManyFailures(EmendError):
    """Raised when more units failed than `--fail-on-error` allows; what is finished is kept."""


class CallDropped(ModelError):
    """Raised when a call that waits is given up because the run is ending; it is made on resume."""


class BudgetReached(EmendError):
    """Raised when a call would go beyond `--max-cost` or `--max-calls`; what is finished is kept."""
