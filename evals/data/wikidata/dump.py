"""Updates of facts from a dump of Wikidata on disk, whose reading goes on after an interruption.

A dump is read twice, since the labels of a change's objects stand in lines of their own: first the changes, then the
labels, aliases and pages of their objects. What was read is in an SQLite file, so that memory does not grow with it.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self

from emend.evals.data.wikidata.dump_lines import ORIGIN, ChangeScanner, DumpFile, ItemScanner, LineScanner, scan_blocks
from emend.evals.data.wikidata.entities import WikiItem
from emend.evals.data.wikidata.fact_update import (
    ChangeRule,
    FactUpdate,
    Recipe,
    Relations,
    UpdateCounts,
)
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings, FetchFailed
from emend.memory.files import connect_database

Stage = Literal["changes", "objects"]
SCHEMA = (
    "PRAGMA locking_mode=EXCLUSIVE",  # a second reading into the same file would add all changes twice
    "PRAGMA synchronous=OFF",  # a crash of this process loses nothing, and one of the machine costs a reading
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT)",
    "CREATE TABLE IF NOT EXISTS changes (old TEXT, new TEXT, fields TEXT)",
    "CREATE TABLE IF NOT EXISTS objects (id TEXT PRIMARY KEY, label TEXT, aliases TEXT, page TEXT) WITHOUT ROWID",
)


class ScanState:
    """Changes and objects that were read so far, and how far; a context manager.

    Args:
        path: the file; it is made if there is none.
        settings: what is read and how; a file with others is refused.
        today: the present day; that of the file counts if it has one, so that all was read by one day.

    Raises:
        BadSettings: the file is another reading's, or no state.
        FetchFailed: it cannot be read or written.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], today: date) -> None:
        self.path = path
        with self._errors():
            self._database = connect_database(path, isolation_level=None, timeout=1)
        try:
            self._prepare(dict(settings), today)
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._database.close()

    def _prepare(self, settings: dict[str, Any], today: date) -> None:
        with self._errors():
            for line in SCHEMA:
                self._database.execute(line)
        before = self._fact("settings", settings)
        if names := [name for name in settings if before.get(name) != settings[name]]:
            raise BadSettings(
                f"'{self.path}' is the state of a reading with another {', '.join(names)}: name another file, or "
                "delete it to begin anew."
            )
        self.today = date.fromisoformat(self._fact("today", today.isoformat()))
        with self._transaction():
            self._set("settings", settings)
            self._set("today", self.today.isoformat())

    def end_of(self, stage: Stage) -> int:
        """Return the offset up to which a stage has read the dump."""
        return int(self._fact(f"{stage} end", 0))

    def is_done(self, stage: Stage) -> bool:
        """Return whether a stage has read the dump to its end."""
        return bool(self._fact(f"{stage} done", False))

    def finish(self, stage: Stage) -> None:
        """Note that a stage has read the dump to its end."""
        with self._transaction():
            self._set(f"{stage} done", True)

    @property
    def counts(self) -> UpdateCounts:
        """The counts of the first stage."""
        return UpdateCounts(**self._fact("counts", {}))

    def add_changes(self, end: int, changes: Iterable[FactUpdate], counts: UpdateCounts) -> None:
        """Add what the first stage read up to an offset, and all its counts."""
        with self._transaction():
            rows = ((change.old_id, change.new_id, change.model_dump_json()) for change in changes)
            self._database.executemany("INSERT INTO changes VALUES (?, ?, ?)", rows)
            self._set("changes end", end)
            self._set("counts", vars(counts))

    def add_objects(self, end: int, items: Iterable[WikiItem]) -> None:
        """Add what the second stage read up to an offset."""
        with self._transaction():
            rows = ((item.id, item.label, json.dumps(item.aliases), item.page) for item in items)
            self._database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", rows)
            self._set("objects end", end)

    def object_ids(self) -> Iterator[str]:
        """Yield the ids of all changes' objects, each once."""
        with self._errors():
            for (id_,) in self._database.execute("SELECT old FROM changes UNION SELECT new FROM changes"):
                yield id_

    def changes(self) -> Iterator[tuple[FactUpdate, dict[str, WikiItem]]]:
        """Yield the changes in the dump's order, with those of their objects that were read."""
        query = "SELECT id, label, aliases, page FROM objects WHERE id IN (?, ?)"
        with self._errors():
            for old, new, fields in self._database.execute("SELECT old, new, fields FROM changes ORDER BY rowid"):
                rows = self._database.execute(query, (old, new))
                items = (WikiItem(id_, label, tuple(json.loads(names)), page) for id_, label, names, page in rows)
                yield FactUpdate.model_validate_json(fields), {item.id: item for item in items}

    def _fact(self, name: str, default: Any) -> Any:
        with self._errors():
            row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else default

    def _set(self, name: str, value: Any) -> None:
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            remedy = "End another reading that uses it, make room, or delete it to begin anew."
            raise FetchFailed(f"the state of the reading, '{self.path}', cannot be used: {error}. {remedy}") from error


class ScanProgress(FrozenModel):
    """How far a dump is read; `changes` counts candidates whose objects are not looked up yet."""

    stage: Stage
    packed_bytes: int
    packed_size: int
    offset: int
    changes: int


def read_updates(
    dump: Path,
    since: date,
    relations: Relations,
    recipe: Recipe = "best",
    language: str = "en",
    workers: int | None = None,
    progress: Callable[[ScanProgress], None] | None = None,
    *,
    state: Path | None = None,
    counts: UpdateCounts | None = None,
    today: date | None = None,
) -> Iterator[FactUpdate]:
    """Yield the updates that a dump holds, in its order.

    Args:
        dump: `.json`, `.json.gz` or `.json.bz2`.
        since: day of the update: the new object has begun on it or later.
        relations: those that are read.
        recipe: of the rule for what an update is.
        language: of labels, aliases and pages.
        workers: number of processes; None for one a processor.
        progress: called after each block.
        state: file of what was read so far; with it an interrupted reading goes on where it stopped.
        counts: where to add counts of lines, updates and reasons.
        today: ends and starts after it lie in the future; default: the day on which the reading began.

    Raises:
        MissingData: there is no such dump.
        BadData: it is no dump, or is cut off.
        BadSettings: the state is another reading's, or the language is unknown.
        FetchFailed: the state cannot be written.
        WorkerDied: the system ended a worker.
    """
    file = DumpFile(dump)
    settings = {
        "dump": dump.name, "size": file.size, "since": since.isoformat(), "recipe": recipe, "language": language,
        "relations": [relation.model_dump() for relation in relations.relations],
    }  # fmt: skip
    with _state_file(state) as path, ScanState(path, settings, today or date.today()) as scan:
        rule = ChangeRule(recipe=recipe, since=since, today=scan.today)
        scanners: dict[Stage, Callable[[], LineScanner[Any]]] = {
            "changes": lambda: ChangeScanner(rule, relations, language),
            "objects": lambda: ItemScanner(scan.object_ids(), language),
        }
        for stage, make in scanners.items():
            if not scan.is_done(stage):
                _read_stage(file, scan, stage, make(), workers, progress)
        yield from _updates(scan, relations, UpdateCounts() if counts is None else counts)


def _read_stage(
    file: DumpFile,
    scan: ScanState,
    stage: Stage,
    scanner: LineScanner[Any],
    workers: int | None,
    progress: Callable[[ScanProgress], None] | None,
) -> None:
    """Read the dump from where the stage has stopped."""
    counts = scan.counts
    for block, part, rows in scan_blocks(file.blocks(scan.end_of(stage)), scanner, workers):
        if stage == "objects":
            scan.add_objects(block.end, rows)
        elif part.lines and part.lines == part.damaged == counts.lines + part.lines:
            raise BadData(f"'{file.path}' has no line that is an entity. {ORIGIN}")
        else:
            counts.add(part)
            scan.add_changes(block.end, rows, counts)
        if progress is not None:
            changes = counts.candidates - counts.reasons.total()
            size = {"packed_bytes": block.packed_end, "packed_size": file.size, "offset": block.end}
            progress(ScanProgress(stage=stage, changes=changes, **size))
    scan.finish(stage)


def _updates(scan: ScanState, relations: Relations, counts: UpdateCounts) -> Iterator[FactUpdate]:
    counts.add(scan.counts)
    for change, objects in scan.changes():
        update = change.complete(relations, objects)
        if counts.add_result(update):
            yield update


@contextmanager
def _state_file(path: Path | None) -> Iterator[Path]:
    """Give the path, or one in a folder that is removed."""
    if path is not None:
        yield path
        return
    with TemporaryDirectory(prefix="emend-wikidata-") as folder:
        yield Path(folder) / "scan.sqlite"
