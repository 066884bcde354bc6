"""Thread-safe access to the runs of a viewer, with caches."""

import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.case import Record
from emend.evals.log.lines import CASES, ERRORS, RECORDS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import parse_fields, read_lines, read_records
from emend.evals.log.run_index import RunIndex
from emend.evals.log.table_parts import find_parts, parts_folder
from emend.evals.metrics.scores import lacks_score
from emend.evals.show.view.answers import LARGE, SOURCES, RunAnswers, Totals
from emend.evals.show.view.results import ResultCache
from emend.evals.show.view.scan import FileState, RunLocation, Scan, file_state, is_written
from emend.evals.show.view.views import RunEntry, State, Status
from emend.memory.errors import EmendError

# Bytes of files that may be indexed into tables before a page is shown; larger amounts are indexed
# by another process.
AT_ONCE = 6 * 2**20
# Size in bytes of a run's records up to which a page loads the answers before it is shown.
LOADED_AT_ONCE = 50 * 2**20
# Size in bytes of a run's records up to which answers are counted without building tables.
COUNTED_AT_ONCE = 64 * 2**20
# Number of runs whose answers are kept in memory; a million answers take about 100 MB.
KEPT_ANSWERS = 6
# The answers of a growing run are reloaded after a pause of this many times their loading time, if
# loading takes long.
PAUSE = 5
# CPU seconds from which loading counts as long.
LONG = 0.5
ANSWER_FILES = (RECORDS, CASES, ERRORS)


class LoadedAnswers(NamedTuple):
    """Answers with the state of their files, the CPU seconds of loading, and its end time."""

    state: FileState
    answers: RunAnswers
    seconds: float
    ended: float

    def is_current(self, state: FileState) -> bool:
        """Return True if no file changed, or files only grew and it is too early to load again."""
        pause = 0.0
        if self.seconds > LONG:
            pause = PAUSE * self.seconds
        return state == self.state or (
            has_grown(self.state, state) and time.monotonic() - self.ended < pause
        )


def has_grown(before: FileState, after: FileState) -> bool:
    """Return True if all files are still the same ones and none became shorter."""
    return len(before) == len(after) and all(
        now[0] == then[0] and now[1] >= then[1] for then, now in zip(before, after, strict=True)
    )


class Library:
    """The runs below some folders.

    Args:
        folders: run folders, or folders that contain run folders.
        patient: wait until all numbers are computed, as an export must.

    Raises:
        MissingData: one of `folders` is not a folder.
    """

    def __init__(self, folders: Sequence[Path], patient: bool = False) -> None:
        self.scan, self.results, self.patient = Scan(folders), ResultCache(patient), patient
        self._answers: OrderedDict[Path, LoadedAnswers] = OrderedDict()
        self._totals: dict[Path, tuple[FileState, Totals | None]] = {}
        """Counts of each run; None for a run that cannot be read."""
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._locks: dict[Path, threading.Lock] = {}
        self._failed: dict[Path, tuple[FileState, Exception]] = {}
        """Runs that could not be loaded, with the error."""
        self._threads: dict[Path | None, threading.Thread] = {}
        """Threads that load a run, by folder; the thread under None counts all runs."""

    def close(self) -> None:
        """Stop background work."""
        self._stopped.set()
        self.results.close()
        if counting := self._threads.get(None):
            counting.join()

    @contextmanager
    def index(self, location: RunLocation) -> Iterator[RunIndex]:
        """Open the index of a run, locked against other threads.

        Raises:
            BadData: a line is damaged.
        """
        with self._lock_of(location.folder), RunIndex(location.folder, LARGE) as index:
            yield index

    def _lock_of(self, folder: Path) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(folder, threading.Lock())

    def answers(self, location: RunLocation) -> tuple[RunAnswers | None, Status]:
        """Return the answers written so far, or None while tables of a large run are being built.

        Raises:
            EmendError, OSError: a file cannot be read.
        """
        state = file_state(location.folder, ANSWER_FILES)
        with self._lock:
            loaded = self._answers.get(location.folder)
        if loaded is None or not loaded.is_current(state):
            if waiting := self._wait_for_tables(location):
                return None, waiting
            if loaded is None and not self.patient and state[0][1] > LOADED_AT_ONCE:
                failed = self._failed.get(location.folder)
                if failed and failed[0] == state:
                    raise failed[1]
                # reading takes longer than a page may
                self._start(location.folder, self._load_large, location)
                return None, Status(state="computing", text="reading the tables")
            loaded = self._load(location)
        return loaded.answers, Status(records=loaded.answers.totals.records)

    def _wait_for_tables(self, location: RunLocation) -> Status | None:
        """Return the status while tables and index of a run are not usable yet; else None."""
        if self.patient:
            return None
        if not self.results.is_running("tables", location.folder):
            with self.index(location) as index:
                lag = index.lag()
            for source in SOURCES:
                path = location.folder / source.file
                parts = find_parts(parts_folder(location.folder), source.table, path)
                if path.exists():
                    lag += path.stat().st_size
                if parts:
                    lag -= parts[-1].end.offset
            if lag <= AT_ONCE:
                return None
        _, status = self.results.get("tables", [location.folder])
        if status.state == "ready":
            return None
        size = sum(size for _, size, _ in file_state(location.folder)) / 2**20
        if status.state == "failed":
            return status
        return Status(state="computing", text=f"reading {size:,.0f} MB")

    def _start(self, key: Path | None, function: Callable[..., None], *values: Any) -> None:
        """Call a function in a new thread, unless a thread with the same key is alive."""
        with self._lock:
            if key not in self._threads or not self._threads[key].is_alive():
                self._threads[key] = threading.Thread(
                    target=function, args=values, name="emend-view", daemon=True
                )
                self._threads[key].start()

    def _load_large(self, location: RunLocation) -> None:
        """Load the answers of a run, and record the error if that fails."""
        state = file_state(location.folder, ANSWER_FILES)
        try:
            self._load(location)
        except (EmendError, OSError) as error:
            self._failed[location.folder] = state, error

    def _load(self, location: RunLocation) -> LoadedAnswers:
        state, start = file_state(location.folder, ANSWER_FILES), time.thread_time()
        with self._lock_of(location.folder):
            loaded = self._answers.get(location.folder)
            if (
                loaded is None or loaded.state != state
            ):  # another thread may have read them meanwhile
                answers = RunAnswers(location.folder, location.manifest)
                loaded = LoadedAnswers(state, answers, time.thread_time() - start, time.monotonic())
        with self._lock:
            self._answers[location.folder] = loaded
            self._answers.move_to_end(location.folder)
            while len(self._answers) > KEPT_ANSWERS:
                self._answers.popitem(last=False)
        self._totals[location.folder] = state, loaded.answers.totals
        return loaded

    def entry(self, location: RunLocation, wait: bool = True) -> RunEntry:
        """Return the entry of a run.

        If `wait` is False, the counts of a growing run are those of the last counting, and are left
        out if there was none.
        """
        totals = self._totals_of(location, growing=not wait)
        if totals is None and wait:
            answers, _ = self.answers(location)
            if answers:
                totals = answers.totals
        return entry_of(location, totals)

    def _totals_of(self, location: RunLocation, growing: bool) -> Totals | None:
        counted, totals = self._totals.get(location.folder, ((), None))
        state = file_state(location.folder, ANSWER_FILES)
        if counted == state or (growing and has_grown(counted, state)):
            return totals
        return None

    def _is_counted(self, location: RunLocation) -> bool:
        return self._totals.get(location.folder, ((), None))[0] == file_state(
            location.folder, ANSWER_FILES
        )

    def count_all(self) -> bool:
        """Count the answers of all runs in the background; return True once all are counted."""
        missing = [
            location for location in self.scan.runs().values() if not self._is_counted(location)
        ]
        if missing and self.patient:
            self._count(missing)
        elif missing:
            self._start(None, self._count, missing)
        return not missing

    def _count(self, locations: Sequence[RunLocation]) -> None:
        for location in locations:
            if self._stopped.is_set():
                return
            state = file_state(location.folder, ANSWER_FILES)
            try:
                if state[0][1] <= COUNTED_AT_ONCE:
                    self._totals[location.folder] = state, count_answers(location.folder)
                is_readable = (
                    state[0][1] <= COUNTED_AT_ONCE or self.answers(location)[1].state != "failed"
                )
            except (EmendError, OSError):
                is_readable = False
            if not is_readable:
                self._totals[location.folder] = state, None


def count_answers(folder: Path) -> Totals:
    """Count the answers of a run without building tables.

    Raises:
        BadData: a line is damaged.
    """
    units, records, unscored, retried, tokens = set[str](), 0, 0, 0, 0
    lines: Iterable[Record] = ()
    if (folder / RECORDS).exists():
        lines = read_records(folder, parse_fields)
    for record in lines:
        units.add(record.unit)
        records += 1
        unscored += lacks_score(record.values, record.unscored)
        retried += record.usage.retries > 0
        tokens += record.usage.input_tokens + record.usage.output_tokens
    failed = {line["unit"] for line in read_lines(folder, ERRORS)} - units
    return Totals(records, unscored, len(units), retried, tokens, len(failed))


def entry_of(location: RunLocation, totals: Totals | None) -> RunEntry:
    """Return the entry of a run with the given counts."""
    manifest, config = location.manifest, location.manifest.config
    costs = [usage.cost for usage in manifest.spent.values() if usage.cost is not None]
    state, finished, failed = _state(location.folder, manifest, None), 0, 0
    counts: dict[str, int | None] = {}
    if totals:
        finished, failed = totals.units, totals.failed
        state = _state(location.folder, manifest, finished + failed)
        counts = {name: getattr(totals, name) for name in ("records", "unscored", "tokens")}
    cost = None
    if costs:
        cost = sum(costs)
    return RunEntry(
        id=location.id,
        name=location.name,
        folder=str(location.folder),
        href=f"run/{location.id}/index.html",
        benchmark=config.benchmark,
        model=config.model,
        editors=config.editors,
        mode=manifest.mode or config.mode or "",
        started=manifest.started,
        state=state,
        units=manifest.units,
        finished=finished,
        failed=failed,
        cost=cost,
        **counts,
    )


def _state(folder: Path, manifest: Manifest, processed: int | None) -> State:
    if processed is not None and processed >= manifest.units:
        return "finished"
    if is_written(folder):
        return "running"
    return "stopped"


def command(*words: str) -> str:
    """Return an `emend` command in shell syntax."""
    return shlex.join(["emend", *words])
