"""The runs of a viewer with what is read and computed of them; safe for many threads."""

import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.log.lines import CASES, ERRORS, RECORDS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import parse_fields, read_lines, read_records
from emend.evals.log.run_index import RunIndex
from emend.evals.log.table_parts import find_parts, parts_folder
from emend.evals.show.view.answers import LARGE, SOURCES, RunAnswers, Totals
from emend.evals.show.view.results import ResultCache
from emend.evals.show.view.scan import FileState, RunPlace, Scan, file_state, is_written
from emend.evals.show.view.views import RunEntry, State, Status
from emend.memory.errors import EmendError

AT_ONCE = 6 * 2**20
"""Bytes of which tables may have to be made before a page is shown; those of more are made by another process."""
LOADED_AT_ONCE = 50 * 2**20
"""Size of the records of a run whose answers a page may read before it is shown."""
COUNTED_AT_ONCE = 64 * 2**20
"""Size of the records of a run that is counted without its tables."""
KEPT_ANSWERS = 6
"""Number of runs whose answers are held in memory, about 100 MB for a million."""
PAUSE = 5
"""The answers of a run that goes on are read again after this many times as long as they took, if that is long."""
LONG = 0.5
"""CPU seconds of reading that are long."""
ANSWER_FILES = (RECORDS, CASES, ERRORS)


class LoadedAnswers(NamedTuple):
    """Answers with the state of the files that they were read from, the CPU seconds that took, and when it ended."""

    state: FileState
    answers: RunAnswers
    seconds: float
    ended: float

    def is_current(self, state: FileState) -> bool:
        """True if nothing changed, or files only grew and it is too early to read again what takes long."""
        pause = PAUSE * self.seconds if self.seconds > LONG else 0.0
        has_grown = all(now[0] == then[0] and now[1] >= then[1] for now, then in zip(state, self.state, strict=True))
        return state == self.state or (has_grown and time.monotonic() - self.ended < pause)


class Library:
    """The runs below some folders.

    Args:
        folders: run folders, or folders that hold some.
        patient: wait for all numbers, as an export must.

    Raises:
        MissingData: one is no folder.
    """

    def __init__(self, folders: Sequence[Path], patient: bool = False) -> None:
        self.scan, self.results, self.patient = Scan(folders), ResultCache(patient), patient
        self._answers: OrderedDict[Path, LoadedAnswers] = OrderedDict()
        self._totals: dict[Path, tuple[FileState, Totals | None]] = {}
        """Counts of the runs, None for one that cannot be read."""
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._locks: dict[Path, threading.Lock] = {}
        self._failed: dict[Path, tuple[FileState, Exception]] = {}
        """Runs that could not be loaded, and why."""
        self._threads: dict[Path | None, threading.Thread] = {}
        """Those that load a run, or under None count all."""

    def close(self) -> None:
        """End what is under way."""
        self._stopped.set()
        self.results.close()
        if counting := self._threads.get(None):
            counting.join()

    @contextmanager
    def index(self, place: RunPlace) -> Iterator[RunIndex]:
        """Open the index of a run; one thread at a time works on a run.

        Raises:
            BadData: a damaged line.
        """
        with self._lock_of(place.folder), RunIndex(place.folder, LARGE) as index:
            yield index

    def _lock_of(self, folder: Path) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(folder, threading.Lock())

    def answers(self, place: RunPlace) -> tuple[RunAnswers | None, Status]:
        """The answers of a run as far as they are written, or None while tables are made of many.

        Raises:
            EmendError, OSError: a file cannot be read.
        """
        state = file_state(place.folder, ANSWER_FILES)
        with self._lock:
            known = self._answers.get(place.folder)
        if known is None or not known.is_current(state):
            if waiting := self._wait_for_tables(place):
                return None, waiting
            if known is None and not self.patient and state[0][1] > LOADED_AT_ONCE:
                failed = self._failed.get(place.folder)
                if failed and failed[0] == state:
                    raise failed[1]
                self._start(place.folder, self._load_large, place)  # it takes longer than a page may
                return None, Status(state="computing", text="reading the tables")
            known = self._load(place)
        return known.answers, Status(records=known.answers.totals.records)

    def _wait_for_tables(self, place: RunPlace) -> Status | None:
        """Why the tables and the index of a run cannot be used yet; None if they can."""
        if self.patient:
            return None
        if not self.results.is_running("tables", [place.folder]):
            with self.index(place) as index:
                lag = index.lag()
            for source in SOURCES:
                path = place.folder / source.file
                parts = find_parts(parts_folder(place.folder), source.table, path)
                lag += (path.stat().st_size if path.exists() else 0) - (parts[-1].end.offset if parts else 0)
            if lag <= AT_ONCE:
                return None
        _, status = self.results.get("tables", [place.folder])
        if status.state == "ready":
            return None
        size = sum(size for _, size, _ in file_state(place.folder)) / 2**20
        return status if status.state == "failed" else Status(state="computing", text=f"reading {size:,.0f} MB")

    def _start(self, key: Path | None, function: Callable[..., None], *values: Any) -> None:
        """Call a function on another thread, unless it works on the same thing already."""
        with self._lock:
            if key not in self._threads or not self._threads[key].is_alive():
                self._threads[key] = threading.Thread(target=function, args=values, name="emend-view", daemon=True)
                self._threads[key].start()

    def _load_large(self, place: RunPlace) -> None:
        """Load the answers of a run, or keep why they cannot be."""
        state = file_state(place.folder, ANSWER_FILES)
        try:
            self._load(place)
        except (EmendError, OSError) as error:
            self._failed[place.folder] = state, error

    def _load(self, place: RunPlace) -> LoadedAnswers:
        state, start = file_state(place.folder, ANSWER_FILES), time.thread_time()
        with self._lock_of(place.folder):
            known = self._answers.get(place.folder)
            if known is None or known.state != state:  # another thread may have read them meanwhile
                answers = RunAnswers(place.folder, place.manifest)
                known = LoadedAnswers(state, answers, time.thread_time() - start, time.monotonic())
        with self._lock:
            self._answers[place.folder] = known
            self._answers.move_to_end(place.folder)
            while len(self._answers) > KEPT_ANSWERS:
                self._answers.popitem(last=False)
        self._totals[place.folder] = state, known.answers.totals
        return known

    def entry(self, place: RunPlace, wait: bool = True) -> RunEntry:
        """A run in short; without `wait` counts that are not known yet are left out, and counted meanwhile."""
        totals = self._totals_of(place)
        if totals is None and wait:
            answers, _ = self.answers(place)
            totals = answers.totals if answers else None
        return entry_of(place, totals)

    def _totals_of(self, place: RunPlace) -> Totals | None:
        return self._totals[place.folder][1] if self._is_counted(place) else None

    def _is_counted(self, place: RunPlace) -> bool:
        return self._totals.get(place.folder, ((), None))[0] == file_state(place.folder, ANSWER_FILES)

    def count_all(self) -> bool:
        """Count the answers of all runs in the background; True when that is done."""
        missing = [place for place in self.scan.runs().values() if not self._is_counted(place)]
        if missing and self.patient:
            self._count(missing)
        elif missing:
            self._start(None, self._count, missing)
        return not missing

    def _count(self, places: Sequence[RunPlace]) -> None:
        for place in places:
            if self._stopped.is_set():
                return
            state = file_state(place.folder, ANSWER_FILES)
            try:
                if state[0][1] <= COUNTED_AT_ONCE:
                    self._totals[place.folder] = state, count_answers(place.folder)
                is_readable = state[0][1] <= COUNTED_AT_ONCE or self.answers(place)[1].state != "failed"
            except (EmendError, OSError):
                is_readable = False
            if not is_readable:
                self._totals[place.folder] = state, None


def count_answers(folder: Path) -> Totals:
    """Count the answers of a run that is not large.

    Raises:
        BadData: a damaged line.
    """
    units, records, unscored, retried, tokens = set[str](), 0, 0, 0, 0
    for record in read_records(folder, parse_fields) if (folder / RECORDS).exists() else ():
        units.add(record.unit)
        records += 1
        unscored += bool(record.unscored)
        retried += record.usage.retries > 0
        tokens += record.usage.input_tokens + record.usage.output_tokens
    failed = {line["unit"] for line in read_lines(folder, ERRORS)} - units
    return Totals(records, unscored, len(units), retried, tokens, len(failed))


def entry_of(place: RunPlace, totals: Totals | None) -> RunEntry:
    """A run in short, with these counts."""
    manifest, config = place.manifest, place.manifest.config
    costs = [usage.cost for usage in manifest.spent.values() if usage.cost is not None]
    finished, failed = (totals.units, totals.failed) if totals else (0, 0)
    return RunEntry(
        id=place.id,
        name=place.name,
        folder=str(place.folder),
        href=f"run/{place.id}/index.html",
        benchmark=config.benchmark,
        model=config.model,
        editors=config.editors,
        mode=manifest.mode or config.mode or "",
        started=manifest.started,
        state=_state(place.folder, manifest, finished + failed if totals else None),
        units=manifest.units,
        finished=finished,
        failed=failed,
        records=totals.records if totals else None,
        unscored=totals.unscored if totals else None,
        tokens=totals.tokens if totals else None,
        cost=sum(costs) if costs else None,
    )


def _state(folder: Path, manifest: Manifest, processed: int | None) -> State:
    if processed is not None and processed >= manifest.units:
        return "finished"
    return "running" if is_written(folder) else "stopped"


def command(*words: str) -> str:
    """A command of Emend as it is typed in a shell."""
    return shlex.join(["emend", *words])
