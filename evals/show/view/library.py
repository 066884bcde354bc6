"""The runs of a viewer with what is read and computed of them; safe for many threads."""

import json
import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from emend.evals.log.lines import CASES, ERRORS, RECORDS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines
from emend.evals.log.run_index import hash_key
from emend.evals.show.view.answers import Mask, RunAnswers, Totals, search_cases, search_texts
from emend.evals.show.view.index import AnswerIndex
from emend.evals.show.view.results import ResultCache
from emend.evals.show.view.scan import FileState, RunPlace, Scan, file_state, is_written
from emend.evals.show.view.views.page import Status
from emend.evals.show.view.views.run import RunEntry, State
from emend.memory.errors import BadData, EmendError
from emend.memory.files import private_folder, read_input, replace_file
from emend.memory.paths import cache_folder

AT_ONCE = 6 * 2**20
"""Bytes that a page may have to index before it is shown; more is indexed by a process of its own."""
LOADED_AT_ONCE = 100 * 2**20
"""Size of the records of a run whose rows a page may read before it is shown."""
COUNTED_AT_ONCE = 64 * 2**20
"""Size of the records of a run that is counted without its index."""
KEPT_ANSWERS = 6
"""Number of runs whose answers are held in memory, about 50 MB for a million."""
KEPT_TEXTS = 32
COUNTED_BETWEEN = 50
"""Number of runs after which their counts are kept for the next time."""
MAX_FAILURES = 10_000
_TOTALS = "totals.json"


class Failure(NamedTuple):
    """A unit that failed and was not finished since."""

    unit: str
    case: str
    setting: str
    editor: str
    probe: str
    error: str
    message: str
    at: str


class Search(NamedTuple):
    """Answers that have a text, among those that were searched, which is the share `searched` of all."""

    matches: Mask
    searched: float


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
        self._answers: OrderedDict[Path, RunAnswers] = OrderedDict()
        self._failures: dict[Path, tuple[FileState, tuple[Failure, ...]]] = {}
        self._totals: dict[str, tuple[FileState, Totals]] = {}
        self._searches: OrderedDict[tuple[Path, Any, str], Search] = OrderedDict()
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
    def index(self, place: RunPlace) -> Iterator[AnswerIndex]:
        """Open the index of a run; one thread at a time works on a run.

        Raises:
            BadData: a damaged line.
        """
        with self._lock_of(place.folder), AnswerIndex(place.folder, place.manifest.metrics) as index:
            yield index

    def _lock_of(self, folder: Path) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(folder, threading.Lock())

    def indexing(self, place: RunPlace) -> Status | None:
        """Why the index of a run cannot be used yet; None if it can."""
        if not self.patient and not self.results.is_running("index", [place.folder]):
            with self.index(place) as index:
                lag = index.lag()
            if lag <= AT_ONCE:
                return None
        elif self.patient:
            return None
        _, status = self.results.get("index", [place.folder])
        if status.state == "ready":
            return None
        size = sum(size for _, size, _ in file_state(place.folder)) / 2**20
        return status if status.state == "failed" else Status(state="computing", text=f"reading {size:,.0f} MB")

    def answers(self, place: RunPlace) -> tuple[RunAnswers | None, Status]:
        """The answers of a run as far as they are written, or None while many are being indexed."""
        if waiting := self.indexing(place):
            return None, waiting
        with self._lock:
            before = self._answers.get(place.folder)
        if before is None and not self.patient and file_state(place.folder, [RECORDS])[0][1] > LOADED_AT_ONCE:
            return None, self._load_meanwhile(place)
        return self._load(place, before)

    def _load_meanwhile(self, place: RunPlace) -> Status:
        """Read the rows of a large run, which takes longer than a page may."""
        if place.folder not in self._loading:
            self._loading.add(place.folder)
            threading.Thread(target=self._load_large, args=(place,), name="emend-view-load", daemon=True).start()
        return Status(state="computing", text="reading the index")

    def _load_large(self, place: RunPlace) -> None:
        try:
            with suppress(EmendError, OSError):
                self._load(place, None)
        finally:
            self._loading.discard(place.folder)

    def _load(self, place: RunPlace, before: RunAnswers | None) -> tuple[RunAnswers, Status]:
        with self.index(place) as index:
            if before is None or before.state != index.state():
                before = RunAnswers(index, tuple(place.manifest.cases), place.manifest.config.editors, before)
        with self._lock:
            self._answers[place.folder] = before
            self._answers.move_to_end(place.folder)
            while len(self._answers) > KEPT_ANSWERS:
                self._answers.popitem(last=False)
        self._keep_totals(place, before.totals)
        return before, Status(records=before.totals.records)

    def search(self, place: RunPlace, answers: RunAnswers, text: str, budget: float) -> Search:
        """Answers that have a text, or whose case's edits have it, as far as they are found in some seconds.

        A search that takes longer goes on with the next call.
        """
        end = time.monotonic() + budget
        key = place.folder, answers.state, text
        before = self._searches.get(key) or Search(np.zeros(answers.totals.records, bool), 0.0)
        total = len(answers.chunk_sizes)
        chunk = round(before.searched * total)
        with self.index(place) as index:
            if not chunk:
                cases = np.append(search_cases(index, answers, text), False)
                before.matches[:] = cases[answers.columns["case"].astype(np.int64)]
            while chunk < total and (self.patient or time.monotonic() < end):
                search_texts(index, answers, text, before.matches, chunk)
                chunk += 1
        search = Search(before.matches, chunk / total if total else 1.0)
        with self._lock:
            self._searches[key] = search
            while len(self._searches) > KEPT_TEXTS:
                self._searches.popitem(last=False)
        return search

    def failures(self, place: RunPlace, answers: RunAnswers) -> tuple[Failure, ...]:
        """Units that failed and were not finished since, each once, the first ones of very many."""
        state = file_state(place.folder, [ERRORS, RECORDS])
        known = self._failures.get(place.folder)
        if known is None or known[0] != state:
            lines = list(_failures_of(place.folder))
            hashes = np.array([hash_key(line.unit.encode(errors="replace")) for line in lines], np.int64)
            open_ones = ~np.isin(hashes, answers.units)
            latest = {line.unit: line for line, is_open in zip(lines, open_ones, strict=True) if is_open}
            known = state, tuple(latest.values())
            self._failures[place.folder] = known
        return known[1]

    def entry(self, place: RunPlace, wait: bool = True) -> RunEntry:
        """A run in short; without `wait` counts that are not known yet are left out, and counted meanwhile."""
        totals = self._totals_of(place)
        failed = 0
        if totals is None and wait:
            answers, _ = self.answers(place)
            totals = answers.totals if answers else None
        if totals is not None and file_state(place.folder, [ERRORS])[0][1]:
            failed = self._failed(place)
        return entry_of(place, totals, failed)

    def _failed(self, place: RunPlace) -> int:
        answers, _ = self.answers(place)
        return len(self.failures(place, answers)) if answers else 0

    def _totals_of(self, place: RunPlace) -> Totals | None:
        state, totals = self._totals.get(str(place.resolved), ((), None))
        return totals if state == file_state(place.folder, [RECORDS, CASES]) else None

    def _keep_totals(self, place: RunPlace, totals: Totals) -> None:
        self._totals[str(place.resolved)] = file_state(place.folder, [RECORDS, CASES]), totals

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
                    with AnswerIndex(place.folder, place.manifest.metrics, COUNTED_AT_ONCE * 2) as index:
                        self._keep_totals(place, RunAnswers(index, (), ()).totals)
            self._write_totals()

    def _read_totals(self) -> None:
        with suppress(OSError, ValueError, TypeError, KeyError):
            for folder, (state, totals) in json.loads(read_input(cache_folder("views") / _TOTALS)).items():
                self._totals[folder] = tuple((int(a), int(b), int(c)) for a, b, c in state), Totals(*map(int, totals))

    def _write_totals(self) -> None:
        with suppress(OSError, BadData):
            folder = private_folder(cache_folder("views"), links=True)
            replace_file(folder / _TOTALS, json.dumps(self._totals).encode())


def entry_of(place: RunPlace, totals: Totals | None, failed: int = 0) -> RunEntry:
    """A run in short, with these counts."""
    manifest, config = place.manifest, place.manifest.config
    costs = [usage.cost for usage in manifest.spent.values() if usage.cost is not None]
    finished = totals.units if totals else 0
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


def _failures_of(folder: Path) -> Iterator[Failure]:
    for number, line in enumerate(read_lines(folder, ERRORS)):
        if number >= MAX_FAILURES:
            return
        yield Failure(**{name: str(line.get(name) or "") for name in Failure._fields})


def command(*words: str) -> str:
    """A command of Emend as it is typed in a shell."""
    return shlex.join(["emend", *words])
