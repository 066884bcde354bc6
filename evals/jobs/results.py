"""Results of units, including failed ones: written to the log, counted and summarised."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from pydantic import BaseModel

from emend.agents.providers.usage import Ledger, ProviderUsage
from emend.evals.jobs.failures import Failures, error_fields
from emend.evals.jobs.progress import Progress
from emend.evals.log.lines import COSTS, ERRORS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import RunLog, json_line
from emend.memory.edit import FrozenModel
from emend.memory.errors import EmendError


class WorkUnit(NamedTuple):
    """The unit of work, which is evaluated and written as a whole.

    `key` depends only on the content, never on order, time or machine; `row` is the name under
    which progress counts the unit; `labels` are the first fields of its line in `errors.jsonl`;
    `content` belongs to the job.
    """

    key: str
    row: str
    labels: Mapping[str, Any]
    content: Any = None


class UnitResult(NamedTuple):
    """A finished unit: its lines, its steps as lines of `events.jsonl`, and its counts.

    Counts are `finished`, `records`, `unscored`, `input_tokens`, `output_tokens` and `calls`, see
    `count_lines`.
    """

    lines: Sequence[BaseModel]
    events: Sequence[dict[str, Any]]
    counts: Counter[str]


class Results(Protocol):
    """Receiver of a job's results; thread-safe."""

    def unit(self, unit: WorkUnit, result: UnitResult) -> None:
        """Receive a finished unit."""
        ...

    def failure(self, unit: WorkUnit, error: BaseException) -> None:
        """Receive a failed unit."""
        ...

    def probes(self, row: str, share: float) -> None:
        """Receive a share of a unit in progress, see `Progress.probes`."""
        ...

    def prepared(self, row: str, seconds: float, units: int) -> None:
        """Receive the time to prepare units, see `Progress.prepared`."""
        ...

    def cost(self, line: dict[str, Any]) -> None:
        """Receive a line of `costs.jsonl`."""
        ...


class PaidManifest(Protocol):
    """A manifest with the costs of providers."""

    @property
    def prices(self) -> dict[str, Any] | None:
        """The user's price file."""
        ...

    @property
    def spent(self) -> dict[str, ProviderUsage]:
        """Payments by model."""
        ...

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Copy with other values."""
        ...

    def write(self, folder: Path) -> None:
        """Write the manifest to the run folder."""
        ...


class ResultWriter:
    """Writes results to the log as they arrive, and counts them; thread-safe.

    Args:
        log: of the run.
        progress: called for every unit, by one thread at a time.
        failures: the failure counter, which may end the run.
    """

    def __init__(self, log: RunLog, progress: Progress, failures: Failures) -> None:
        self.log, self.progress, self.failures = log, progress, failures
        self.totals = Counter[str]()
        """Counts of the units that this process finished."""
        self._lock = threading.Lock()

    def unit(self, unit: WorkUnit, result: UnitResult) -> None:
        """Write and count a finished unit."""
        self.log.unit(result.lines, result.events)
        self.count(unit.row, result.counts)

    def count(self, row: str, counts: Mapping[str, int]) -> None:
        """Count a unit that has been written."""
        with self._lock:
            self.totals.update(counts)
            tokens = counts["input_tokens"] + counts["output_tokens"]
            self.progress.unit(row, unscored=counts["unscored"], tokens=tokens)
            self.failures.passed()

    def cost(self, line: dict[str, Any]) -> None:
        """Write a line of `costs.jsonl`."""
        self.log.line(COSTS, line)

    def probes(self, row: str, share: float) -> None:
        """Pass on a share of a unit in progress."""
        with self._lock:
            self.progress.probes(row, share)

    def prepared(self, row: str, seconds: float, units: int) -> None:
        """Pass on the time that preparing units took."""
        with self._lock:
            self.progress.prepared(row, seconds, units)

    def waiting(self, seconds: float, reason: str) -> None:
        """Pass on the wait of a call."""
        with self._lock:
            self.progress.waiting(seconds, reason)

    def failure(self, unit: WorkUnit, error: BaseException) -> None:
        """Write and count a failed unit.

        Raises:
            TooManyFailures: the limit of failures is exceeded.
        """
        self.fail(unit.row, json_line(error_fields(unit.key, unit.labels, error)), error)

    def fail(self, row: str, line: bytes, error: BaseException) -> None:
        """Write a line of `errors.jsonl`, and count the failed unit.

        Raises:
            TooManyFailures: the limit of failures is exceeded.
        """
        self.log.append({ERRORS: line})
        with self._lock:
            self.progress.unit(row, failed=True)
            self.failures.failed(error)


class Summary(FrozenModel):
    """Summary of a run: total units, units finished earlier, finished now and failed now; lines and
    tokens of this process.

    Tokens and calls include those of shared answers (`baseline_calls`). `peak_bytes` is the peak
    memory of the process; None if the system does not report it. `spent` is the usage by API model.
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


def save_usage(
    folder: Path, ledger: Ledger, read: Callable[[Path], PaidManifest] = Manifest.read
) -> None:
    """Add this process's costs and prices to the manifest; warn if that fails.

    Args:
        folder: of the run.
        ledger: of this process.
        read: reads the manifest.
    """
    spent = ledger.by_model()
    if not spent:
        return
    try:
        manifest = read(folder)
        total = dict(manifest.spent)
        for model, usage in spent.items():
            total[model] = total.get(model, ProviderUsage()).plus(usage)
        prices = ledger.prices.model_dump() if ledger.prices else manifest.prices
        manifest.model_copy(update={"spent": total, "prices": prices}).write(folder)
    except EmendError as error:
        # a full disk or a deleted folder, whose own error is already being raised
        message = "the costs are not in the manifest: %s"
        logging.getLogger(__name__).warning(message, error)


def save_notes(folder: Path, notes: Sequence[str]) -> None:
    """Add this process's notes to the manifest; warn if that fails."""
    if not notes:
        return
    try:
        manifest = Manifest.read(folder)
        every = tuple(dict.fromkeys([*manifest.notes, *notes]))
        manifest.model_copy(update={"notes": every}).write(folder)
    except EmendError as error:
        logging.getLogger(__name__).warning("%s are not in the manifest: %s", notes, error)


def spent_lines(
    folder: Path,
    spent: Mapping[str, ProviderUsage],
    read: Callable[[Path], PaidManifest] = Manifest.read,
) -> list[str]:
    """Format one line per model: calls, tokens, and cost if there is a price."""
    if not spent:
        return []
    currency = (read(folder).prices or {}).get("currency", "")
    return [f"{model}: {_spent_line(usage, currency)}" for model, usage in spent.items()]


def _spent_line(usage: ProviderUsage, currency: str) -> str:
    texts = [f"{usage.requests} calls"]
    if usage.retries:
        texts.append(f"{usage.retries} of them retries")
    if usage.cached:
        texts.append(f"{usage.cached} replies from the cache")
    texts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    if usage.cost is not None:
        texts.append(f"{usage.cost:.4f} {currency}".rstrip())
    if usage.untold:
        texts.append(f"{usage.untold} replies without token counts")
    return ", ".join(texts)
