"""The runs of a viewer with what is read and computed of them; safe for many threads."""

import json
import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

from emend.evals.log.lines import CASES, ERRORS, RECORDS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import parse_fields, read_lines, read_records
from emend.evals.log.run_index import RunIndex
from emend.evals.log.table_parts import find_parts, parts_folder
from emend.evals.show.view.answers import LARGE, SOURCES, RunAnswers, Totals
from emend.evals.show.view.results import ResultCache
from emend.evals.show.view.scan import FileState, RunPlace, Scan, file_state, is_written
from emend.evals.show.view.views import RunEntry, State, Status
from emend.memory.errors import BadData, EmendError
from emend.memory.files import private_folder, read_input, replace_file
from emend.memory.paths import cache_folder

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
COUNTED_BETWEEN = 50
"""Number of runs after which their counts are kept for the next time."""
ANSWER_FILES = (RECORDS, CASES, ERRORS)
_TOTALS = "totals.json"


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
        self._totals: dict[str, tuple[FileState, Totals]] = {}
        self._lock, self._counting = threading.Lock(), threading.Lock()
        self._stopped = threading.Event()
        self._locks: dict[Path, threading.Lock] = {}
        self._loading: set[Path] = set()
        self._read_totals()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self.results.close()
        with self._counting:
            pass

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
        """The answers of a run as far as they are written, or None while tables are made of many."""
        state = file_state(place.folder, ANSWER_FILES)
        with self._lock:
            known = self._answers.get(place.folder)
        if known is None or not known.is_current(state):
            if waiting := self._wait_for_tables(place):
                return None, waiting
            if known is None and not self.patient and state[0][1] > LOADED_AT_ONCE:
                return None, self._load_meanwhile(place)
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

    def _load_meanwhile(self, place: RunPlace) -> Status:
        """Read the answers of a large run, which takes longer than a page may."""
        if place.folder not in self._loading:
            self._loading.add(place.folder)
            threading.Thread(target=self._load_large, args=(place,), name="emend-view-load", daemon=True).start()
        return Status(state="computing", text="reading the tables")

    def _load_large(self, place: RunPlace) -> None:
        try:
            with suppress(EmendError, OSError):
                self._load(place)
        finally:
            self._loading.discard(place.folder)

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
        self._totals[str(place.resolved)] = state, known.answers.totals
        return known

    def entry(self, place: RunPlace, wait: bool = True) -> RunEntry:
        """A run in short; without `wait` counts that are not known yet are left out, and counted meanwhile."""
        totals = self._totals_of(place)
        if totals is None and wait:
            answers, _ = self.answers(place)
            totals = answers.totals if answers else None
        return entry_of(place, totals)

    def _totals_of(self, place: RunPlace) -> Totals | None:
        state, totals = self._totals.get(str(place.resolved), ((), None))
        return totals if state == file_state(place.folder, ANSWER_FILES) else None

    def count_all(self) -> bool:
        """Count the answers of all runs in the background; True when that is done."""
        missing = [place for place in self.scan.runs().values() if self._totals_of(place) is None]
        if missing and self.patient:
            self._count(missing)
        elif missing and not self._counting.locked():
            threading.Thread(target=self._count, args=(missing,), name="emend-view-count", daemon=True).start()
        return not missing

    def _count(self, places: Sequence[RunPlace]) -> None:
        with self._counting:
            for number, place in enumerate(places):
                if self._stopped.is_set():
                    break
                if number % COUNTED_BETWEEN == COUNTED_BETWEEN - 1:
                    self._write_totals()
                with suppress(EmendError, OSError):
                    if file_state(place.folder, [RECORDS])[0][1] > COUNTED_AT_ONCE:
                        self.answers(place)
                        continue
                    state = file_state(place.folder, ANSWER_FILES)
                    self._totals[str(place.resolved)] = state, count_answers(place.folder)
            self._write_totals()

    def _read_totals(self) -> None:
        with suppress(OSError, ValueError, TypeError, KeyError):
            for folder, (state, totals) in json.loads(read_input(cache_folder("views") / _TOTALS)).items():
                self._totals[folder] = tuple((int(a), int(b), int(c)) for a, b, c in state), Totals(*map(int, totals))

    def _write_totals(self) -> None:
        with suppress(OSError, BadData):
            folder = private_folder(cache_folder("views"), links=True)
            replace_file(folder / _TOTALS, json.dumps(self._totals).encode())


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
