"""Exceptions, one class per remedy; every message says what is wrong, the value, and what to do."""

import difflib
import os
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

    from emend.memory.probe import Usage

# Smallest similarity of a name that is suggested for an unknown one; 'rga' has 0.67 to 'rag'.
NEAR = 0.65
# Smallest length of a name that is suggested because an unknown one begins with it.
MIN_BEGINNING = 4
# Maximum number of files beside a missing one that are compared with it.
MAX_FILES = 2000
# Message by pydantic's error type, which says what to write; braces are filled from the error's
# context.
SENTENCES = {
    "missing": "it is missing",
    "extra_forbidden": "it is unknown",
    "string_type": "it must be a text",
    "string_too_short": "it must have {min_length} characters or more",
    "string_too_long": "it must have {max_length} characters or fewer",
    "string_pattern_mismatch": "it must be of the form {pattern}",
    "int_type": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_type": "it must be a number",
    "float_parsing": "it must be a number",
    "finite_number": "it must be a finite number",
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be {ge} or more",
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be {le} or less",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "list_type": "it must be a list",
    "tuple_type": "it must be a list",
    "set_type": "it must be a list",
    "too_short": "it must have {min_length} or more, and has {actual_length}",
    "too_long": "it must have {max_length} or fewer",
    "dict_type": "it must be an object of fields and values",
    "model_type": "it must be an object of fields and values",
    "model_attributes_type": "it must be an object of fields and values",
    "dataclass_type": "it must be an object of fields and values",
    "none_required": "it must be left out",
    "literal_error": "it must be {expected}",
    "enum": "it must be {expected}",
    "path_type": "it must be a path",
    "json_invalid": "it is not valid JSON ({error})",
    "json_type": "it is not valid JSON",
    "value_error": "{error}",
    "assertion_error": "{error}",
}


def problem_of(detail: Mapping[str, Any]) -> str:
    """Return the problem of a field as a sentence, without a full stop, that says what to write.

    Args:
        detail: an item of `ValidationError.errors()`.
    """
    sentence = SENTENCES.get(detail["type"], "")
    values = {name: _plain_number(value) for name, value in detail.get("ctx", {}).items()}
    text = sentence.format(**values) or str(detail["msg"])
    return text.rstrip(".")


def field_problem(error: "ValidationError", within: str = "", whole: str = "") -> str:
    """Return the first invalid field and its problem: `field 'a.b': not a number`.

    Args:
        error: the error of a validation.
        within: fields around the validated value, such as `conversation.session_1`.
        whole: name of the validated value itself, for an error that names no field.
    """
    first = error.errors(include_url=False)[0]
    field = ".".join(filter(None, (within, *map(str, first["loc"])))) or whole
    return f"field '{field}': {problem_of(first)}"


def _plain_number(value: Any) -> Any:
    """Convert a float with an integer value to an integer; return any other value unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def first_problem(error: "ValidationError") -> str:
    """Return the first field that fails validation, the reason, and its value, for a model that
    calls a tool.
    """
    first = error.errors()[0]
    got = "" if first["type"] == "missing" else f", got {first['input']!r:.60}"
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}{got}"


def reason_of(error: Exception) -> str:
    """Return an error's text; of the system's errors without their number and the file's name, but
    with the nearest name beside a missing file.
    """
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str | Path):
        if near := near_path(Path(error.filename)):
            return f"{error.strerror} (did you mean '{near}'?)"
    return error.strerror


def find_near(name: str, known: Iterable[str]) -> str:
    """Return the known name that a name is most similar to, or else begins with; "" if none is
    near.
    """
    names = list(known)
    if close := difflib.get_close_matches(name, names, n=1, cutoff=NEAR):
        return close[0]
    long_enough = (other for other in names if len(other) >= MIN_BEGINNING)
    return max(filter(name.startswith, long_enough), key=len, default="")


def near_path(path: Path) -> str:
    """Return the path beside a missing one whose name is nearest and has the same suffix, or the
    same name with another suffix; "" if there is none.
    """
    try:
        names = os.listdir(path.parent)[:MAX_FILES]
    except OSError:
        return ""
    names.sort(key=lambda name: Path(name).suffix == path.suffix)
    stems = {
        Path(name).stem: name
        for name in names
        if Path(name).suffix == path.suffix or not path.suffix or Path(name).stem == path.stem
    }
    near = find_near(path.stem, stems)
    return str(path.with_name(stems[near])) if near else ""


def path_remedy(path: Path) -> str:
    """Return the remedy for a missing path: the nearest one beside it, or to correct it."""
    near = near_path(path)
    return f"did you mean '{near}'?" if near else "correct the path."


def place_of(error: BaseException) -> str:
    """Return the file and line that raised an unexpected error, as `, in FILE, line N`.

    The last line outside installed packages is named; an `EmendError` says itself what is wrong.
    """
    if isinstance(error, EmendError):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if f"{os.sep}lib{os.sep}python" not in frame.filename]
    if not (outside or frames):
        return ""
    last = (outside or frames)[-1]
    return f", in {os.path.basename(last.filename)}, line {last.lineno}"


class EmendError(Exception):
    """Base of all errors that Emend raises on purpose; the command line prints it in one line and
    exits with 2.
    """


class BadData(EmendError):
    """Raised when a file, record or field violates its format; names file, record and field."""


class BadSettings(EmendError):
    """Raised when an argument, setting or name is unknown or impossible; names the nearest known
    one.
    """


class EditorUnusable(BadSettings):
    """Raised when an editor cannot work with a model, while others can."""


class MissingData(EmendError):
    """Raised when a data folder or file is absent; names the command or page that gets it."""


class FetchFailed(EmendError):
    """Raised when a data file cannot be downloaded or stored: missing, no connection, no space, not
    writable.
    """


class ExportFailed(EmendError):
    """Raised when an export is not accepted: no connection, a wrong address, or a refusal."""


class MissingExtra(EmendError):
    """Raised when an optional package is needed and not installed; names the install line."""


class MemoryMismatch(EmendError):
    """Raised when a stored memory was built with another embedding model."""


class MemoryUnavailable(EmendError):
    """Raised when a memory cannot be reached: its server stopped answering, or another process uses
    its folder.
    """


class RunRefused(EmendError):
    """Raised when a run cannot start or resume: changed configuration, second process, no space,
    read-only.
    """


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


class BadGeneration(ModelReplyError):
    """Raised when a provider returns an unusable response twice: no choices, or no valid tool call
    or JSON.
    """


class RejectedAgain(ModelReplyError):
    """Raised when a request is rejected for an unknown reason, as it already was before the run was
    resumed.
    """


class ModelUnreachable(ModelError):
    """Raised when a provider does not answer: no connection, a timeout, a broken body, a server
    error.
    """


class RateLimited(ModelError):
    """Raised when a provider's rate limit outlasts the allowed wait."""


class ProviderPaused(ModelError):
    """Raised when a provider asks for a longer pause than the maximum wait; names the time at which
    to resume.
    """


class QuotaExhausted(ModelError):
    """Raised when the account at a provider has no credit left."""


class KeyRefused(ModelError):
    """Raised when a provider does not accept the key, or the key may not use the model."""


class AccessBlocked(ModelError):
    """Raised when a firewall, or the provider because of the sender's country, blocks a request;
    the key is not the cause.
    """


class RequestRefused(ModelError):
    """Raised when a provider rejects a request: unknown model, or an unsupported parameter."""


class UnclearRejection(RequestRefused):
    """Raised when a provider rejects a request for a reason that Emend does not know."""


class ContextOverflow(ModelError):
    """Raised when a prompt does not fit the model's context window and must not be truncated."""


class NotApplicable(EmendError):
    """Raised when a probe cannot be asked, because its editor cannot apply the edits of the
    setting.
    """


class TooManyFailures(EmendError):
    """Raised when more units failed than `--fail-on-error` allows; finished units are kept."""


class WorkerDied(EmendError):
    """Raised when workers keep dying; the unit that a dead worker was evaluating is retried once,
    alone.
    """


class CallDropped(ModelError):
    """Raised when a waiting call is cancelled because the run is ending; it is repeated on
    resume.
    """


class BudgetReached(EmendError):
    """Raised when a call would exceed `--max-cost` or `--max-calls`; finished units are kept."""
