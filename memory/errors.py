"""Errors, named by who must act; every message says what, the value seen, and the remedy."""


class EmendError(Exception):
    """Base of all errors that Emend raises on purpose; the command line prints it in one line and exits with 2."""


class BadData(EmendError):
    """Raised when a file, record or field is not as its format says; names file, record and field."""


class BadSettings(EmendError):
    """Raised when an argument, setting or name is unknown or impossible; names the nearest known one."""


class MissingData(EmendError):
    """Raised when a data folder or file is absent; names the command or page that gets it."""


class MissingExtra(EmendError):
    """Raised when an optional package is needed and not installed; names the install line."""


class MemoryMismatch(EmendError):
    """Raised when a stored memory was built with another embedding model."""


class RunRefused(EmendError):
    """Raised when a run cannot start or go on: changed configuration, second process, no space, read-only."""


class ModelError(EmendError):
    """Raised when a model cannot be loaded or asked."""


class ModelReplyError(ModelError):
    """Raised when a model's reply cannot be used; carries the raw reply.

    Args:
        message: what was expected and what came.
        reply: the raw reply, kept for the record.
    """

    def __init__(self, message: str, reply: str = "") -> None:
        super().__init__(message)
        self.reply = reply


class ContextOverflow(ModelError):
    """Raised when a prompt does not fit the model's window and may not be cut."""


class TooManyFailures(EmendError):
    """Raised when more units failed than `--fail-on-error` allows; what is finished is kept."""
