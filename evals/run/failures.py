"""Failed units: the line of `errors.jsonl`, and when there are too many of them."""

import re
from pathlib import Path
from typing import Any

from emend.evals.config.run_config import FailureLimit
from emend.evals.log.events import event_of
from emend.evals.log.manifest import now
from emend.evals.run.units import EditorPass, Unit
from emend.memory.errors import (
    KeyRefused,
    ModelUnreachable,
    ProviderPaused,
    QuotaExhausted,
    RateLimited,
    RequestRefused,
    TooManyFailures,
)
from emend.memory.redaction import hide_keys

MIN_TRIED = 20
"""Units that must have been tried before a share of failures ends the run."""
PROVIDER = (KeyRefused, ModelUnreachable, QuotaExhausted, RateLimited, RequestRefused)
VARYING = re.compile(r"\b(?:[a-z]+[-_])?(?=[\w.-]*\d)[\w.-]+", re.IGNORECASE)
"""Parts that differ between two messages of one failure: ids of requests, numbers, and durations."""
IN_A_ROW = 10
"""Units that fail alike, one after the other, because of the provider: the next one would too."""


class Failures:
    """Counts failed units against the limit of `--fail-on-error`; not safe for threads by itself."""

    def __init__(self, limit: FailureLimit) -> None:
        self.limit = limit
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
            self._check("Correct the cause and resume the run.")

    def _stop_if_hopeless(self, error: BaseException) -> None:
        pattern = VARYING.sub("", error_text(error)) if isinstance(error, PROVIDER) else ""
        self._alike = self._alike + 1 if pattern and pattern == self._last else 1
        self._last = pattern
        is_final = isinstance(error, (KeyRefused, ProviderPaused))
        if is_final or (pattern and self._alike >= IN_A_ROW):
            reason = "" if is_final else f"{self._alike} units in a row failed in the same way: "
            raise TooManyFailures(
                f"{reason}{error_text(error)} Finished units are kept, errors.jsonl has every failure. Correct the "
                "cause and resume the run."
            )

    def check_at_end(self, folder: Path) -> None:
        """Check a share of few units, which is only known at the end.

        Raises:
            TooManyFailures: more failed than allowed.
        """
        self._check(f"They are tried again by: emend resume {folder}")

    def _check(self, remedy: str) -> None:
        if self.limit.exceeded(self.count, self._tried):
            first = self._first.rstrip(".")
            raise TooManyFailures(
                f"{self.count} of {self._tried} units failed, --fail-on-error {self.limit.text} does not allow that; "
                f"the first: {first}. Finished units are kept, errors.jsonl has every failure. {remedy}"
            )


def error_line(editor_pass: EditorPass, unit: Unit, error: BaseException) -> dict[str, Any]:
    """Make the line of `errors.jsonl` for a failed unit."""
    return {
        "unit": unit.key,
        "case": unit.case.id,
        "probe": getattr(error, "probe_id", ""),
        **editor_pass.labels,
        "model": editor_pass.model,
        "checkpoint": unit.checkpoint,
        "error": type(error).__name__,
        "message": hide_keys(str(error)),
        "steps": [event_of(step) for step in getattr(error, "steps", ())],
        "at": now(),
    }


def error_text(error: BaseException) -> str:
    """Class and message of an error, in one line, without keys."""
    return f"{type(error).__name__}: {hide_keys(' '.join(str(error).split()))}"
