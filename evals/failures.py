"""Failed units: the line that is kept of each, and when there are too many of them."""

import os
from pathlib import Path
from typing import Any

from emend.evals.manifest import now, parse_threshold
from emend.evals.units import Pass, Unit
from emend.memory.errors import TooManyFailures

ENOUGH = 20
"""A share of failures means nothing before so many units were tried."""


class Failures:
    """Counts failed units against what `--fail-on-error` allows; not safe for threads by itself."""

    def __init__(self, allowed: str) -> None:
        self.allowed = allowed
        self._kind, self._limit = parse_threshold(allowed)
        self.count = 0
        self._tried = 0
        self._first = ""

    def passed(self) -> None:
        """One unit was finished."""
        self._tried += 1

    def failed(self, error: BaseException) -> None:
        """One unit failed.

        Raises:
            TooManyFailures: it was one too many.
        """
        self._tried += 1
        self.count += 1
        self._first = self._first or told(error)
        if self._kind == "count" or self._tried >= ENOUGH:
            self._check()

    def check_at_end(self, folder: Path) -> None:
        """The same for a share of few units, which is only known at the end.

        Raises:
            TooManyFailures: more failed than allowed.
        """
        self._check(f" They are tried again by: emend resume {folder}")

    def _check(self, remedy: str = " Mend the cause and resume the run.") -> None:
        allowed = self._limit if self._kind == "count" else self._limit * self._tried
        if self.count > allowed:
            raise TooManyFailures(
                f"{self.count} of {self._tried} units failed, --fail-on-error {self.allowed} does not allow that; "
                f"the first: {self._first}. Finished units are kept, errors.jsonl has every failure.{remedy}"
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
        "steps": [step.model_dump() | {"error": step.error and hide_keys(step.error)} for step in steps],
        "at": now(),
    }


def told(error: BaseException) -> str:
    """Class and message of an error, in one line, without keys."""
    return f"{type(error).__name__}: {hide_keys(' '.join(str(error).split()))}"


def hide_keys(text: str) -> str:
    """The text without the values of API keys that the environment holds."""
    for name, value in os.environ.items():
        if len(value) >= 8 and name.upper().endswith(("_KEY", "_TOKEN", "_SECRET")):
            text = text.replace(value, f"<{name}>")
    return text
