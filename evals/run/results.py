"""Results of an evaluation: written to the log as they come, failed units among them, counted, and summed up."""

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from emend.agents.providers.usage import Ledger, ProviderUsage
from emend.evals.config.run_config import FailureLimit
from emend.evals.log.lines import COSTS, ERRORS, event_of
from emend.evals.log.manifest import Manifest, now
from emend.evals.log.records import RunLog, json_line
from emend.evals.run.ask_unit import UnitResult
from emend.evals.run.units import EditorPass, Unit
from emend.memory.edit import FrozenModel
from emend.memory.errors import (
    EmendError,
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


class Summary(FrozenModel):
    """Result of a run: units in all, finished earlier, finished now, failed now; records and tokens of now.

    Tokens and calls include those of the unedited model, `baseline_calls` of them. `peak_bytes` is the most memory that
    the process held; None where the system does not report it. `spent` is by model, for those behind an API.
    """

    folder: str
    units: int
    skipped: int
    finished: int
    failed: int
    records: int
    unscored: int
    input_tokens: int
    output_tokens: int
    calls: int
    baseline_calls: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int | None
    spent: dict[str, ProviderUsage] = {}


def save_usage(folder: Path, ledger: Ledger) -> None:
    """Add what this process spent to the manifest, with the prices that it used; warn where that is impossible."""
    spent = ledger.by_model()
    if not spent:
        return
    try:
        manifest = Manifest.read(folder)
        total = dict(manifest.spent)
        for model, usage in spent.items():
            total[model] = total.get(model, ProviderUsage()).plus(usage)
        prices = ledger.prices.model_dump() if ledger.prices else manifest.prices
        manifest.model_copy(update={"spent": total, "prices": prices}).write(folder)
    except EmendError as error:  # of a full disk or a deleted folder, whose own error is under way already
        logging.getLogger(__name__).warning("what was spent is not in the manifest: %s", error)


def spent_lines(folder: Path, spent: Mapping[str, ProviderUsage]) -> list[str]:
    """Format one line per model: calls, tokens, and cost where there is a price."""
    if not spent:
        return []
    currency = (Manifest.read(folder).prices or {}).get("currency", "")
    return [f"{model}: {_spent_line(usage, currency)}" for model, usage in spent.items()]


def _spent_line(usage: ProviderUsage, currency: str) -> str:
    parts = [f"{usage.requests} calls"]
    if usage.retries:
        parts.append(f"{usage.retries} of them retries")
    if usage.cached:
        parts.append(f"{usage.cached} replies from the cache")
    parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    if usage.cost is not None:
        parts.append(f"{usage.cost:.4f} {currency}".rstrip())
    if usage.untold:
        parts.append(f"{usage.untold} replies without token counts")
    return ", ".join(parts)


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
