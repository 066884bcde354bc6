"""Failed units: the line that is kept of each, and when there are too many of them."""

import re
from pathlib import Path
from typing import Any

from emend.evals.log.events import event_of
from emend.evals.log.manifest import now, parse_threshold
from emend.evals.runner.units import Pass, Unit
from emend.memory.errors import (
    KeyRefused,
    ModelUnreachable,
    QuotaExhausted,
    RateLimited,
    RequestRefused,
    TooManyFailures,
)
from emend.memory.redaction import hide_keys

ENOUGH = 20
"""A share of failures means nothing before so many units were tried."""
PROVIDER = (KeyRefused, ModelUnreachable, QuotaExhausted, RateLimited, RequestRefused)
VARYING = re.compile(r"\b(?:[a-z]+[-_])?(?=[\w.-]*\d)[\w.-]+", re.IGNORECASE)
"""What differs between two tellings of one failure: ids of requests, numbers, and durations."""
IN_A_ROW = 10
"""So many units that fail alike, one after the other, because of the provider: the next one would too."""


class Failures:
    """Counts failed units against what `--fail-on-error` allows; not safe for threads by itself."""

    def __init__(self, allowed: str) -> None:
        self.allowed = allowed
        self._kind, self._limit = parse_threshold(allowed)
        self.count = 0
        self._tried = self._alike = 0
        self._first = self._last = ""

    def passed(self) -> None:
        """One unit was finished."""
        self._tried += 1
        self._alike = 0

    def failed(self, error: BaseException) -> None:
        """One unit failed.

        Raises:
            TooManyFailures: it was one too many.
        """
        self._tried += 1
        self.count += 1
        self._first = self._first or told(error)
        self._stop_if_hopeless(error)
        if self._kind == "count" or self._tried >= ENOUGH:
            self._check()

    def _stop_if_hopeless(self, error: BaseException) -> None:
        now = VARYING.sub("", told(error)) if isinstance(error, PROVIDER) else ""
        self._alike = self._alike + 1 if now and now == self._last else 1
        self._last = now
        if now and self._alike >= IN_A_ROW:
            raise TooManyFailures(
                f"{self._alike} units in a row failed in the same way: {told(error)} Finished units are kept, "
                "errors.jsonl has every failure. Mend the cause and resume the run."
            )

    def check_at_end(self, folder: Path) -> None:
        """The same for a share of few units, which is only known at the end.

        Raises:
            TooManyFailures: more failed than allowed.
        """
        self._check(f" They are tried again by: emend resume {folder}")

    def _check(self, remedy: str = " Mend the cause and resume the run.") -> None:
        allowed = self._limit if self._kind == "count" else self._limit * self._tried
        if self.count > allowed:
            first = self._first.rstrip(".")
            raise TooManyFailures(
                f"{self.count} of {self._tried} units failed, --fail-on-error {self.allowed} does not allow that; "
                f"the first: {first}. Finished units are kept, errors.jsonl has every failure.{remedy}"
            )


def error_line(run: Pass, unit: Unit, error: BaseException, probe: str) -> dict[str, Any]:
    """What `errors.jsonl` keeps of a failed unit."""
    steps = getattr(error, "steps", ())
    return {
        "unit": unit.key,
        "case": unit.case.id,
        "probe": probe,
        "editor": run.name,
        "model": run.model,
        "setting": run.setting,
        "mode": run.mode,
        "repeat": run.repeat,
        "checkpoint": unit.checkpoint,
        "error": type(error).__name__,
        "message": hide_keys(str(error)),
        "steps": [event_of(step) for step in steps],
        "at": now(),
    }


def told(error: BaseException) -> str:
    """Class and message of an error, in one line, without keys."""
    return f"{type(error).__name__}: {hide_keys(' '.join(str(error).split()))}"
