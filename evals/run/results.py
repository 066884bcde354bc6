"""Results of an evaluation, written to the log as they come and counted."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

from emend.evals.log.lines import COSTS, ERRORS
from emend.evals.log.records import RunLog, json_line
from emend.evals.run.ask_unit import UnitResult
from emend.evals.run.failures import Failures, error_line
from emend.evals.run.units import EditorPass, Unit

REPORT_SECONDS = 1.0
"""Time between two reports from inside a unit."""


class Progress:
    """Receiver of a run's progress, called by one thread at a time; this one shows nothing."""

    def start(self, total: int, skipped: int) -> None:
        """Begin: number of units in all, and of those finished earlier."""

    def plan(self, units: Mapping[str, float], tokens: Mapping[str, float]) -> None:
        """Receive, by editor, the units that are left, and what a unit of it may pass through the model."""

    def unit(self, editor: str, failed: bool = False, unscored: int = 0, tokens: int = 0) -> None:
        """Count one unit, finished or failed."""

    def probes(self, editor: str, share: float) -> None:
        """Count a share of a unit in progress; the same with a minus, before the unit itself is counted."""

    def edited(self, editor: str, seconds: float, units: int) -> None:
        """Receive the time of the edits of so many units, of which none is asked yet; 0 for all that are left."""

    def waiting(self, seconds: float, reason: str) -> None:
        """Say why a call waits, and for how long."""

    def close(self) -> None:
        """End: no more calls follow."""


class Results(Protocol):
    """Receives what an evaluation produces; safe for many threads."""

    def unit(self, editor_pass: EditorPass, unit: Unit, result: UnitResult) -> None:
        """Receive a finished unit."""
        ...

    def failure(self, editor_pass: EditorPass, unit: Unit, error: BaseException) -> None:
        """Receive a failed unit."""
        ...

    def probes(self, editor: str, share: float) -> None:
        """Receive a share of a unit in progress, see `Progress.probes`."""
        ...

    def edited(self, editor: str, seconds: float, units: int) -> None:
        """Receive the time that edits took, see `Progress.edited`."""
        ...

    def cost(self, line: dict[str, Any]) -> None:
        """Receive a line of `costs.jsonl`."""
        ...


class UnitShares:
    """Shares of a long unit, reported at most once a second, and taken back when it ends and is counted as a whole.

    Args:
        report: receives a share of the unit.
        probes: number of the unit's probes.
    """

    def __init__(self, report: Callable[[float], None], probes: int) -> None:
        self._report, self._probes = report, probes
        self._finished = self._reported = 0
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._reported:
            self._report(-self._reported / self._probes)

    def add(self) -> None:
        """Count one probe."""
        self._finished += 1
        if self._finished < self._probes and time.monotonic() - self._last >= REPORT_SECONDS:
            self._last = time.monotonic()
            self._report((self._finished - self._reported) / self._probes)
            self._reported = self._finished


def counts_of(result: UnitResult) -> Counter[str]:
    """Count a unit's records, and what its calls used; answers of the baseline are counted where they are asked."""
    unscored = sum(bool(record.unscored) for record in result.records)
    counts = Counter(finished=1, records=len(result.records), unscored=unscored)
    for record in result.records:
        if not record.from_baseline:
            usage = record.usage
            counts.update(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, calls=usage.calls)
    return counts


class ResultWriter:
    """Writes results to the log as they come, and counts them; safe for many threads.

    Args:
        log: of the run.
        progress: called for every unit, by one thread at a time.
        failures: which may end the run.
    """

    def __init__(self, log: RunLog, progress: Progress, failures: Failures) -> None:
        self.log, self.progress, self.failures = log, progress, failures
        self.totals = Counter[str]()
        """Units, records and unscored records of this process, and what its calls used without the baseline's."""
        self._lock = threading.Lock()

    def unit(self, editor_pass: EditorPass, unit: Unit, result: UnitResult) -> None:
        """Write and count a finished unit."""
        self.log.unit(result.records, result.events)
        self.count(editor_pass.name, counts_of(result))

    def count(self, editor: str, counts: Mapping[str, int]) -> None:
        """Count a unit that has been written, see `counts_of`."""
        with self._lock:
            self.totals.update(counts)
            tokens = counts["input_tokens"] + counts["output_tokens"]
            self.progress.unit(editor, unscored=counts["unscored"], tokens=tokens)
            self.failures.passed()

    def cost(self, line: dict[str, Any]) -> None:
        """Write a line of `costs.jsonl`."""
        self.log.line(COSTS, line)

    def probes(self, editor: str, share: float) -> None:
        """Pass on a share of a unit in progress."""
        with self._lock:
            self.progress.probes(editor, share)

    def edited(self, editor: str, seconds: float, units: int) -> None:
        """Pass on the time that edits took."""
        with self._lock:
            self.progress.edited(editor, seconds, units)

    def waiting(self, seconds: float, reason: str) -> None:
        """Pass on that a call waits."""
        with self._lock:
            self.progress.waiting(seconds, reason)

    def failure(self, editor_pass: EditorPass, unit: Unit, error: BaseException) -> None:
        """Write and count a failed unit.

        Raises:
            TooManyFailures: it was one too many.
        """
        self.fail(editor_pass.name, json_line(error_line(editor_pass, unit, error)), error)

    def fail(self, editor: str, line: bytes, error: BaseException) -> None:
        """Write a line of `errors.jsonl`, and count the failed unit.

        Raises:
            TooManyFailures: it was one too many.
        """
        self.log.append({ERRORS: line})
        with self._lock:
            self.progress.unit(editor, failed=True)
            self.failures.failed(error)
