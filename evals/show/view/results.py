"""Cache of the statistics of runs, which the code behind the commands computes.

Statistics of large runs are computed in a separate process, so that the viewer stays fast and its
memory small. Until they are ready, a page shows the previous numbers, or that they are being
computed.
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
from emend.evals.judging.items import plan
from emend.evals.judging.judged_run import open_run
from emend.evals.judging.judgement import Judgement
from emend.evals.judging.scorings.judgements import read_judgements, scoring_files
from emend.evals.judging.scorings.manifest import FOLDER as SCORINGS
from emend.evals.judging.scorings.search import find_scoring
from emend.evals.judging.scorings.verdicts import installed_judges
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

# Maximum number of listed answers; all answers are counted.
LIMIT = 500


class SplitVote(FrozenModel):
    """An answer and its differing judgements."""

    kind: str
    record: Record
    judgements: tuple[Judgement, ...]


class SplitVotes(FrozenModel):
    """Number of answers on which the votes of the newest scoring differ, and the first of them."""

    scoring: str = ""
    judgements: int = 0
    total: int = 0
    votes: tuple[SplitVote, ...] = ()


def split_votes(folder: Path) -> SplitVotes:
    """Return the answers of a run on which the votes of its newest scoring differ.

    Raises:
        BadData: a line is damaged.
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
                    votes.append(
                        SplitVote(kind=kind, record=record, judgements=tuple(split[item.id]))
                    )
    listed = {judgement.item for vote in votes for judgement in vote.judgements}
    full = {each.key: each for each in read_judgements(folder, scoring) if each.item in listed}
    with_texts = list[SplitVote]()
    for vote in votes:
        judgements = tuple(full.get(short.key, short) for short in vote.judgements)
        with_texts.append(vote.model_copy(update={"judgements": judgements}))
    return SplitVotes(scoring=scoring.id, judgements=count, total=total, votes=tuple(with_texts))


def _differ(judgements: list[Judgement]) -> bool:
    values = {
        tuple(sorted(judgement.values.items())) for judgement in judgements if not judgement.problem
    }
    return len(values) > 1


class Computation(NamedTuple):
    """A kind of computation.

    It has the class of its result, its function of folders and words, and `stored`, which is True
    if results are cached on disk.
    """

    model: type[FrozenModel]
    function: Callable[[Sequence[Path], Sequence[str]], FrozenModel]
    stored: bool = True


class TablesMade(FrozenModel):
    """Empty result: the tables and the index of a run are up to date with its files."""


def _compare(folders: Sequence[Path], words: Sequence[str]) -> Comparison:
    editor_a, editor_b, checkpoint = words
    other = None
    if len(folders) > 1:
        other = folders[1]
    return compare(folders[0], other, editor_a, editor_b, int(checkpoint))


def _make_tables(folders: Sequence[Path], words: Sequence[str]) -> TablesMade:
    with RunTable(folders[0], SOURCES, large=LARGE), RunIndex(folders[0], LARGE) as index:
        index.update()
        with suppress(EmendError):  # pages that need the scoring show the error
            scoring = find_scoring(folders[0])
            for name in scoring_files(scoring) if scoring else ():
                index.lines(name, [""])
    return TablesMade()


COMPUTATIONS = {
    "report": Computation(Report, lambda folders, words: report(folders[0])),
    "compare": Computation(Comparison, _compare),
    "retrieval": Computation(
        Analysis,
        lambda folders, words: analyse_runs("retrieval", [open_run(folders[0])], AnalysisRequest()),
    ),
    "votes": Computation(SplitVotes, lambda folders, words: split_votes(folders[0])),
    "tables": Computation(TablesMade, _make_tables, stored=False),
}


def compute(kind: str, folders: Sequence[Path], words: Sequence[str]) -> bytes:
    """Compute and return the result as JSON.

    Raises:
        EmendError: the error that the command would print.
    """
    return COMPUTATIONS[kind].function(folders, words).model_dump_json().encode()


def main() -> None:
    """Run the computation in the first command-line argument, and print its result as JSON.

    The message of an `EmendError` is printed as one line.
    """
    kind, folders, words = json.loads(sys.argv[1])
    try:
        content = compute(kind, [Path(folder) for folder in folders], words)
    except EmendError as error:
        sys.exit(" ".join(str(error).split()))
    sys.stdout.buffer.write(content)


if __name__ == "__main__":
    main()


# Size in bytes of records and events up to which numbers are computed in the viewer's own process.
SMALL = 4 * 2**20
# Seconds that a page waits for numbers before it is shown without them.
WAIT = 0.2
# The numbers of a growing run are recomputed after a pause of this many times their computing time.
PAUSE = 10
KEPT_FILES, KEPT_RESULTS = 200, 64
MAX_SECONDS = 3600


class ResultKey(NamedTuple):
    """Key of a result: the kind of computation, its run folders, and further arguments."""

    kind: str
    folders: tuple[Path, ...]
    words: tuple[str, ...] = ()


@dataclass
class _Result:
    """The last result of a computation, and the job that is computing the next one."""

    state: tuple[FileState, ...] = ()
    value: FrozenModel | None = None
    error: str = ""
    seconds: float = 0.0
    ended: float = 0.0
    job: "Future[None] | None" = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class ResultCache:
    """Thread-safe cache that computes statistics.

    Args:
        patient: wait until all numbers are computed, as an export must.
    """

    def __init__(self, patient: bool = False) -> None:
        self._patient = patient
        self._results: OrderedDict[ResultKey, _Result] = OrderedDict()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="emend-view")
        self._processes: set[subprocess.Popen[bytes]] = set()

    def close(self) -> None:
        """Stop all computations."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in list(self._processes):
            process.kill()
        self._pool.shutdown(wait=True)

    def get(self, kind: str, folders: Sequence[Path], *words: str) -> tuple[Any, Status]:
        """Return the latest result of a computation, or None, and the status of the computation."""
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

    def is_running(self, kind: str, folder: Path) -> bool:
        """Return True while a result of one run is being computed."""
        job = self._result(ResultKey(kind, (folder,))).job
        return job is not None and not job.done()

    def _result(self, key: ResultKey) -> _Result:
        with self._lock:
            result = self._results.setdefault(key, _Result())
            self._results.move_to_end(key)
            idle = [
                each
                for each, other in self._results.items()
                if other.job is None and other is not result
            ]
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
        except Exception as problem:  # a damaged run can raise any error; pages show it
            error = f"{type(problem).__name__}: {problem}"
        with result.lock:
            result.state, result.error, result.job = state, error, None
            if error:
                result.value = None
            else:
                result.value = value
            result.ended = time.monotonic()
            result.seconds = result.ended - start

    def _compute(self, key: ResultKey, state: tuple[FileState, ...]) -> bytes:
        if _size(state) <= SMALL or self._patient:
            return compute(key.kind, key.folders, key.words)
        words = json.dumps(
            [key.kind, [str(folder.resolve()) for folder in key.folders], list(key.words)]
        )
        command = [sys.executable, "-P", "-m", "emend.evals.show.view.results", words]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._processes.add(process)
        try:
            content, errors = process.communicate(timeout=MAX_SECONDS)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise BadData(f"the numbers took longer than {MAX_SECONDS} s.") from error
        finally:
            self._processes.discard(process)
        if process.returncode:
            raise BadData(
                errors.decode(errors="replace").strip().rpartition("\n")[2]
                or "the computation was ended."
            )
        return content


def _size(state: tuple[FileState, ...]) -> int:
    return sum(of_folder[FILES.index(name)][1] for of_folder in state for name in (RECORDS, EVENTS))


def _text(result: _Result) -> str:
    if result.value is None:
        return "computing the numbers"
    return "the run has new results; updating the numbers"


def _state(folder: Path) -> FileState:
    """Return the state of all input files: the run's files, its scorings, and calibrations."""
    further = [
        *sorted((folder / SCORINGS).glob("*.json*")),
        *sorted((folder / SCORINGS).glob("*/*.json*")),
        *sorted(cache_folder("calibration").glob("*/*.json")),
    ]
    return (*file_state(folder), *(file_state(path.parent, [path.name])[0] for path in further))


def _path(key: ResultKey, state: tuple[FileState, ...]) -> Path:
    folders = [str(folder.resolve()) for folder in key.folders]
    text = json.dumps([key.kind, folders, key.words, state, installed_version()])
    return (
        cache_folder("views")
        / f"{hashlib.blake2b(text.encode(errors='replace'), digest_size=16).hexdigest()}.json"
    )


def _read(key: ResultKey, state: tuple[FileState, ...]) -> FrozenModel | None:
    """Return a result cached on disk; None if it is missing or has other fields."""
    if COMPUTATIONS[key.kind].stored:
        with suppress(OSError, BadData, ValueError), open_file(_path(key, state)) as file:
            return COMPUTATIONS[key.kind].model.model_validate_json(file.read())
    return None


def _write(key: ResultKey, state: tuple[FileState, ...], content: bytes) -> None:
    """Cache a result on disk; errors of writing are ignored."""
    path = _path(key, state)
    if not COMPUTATIONS[key.kind].stored:
        return
    with suppress(OSError, BadData):
        private_folder(path.parent, links=True)
        replace_file(path, content)
        for old in sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime)[
            :-KEPT_FILES
        ]:
            old.unlink(missing_ok=True)
