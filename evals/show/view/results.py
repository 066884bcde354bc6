"""Statistics of runs, computed by the code behind the commands, also in a process of its own, and only cached here.

What takes long is computed by a process of its own, so that the viewer stays quick and its memory small; until it is
done a page shows the last numbers, or that they are being computed.
"""

import hashlib
import json
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.case import Record
from emend.evals.judging.judged_run import open_run
from emend.evals.judging.panel import Judgement
from emend.evals.judging.store import FOLDER as SCORINGS
from emend.evals.judging.store import find_scoring, installed_judges, plan, read_judgements, scoring_files
from emend.evals.log.lines import EVENTS, RECORDS
from emend.evals.log.run_index import RunIndex
from emend.evals.log.run_table import RunTable
from emend.evals.results.aggregate.rows import Report, report
from emend.evals.results.analyses.base import Analysis, AnalysisRequest
from emend.evals.results.analyses.compare import Comparison, compare
from emend.evals.results.analyses.registry import analyse_runs
from emend.evals.show.view.answers import LARGE, SOURCES
from emend.evals.show.view.scan import FILES, FileState, file_state
from emend.evals.show.view.views import Status
from emend.memory.distribution import installed_version
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, EmendError
from emend.memory.files import open_file, private_folder, replace_file
from emend.memory.paths import cache_folder

LIMIT = 500
"""Number of answers that are listed; all are counted."""


class SplitVote(FrozenModel):
    """An answer with the judgements of it that differ."""

    kind: str
    record: Record
    judgements: tuple[Judgement, ...]


class SplitVotes(FrozenModel):
    """The answers on which the newest scoring's votes differ, the first ones, and how many there are."""

    scoring: str = ""
    judgements: int = 0
    total: int = 0
    votes: tuple[SplitVote, ...] = ()


def split_votes(folder: Path) -> SplitVotes:
    """Collect them.

    Raises:
        BadData: a damaged line.
    """
    scoring = find_scoring(folder)
    if scoring is None:
        return SplitVotes()
    by_item: dict[str, list[Judgement]] = {}
    count = 0
    for judgement in read_judgements(folder, scoring):
        count += 1
        by_item.setdefault(judgement.item, []).append(judgement.without_texts())
    split = {item: judgements for item, judgements in by_item.items() if _differ(judgements)}
    votes, total = list[SplitVote](), 0
    for record, items in plan(folder, installed_judges(scoring)) if split else ():
        for kind, item in items.items():
            if not isinstance(item, str) and item.id in split:
                total += 1
                if len(votes) < LIMIT:
                    votes.append(SplitVote(kind=kind, record=record, judgements=tuple(split[item.id])))
    listed = {judgement.item for vote in votes for judgement in vote.judgements}
    full = {each.key: each for each in read_judgements(folder, scoring) if each.item in listed}
    with_texts = (
        vote.model_copy(update={"judgements": tuple(full.get(each.key, each) for each in vote.judgements)})
        for vote in votes
    )
    return SplitVotes(scoring=scoring.id, judgements=count, total=total, votes=tuple(with_texts))


def _differ(judgements: list[Judgement]) -> bool:
    values = {tuple(sorted(judgement.values.items())) for judgement in judgements if not judgement.problem}
    return len(values) > 1


class Computation(NamedTuple):
    """A computation: the record that it gives, its function of folders and words, and whether results are kept."""

    model: type[FrozenModel]
    function: Callable[[Sequence[Path], Sequence[str]], FrozenModel]
    stored: bool = True


class TablesMade(FrozenModel):
    """A run's tables and its index are as far as its files."""


def _compare(folders: Sequence[Path], words: Sequence[str]) -> Comparison:
    editor_a, editor_b, checkpoint = words
    other = folders[1] if len(folders) > 1 else None
    return compare(folders[0], other, editor_a, editor_b, int(checkpoint))


def _make_tables(folders: Sequence[Path], words: Sequence[str]) -> TablesMade:
    with RunTable(folders[0], SOURCES, large=LARGE), RunIndex(folders[0], LARGE) as index:
        index.update()
        with suppress(EmendError):  # the pages that need the scoring say what is wrong with it
            scoring = find_scoring(folders[0])
            for name in scoring_files(scoring) if scoring else ():
                index.lines(name, [""])
    return TablesMade()


COMPUTATIONS = {
    "report": Computation(Report, lambda folders, words: report(folders[0])),
    "compare": Computation(Comparison, _compare),
    "retrieval": Computation(
        Analysis, lambda folders, words: analyse_runs("retrieval", [open_run(folders[0])], AnalysisRequest())
    ),
    "votes": Computation(SplitVotes, lambda folders, words: split_votes(folders[0])),
    "tables": Computation(TablesMade, _make_tables, stored=False),
}


def compute(kind: str, folders: Sequence[Path], words: Sequence[str]) -> bytes:
    """Compute and return the result as JSON.

    Raises:
        EmendError: what the command would print.
    """
    return COMPUTATIONS[kind].function(folders, words).model_dump_json().encode()


def main() -> None:
    """Print the result of the computation that the first argument names; an `EmendError` becomes one line."""
    kind, folders, words = json.loads(sys.argv[1])
    try:
        content = compute(kind, [Path(folder) for folder in folders], words)
    except EmendError as error:
        sys.exit(" ".join(str(error).split()))
    sys.stdout.buffer.write(content)


if __name__ == "__main__":
    main()


SMALL = 4 * 2**20
"""Size in bytes of records up to which numbers are computed in the viewer's own process."""
WAIT = 0.2
"""Seconds that a page waits for numbers before it is shown without them."""
PAUSE = 10
"""The numbers of a run that goes on are computed again after this many times as long as they took."""
KEPT_FILES, KEPT_RESULTS = 200, 64
MAX_SECONDS = 3600


class ResultKey(NamedTuple):
    """Kind of a computation, its run folders, and further words."""

    kind: str
    folders: tuple[Path, ...]
    words: tuple[str, ...] = ()


@dataclass
class _Result:
    """The last outcome of a computation, and the one that is under way."""

    state: tuple[FileState, ...] = ()
    value: FrozenModel | None = None
    error: str = ""
    seconds: float = 0.0
    ended: float = 0.0
    job: "Future[None] | None" = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class ResultCache:
    """Computes and caches statistics; safe for many threads; a context manager that ends what is under way.

    Args:
        patient: wait for every number, as an export must.
    """

    def __init__(self, patient: bool = False) -> None:
        self._patient = patient
        self._results: OrderedDict[ResultKey, _Result] = OrderedDict()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="emend-view")
        self._processes: set[subprocess.Popen[bytes]] = set()

    def close(self) -> None:
        """End all computations."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in list(self._processes):
            process.kill()
        self._pool.shutdown(wait=True)

    def get(self, kind: str, folders: Sequence[Path], *words: str) -> tuple[Any, Status]:
        """The result of a computation, or the last one, or None; and how far it is."""
        key = ResultKey(kind, tuple(folders), words)
        result = self._result(key)
        state = tuple(_state(folder) for folder in key.folders)
        with result.lock:
            is_new = result.state != state and result.job is None and self._due(result)
            if is_new:
                result.job = self._pool.submit(self._run, key, result, state)
            job = result.job
        if job is not None and (self._patient or (is_new and _size(state) <= SMALL)):
            wait([job], None if self._patient else WAIT)
        if result.error:
            return None, Status(state="failed", text=result.error)
        if result.value is None or (result.job is not None and not result.job.done()):
            return result.value, Status(state="computing", text=_text(result))
        return result.value, Status()

    def is_running(self, kind: str, folders: Sequence[Path], *words: str) -> bool:
        """True while that is being computed."""
        job = self._result(ResultKey(kind, tuple(folders), words)).job
        return job is not None and not job.done()

    def _result(self, key: ResultKey) -> _Result:
        with self._lock:
            result = self._results.setdefault(key, _Result())
            self._results.move_to_end(key)
            idle = [each for each, other in self._results.items() if other.job is None and other is not result]
            for each in idle[: max(0, len(self._results) - KEPT_RESULTS)]:
                del self._results[each]
        return result

    def _due(self, result: _Result) -> bool:
        since = time.monotonic() - result.ended
        return self._patient or not result.state or since >= PAUSE * result.seconds

    def _run(self, key: ResultKey, result: _Result, state: tuple[FileState, ...]) -> None:
        start = time.monotonic()
        value, error = None, ""
        try:
            value = _read(key, state)
            if value is None:
                content = self._compute(key, state)
                value = COMPUTATIONS[key.kind].model.model_validate_json(content)
                _write(key, state, content)
        except EmendError as problem:
            error = str(problem)
        except Exception as problem:  # whatever a damaged run gives; the page says it
            error = f"{type(problem).__name__}: {problem}"
        with result.lock:
            result.state, result.error, result.job = state, error, None
            result.value = None if error else value
            result.ended = time.monotonic()
            result.seconds = result.ended - start

    def _compute(self, key: ResultKey, state: tuple[FileState, ...]) -> bytes:
        if _size(state) <= SMALL or self._patient:
            return compute(key.kind, key.folders, key.words)
        words = json.dumps([key.kind, [str(folder.resolve()) for folder in key.folders], list(key.words)])
        command = [sys.executable, "-P", "-m", "emend.evals.show.view.results", words]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._processes.add(process)
        try:
            content, errors = process.communicate(timeout=MAX_SECONDS)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise BadData(f"the numbers took longer than {MAX_SECONDS} s.") from error
        finally:
            self._processes.discard(process)
        if process.returncode:
            raise BadData(errors.decode(errors="replace").strip().rpartition("\n")[2] or "the computation was ended.")
        return content


def _size(state: tuple[FileState, ...]) -> int:
    return sum(of_folder[FILES.index(name)][1] for of_folder in state for name in (RECORDS, EVENTS))


def _text(result: _Result) -> str:
    return "computing the numbers" if result.value is None else "the run has grown; computing its numbers again"


def _state(folder: Path) -> FileState:
    """State of all that the numbers come from: the run's files, its scorings, and calibrations."""
    further = sorted((folder / SCORINGS).glob("*.json*")) + sorted(cache_folder("calibration").glob("*/*.json"))
    return (*file_state(folder), *(file_state(path.parent, [path.name])[0] for path in further))


def _path(key: ResultKey, state: tuple[FileState, ...]) -> Path:
    folders = [str(folder.resolve()) for folder in key.folders]
    text = json.dumps([key.kind, folders, key.words, state, installed_version()])
    return cache_folder("views") / f"{hashlib.blake2b(text.encode(errors='replace'), digest_size=16).hexdigest()}.json"


def _read(key: ResultKey, state: tuple[FileState, ...]) -> FrozenModel | None:
    """A cached result; None without one, or if another version of Emend wrote it with other fields."""
    if COMPUTATIONS[key.kind].stored:
        with suppress(OSError, BadData, ValueError), open_file(_path(key, state)) as file:
            return COMPUTATIONS[key.kind].model.model_validate_json(file.read())
    return None


def _write(key: ResultKey, state: tuple[FileState, ...], content: bytes) -> None:
    """Keep a result; a cache that cannot be written is done without."""
    path = _path(key, state)
    if not COMPUTATIONS[key.kind].stored:
        return
    with suppress(OSError, BadData):
        private_folder(path.parent, links=True)
        replace_file(path, content)
        for old in sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime)[:-KEPT_FILES]:
            old.unlink(missing_ok=True)
