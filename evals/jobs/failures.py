"""Failed units: their lines, and the limit of failures that ends a run."""

import re
from collections.abc import Mapping
from typing import Any

from emend.evals.config.limits import FailureLimit
from emend.evals.log.lines import event_of
from emend.evals.log.manifest import now
from emend.memory.errors import (
    AccessBlocked,
    BadSettings,
    BudgetReached,
    KeyRefused,
    MemoryMismatch,
    MissingData,
    MissingExtra,
    ModelUnreachable,
    ProviderPaused,
    QuotaExhausted,
    RateLimited,
    RequestRefused,
    RunRefused,
    TooManyFailures,
    place_of,
)
from emend.memory.redaction import hide_keys

# Minimum number of evaluated units before a share of failures can end the run.
MIN_TRIED = 20
PROVIDER = (
    AccessBlocked,
    KeyRefused,
    ModelUnreachable,
    QuotaExhausted,
    RateLimited,
    RequestRefused,
)
# Parts of messages that differ between equal failures: request ids, numbers and durations.
VARYING = re.compile(r"\b(?:[a-z]+[-_])?(?=[\w.-]*\d)[\w.-]+", re.IGNORECASE)
# Number of consecutive equal failures because of the provider that end the run.
IN_A_ROW = 10


class Stopped(Exception):
    """Raised when the run is ending; the unit is dropped and evaluated again on resume."""


# Errors that do not concern a single unit and end the run.
FATAL = (
    BadSettings,
    BudgetReached,
    MemoryMismatch,
    MissingData,
    MissingExtra,
    RunRefused,
    TooManyFailures,
    Stopped,
)


class Failures:
    """Counts failed units and enforces the limit of `--fail-on-error`; not thread-safe.

    Args:
        limit: the limit of failures.
        resume_command: the command that resumes the run, for errors.
    """

    def __init__(self, limit: FailureLimit, resume_command: str) -> None:
        self.limit = limit
        self.resume_command = resume_command
        self.count = 0
        self._tried = self._alike = 0
        self._first = self._last = ""

    def passed(self) -> None:
        """Count a finished unit."""
        self._tried += 1
        self._alike = 0

    def failed(self, error: BaseException) -> None:
        """Count a failed unit.

        Raises:
            TooManyFailures: it was one too many.
        """
        self._tried += 1
        self.count += 1
        self._first = self._first or error_text(error)
        self._stop_if_hopeless(error)
        if self.limit.kind == "count" or self._tried >= MIN_TRIED:
            self._check(self._remedy)

    def _stop_if_hopeless(self, error: BaseException) -> None:
        pattern = VARYING.sub("", error_text(error)) if isinstance(error, PROVIDER) else ""
        self._alike = self._alike + 1 if pattern and pattern == self._last else 1
        self._last = pattern
        is_final = isinstance(error, (KeyRefused, ProviderPaused))
        if is_final or (pattern and self._alike >= IN_A_ROW):
            reason = "" if is_final else f"{self._alike} units in a row failed in the same way: "
            raise TooManyFailures(
                f"{reason}{error_text(error)} Finished units are kept, errors.jsonl has every "
                f"failure. {self._remedy}"
            )

    @property
    def _remedy(self) -> str:
        return f"Correct the cause, then continue with: {self.resume_command}"

    def check_at_end(self) -> None:
        """Check a share of failures at the end, for runs with few units.

        Raises:
            TooManyFailures: more failed than allowed.
        """
        self._check(f"Retry them with: {self.resume_command}")

    def _check(self, remedy: str) -> None:
        if self.limit.exceeded(self.count, self._tried):
            first = self._first.rstrip(".")
            raise TooManyFailures(
                f"{self.count} of {self._tried} units failed, more than --fail-on-error "
                f"{self.limit.text} allows; the first: {first}. Finished units are kept, "
                f"errors.jsonl has every failure. {remedy}"
            )


def error_fields(key: str, labels: Mapping[str, Any], error: BaseException) -> dict[str, Any]:
    """Return the line of `errors.jsonl` for a failed unit.

    Args:
        key: the unit's key.
        labels: labels of the unit in the line; `probe` is replaced by the error's `probe_id`.
        error: the error that made it fail.
    """
    return {
        "unit": key,
        **labels,
        "probe": getattr(error, "probe_id", ""),
        "error": type(error).__name__,
        "message": hide_keys(f"{error}{place_of(error)}"),
        "steps": [event_of(step) for step in getattr(error, "steps", ())],
        "at": now(),
    }


def error_text(error: BaseException) -> str:
    """Return class, message and place of an error in one line, without API keys."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}{place_of(error)}"
    return hide_keys(text)
