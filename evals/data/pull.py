"""Download of all files of a benchmark into a folder, with derived files, verification, and a
record of their origins.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from emend.evals.data.authors_prompts import elken_judges, elken_run
from emend.evals.data.benchmarks.rows import sha256
from emend.evals.data.download import (
    RETRIES,
    DataSource,
    HostUnreachable,
    Made,
    Remote,
    Report,
    SourceEntry,
    SourceLedger,
    digest_like,
    download,
    unwritable,
)
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, EmendError, FetchFailed
from emend.memory.files import replace_file
from emend.memory.json_files import read_json

# Content of a JSON file, validated by the functions that use it.
Json = Any
# Field with the choice of ELKEN's scope classifier, which is a result, not part of the data.
SERAC = "serac_event"


def make(maker: str, folder: Path, target: Path) -> None:
    """Make the file `target` from other files of the folder.

    Raises:
        BadData: one of the files is malformed.
    """
    try:
        content = MAKERS[maker](folder)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadData(
            f"{target.name} cannot be made: a record lacks {error}. Remove its input files and "
            "fetch again."
        ) from error
    replace_file(target, (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())


def elken_test(folder: Path) -> Json:
    """Reconstruct ELKEN's test events from the outputs of its scope classifier, which contain them
    completely.

    Events with tendency questions come first, in their order, with the fact questions of the same
    event, followed by events with fact questions only.
    """
    tendencies = [_bare(row) for row in _read(folder / "serac/tendency.json")]
    facts = {row["event"]: _bare(row) for row in _read(folder / "serac/fact.json")}
    none: dict[str, list[Json]] = {"qas": [], "local_qas": []}
    both = [
        {
            "event_type": row["event_type"],
            "event": row["event"],
            "tendency": row["tendency"],
            "fact": facts.pop(row["event"], {"fact": none})["fact"],
        }
        for row in tendencies
    ]
    return both + [{**row, "tendency": none} for row in facts.values()]


def docter_facts(folder: Path) -> Json:
    """Return the CounterFact record behind each id that DocTER uses, with `{}` for the subject in
    its prompt.

    Raises:
        BadData: an id has no record, or the record's targets differ from DocTER's.
    """
    names = ("counterfact-edit.json", "counterfact-train.json", "counterfact-val.json")
    known = {row["case_id"]: row for name in names for row in _read(folder / "counterfact" / name)}
    queries: dict[int, Json] = {}
    for name in ("edit_success_eval.json", "cross_en_eval.json", "reasoning_eval.json"):
        for row in _read(folder / name):
            queries.setdefault(int(row["id"]), row)
    if lost := sorted(queries.keys() - known.keys()):
        raise BadData(
            "gold_facts.json cannot be made: CounterFact's files have no record of the "
            f"ids {lost[:10]}."
        )
    return {"data": [_fact(number, known[number], queries[number]) for number in sorted(queries)]}


def _fact(number: int, row: Json, query: Json) -> Json:
    for field, theirs in (("original_target", "ground_truth"), ("altered_target", "target_new")):
        if field in query and query[field] != row[theirs]:
            raise BadData(
                f"gold_facts.json cannot be made: id {number}, field '{field}': '{query[field]}' "
                f"in DocTER and '{row[theirs]}' in CounterFact. Fetch the files of one version "
                "together."
            )
    if row["subject"] not in row["prompt"]:
        raise BadData(
            f"gold_facts.json cannot be made: id {number}: subject '{row['subject']}' is "
            "not in the prompt."
        )
    return {
        "id": number,
        "subject": row["subject"],
        "prompt": row["prompt"],
        "prompt_template": row["prompt"].replace(row["subject"], "{}", 1),
        "original_target": row["ground_truth"],
        "altered_target": row["target_new"],
    }


def _without_choices(question: Json) -> Json:
    return {key: value for key, value in question.items() if key != SERAC}


def _bare(row: Json) -> Json:
    """Return the record without the classifier's choices."""
    bare = {key: value for key, value in row.items() if key not in (SERAC, "id")}
    for part in ("fact", "tendency"):
        if part in bare:
            questions = bare[part]
            bare[part] = {
                scope: list(map(_without_choices, questions[scope]))
                for scope in ("qas", "local_qas")
            }
    return bare


def _read(path: Path) -> list[Json]:
    content = read_json(path, links=True)
    rows = content.get("data") if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise BadData(f"{path}: a list of records expected. Remove it and fetch it again.")
    return rows


MAKERS: dict[str, Callable[[Path], Json]] = {
    "elken_test": elken_test,
    "docter_facts": docter_facts,
    "elken_run": elken_run,
    "elken_judges": elken_judges,
}
LOCK = ".pull.lock"
F = TypeVar("F", Remote, Made)
Status = Literal["fetched", "made", "there", "kept", "failed"]
# Function of a file's name and its size in bytes, if known, that returns the progress callback of
# the file.
ProgressBar = Callable[[str, int | None], AbstractContextManager[Report]]


class Outcome(FrozenModel):
    """Result for one file; `there` means unchanged since it was fetched, `kept` a user's own file
    that was not touched.
    """

    name: str
    status: Status
    bytes: int = 0
    sha256: str = ""
    pinned: bool = False
    licence: str = ""
    problem: str = ""


def no_bar(name: str, size: int | None) -> AbstractContextManager[Report]:
    """Return a progress bar that shows nothing."""
    return nullcontext(lambda size, total: None)


class Puller:
    """Fetcher of the files of one source into one folder; to be used once, from one thread.

    A failed file does not stop the others. No file gets its final name before it is verified.
    """

    def __init__(
        self,
        source: DataSource,
        folder: Path,
        progress_bar: ProgressBar = no_bar,
        retries: int = RETRIES,
    ) -> None:
        self.source, self.folder = source, folder
        self._progress_bar, self._retries = progress_bar, retries
        self._unreachable: set[str] = set()

    def pull(self) -> list[Outcome]:
        """Fetch the missing files, make the derived ones, and return one outcome per file.

        Raises:
            FetchFailed: the folder cannot be written, or another process is fetching into it.
            BadData: the folder's SOURCES.json is malformed.
        """
        with _locked(self.folder):
            self._ledger = SourceLedger.read(self.folder, self.source.name)
            fetched = [self._attempt(remote, self._pull_remote) for remote in self.source.remotes]
            self._outcomes = {outcome.name: outcome for outcome in fetched}
            return fetched + [self._attempt(file, self._pull_made) for file in self.source.derived]

    def _attempt(self, file: F, pull: Callable[[F], Outcome]) -> Outcome:
        try:
            return pull(file)
        except (EmendError, OSError) as error:
            return Outcome(
                name=file.name, status="failed", licence=file.licence, problem=str(error)
            )

    def _pull_remote(self, remote: Remote) -> Outcome:
        if present := self._present(remote, remote.digest):
            return present
        host = urlsplit(remote.url).hostname or ""
        if host in self._unreachable:
            raise FetchFailed(f"not tried, as {host} did not answer before.")
        try:
            with self._progress_bar(remote.name, remote.size) as report:
                download(remote, self.folder, report, self._retries)
        except HostUnreachable:
            self._unreachable.add(host)
            raise
        return self._record(
            remote,
            "fetched",
            origin=remote.repository or host,
            url=remote.url,
            commit=remote.commit,
        )

    def _pull_made(self, file: Made) -> Outcome:
        inputs = [self._outcomes[name] for name in file.inputs]
        if failed := [outcome.name for outcome in inputs if outcome.status == "failed"]:
            raise FetchFailed(f"needs {', '.join(failed)}, which failed.")
        present = self._present(file, "")
        outdated = any(outcome.status == "fetched" for outcome in inputs)
        if present and not (outdated and present.status == "there"):
            return present
        make(file.maker, self.folder, self.folder / file.name)
        return self._record(file, "made", origin="made by emend data pull", made_of=file.inputs)

    def _present(self, file: Remote | Made, digest: str) -> Outcome | None:
        """Return the outcome of a file that already exists; None if it does not.

        Raises:
            BadData: the file differs from the expected one; it is not changed.
            FetchFailed: a link leads out of the folder, or a folder cannot be created.
        """
        target, entry = self._target(file.name), self._ledger.files.get(file.name)
        if not target.is_file():
            return None
        checksum = sha256(target)
        expected = digest or (f"sha256:{entry.sha256}" if entry else "")
        if digest:
            actual = digest_like(target, digest)
        else:
            actual = f"sha256:{checksum}"
        if expected and actual != expected:
            raise BadData(
                f"{target} already exists and is another file: {actual}, expected {expected}. It "
                "was not changed: move it away to fetch the right one."
            )
        return Outcome(
            name=file.name,
            status="there" if expected else "kept",
            bytes=target.stat().st_size,
            sha256=checksum,
            pinned=bool(digest),
            licence=file.licence,
        )

    def _target(self, name: str) -> Path:
        target = self.folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(target.parent, error) from error
        if not target.resolve().is_relative_to(self.folder.resolve()):
            raise FetchFailed(f"'{target}' points outside the folder: remove the link.")
        return target

    def _record(self, file: Remote | Made, status: Status, **source: Any) -> Outcome:
        """Write a new file's origin and checksum into SOURCES.json."""
        path = self.folder / file.name
        entry = SourceEntry(
            licence=file.licence,
            sha256=sha256(path),
            bytes=path.stat().st_size,
            pinned=isinstance(file, Remote) and bool(file.digest),
            fetched=datetime.now(UTC).isoformat(timespec="seconds"),
            **source,
        )
        self._ledger = self._ledger.put(self.folder, file.name, entry)
        fields = entry.model_dump(include={"bytes", "sha256", "pinned", "licence"})
        return Outcome(name=file.name, status=status, **fields)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create the folder if needed, and yield it while no other process can fetch into it."""
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise FetchFailed(
            f"another process is fetching into '{folder}' (it holds {LOCK}): wait for it."
        ) from error
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        yield
    finally:
        lock.release()
