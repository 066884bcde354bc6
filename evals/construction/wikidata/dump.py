"""Fact updates from a Wikidata dump on disk, read resumably.

A dump is read twice, since the labels of a change's objects are in other lines: first the changes,
then the labels, aliases and pages of their objects. Intermediate results are stored in an SQLite
file, so that memory use is constant.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self

from emend.evals.construction.wikidata.dump_lines import (
    ORIGIN,
    ChangeScanner,
    DumpFile,
    ItemScanner,
    LineScanner,
    scan_blocks,
)
from emend.evals.construction.wikidata.entities import WikiItem
from emend.evals.construction.wikidata.fact_update import (
    ChangeRule,
    FactUpdate,
    Recipe,
    UpdateCounts,
)
from emend.evals.data.facts.relation_tables import Relations
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings, FetchFailed
from emend.memory.files import connect_database

Stage = Literal["changes", "objects"]
SCHEMA = (
    # a second process on the same file would add all changes twice
    "PRAGMA locking_mode=EXCLUSIVE",
    # a crash of the process loses nothing; after a crash of the machine the dump is read anew
    "PRAGMA synchronous=OFF",
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT)",
    "CREATE TABLE IF NOT EXISTS changes (old TEXT, new TEXT, fields TEXT)",
    "CREATE TABLE IF NOT EXISTS objects (id TEXT PRIMARY KEY, label TEXT, aliases TEXT, page TEXT) "
    "WITHOUT ROWID",
)


class ScanState:
    """Context manager for the state of a scan: changes and objects read so far, and the offsets.

    Args:
        path: SQLite file, created if it does not exist.
        settings: settings of the scan; a file with other settings is refused.
        today: current date; the date stored in the file takes precedence, so that the whole scan
            uses one date.

    Raises:
        BadSettings: the file belongs to another scan, or is not a state file.
        FetchFailed: the file cannot be read or written.
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
                f"'{self.path}' is the state of a reading with another {', '.join(names)}: name "
                "another file, or delete it to start again."
            )
        with self._errors():
            self.today = date.fromisoformat(self._fact("today", today.isoformat()))
        with self._transaction():
            self._set("settings", settings)
            self._set("today", self.today.isoformat())

    def end_of(self, stage: Stage) -> int:
        """Return the byte offset up to which a stage has read the decompressed dump."""
        return int(self._fact(f"{stage} end", 0))

    def is_done(self, stage: Stage) -> bool:
        """Return whether a stage has read the dump to its end."""
        return bool(self._fact(f"{stage} done", False))

    def finish(self, stage: Stage) -> None:
        """Record that a stage has read the dump to its end."""
        with self._transaction():
            self._set(f"{stage} done", True)

    @property
    def counts(self) -> UpdateCounts:
        """Counts of the first stage."""
        with self._errors():
            return UpdateCounts(**self._fact("counts", {}))

    def add_changes(self, end: int, changes: Iterable[FactUpdate], counts: UpdateCounts) -> None:
        """Store changes that the first stage read up to an offset, and its total counts."""
        with self._transaction():
            rows = ((change.old_id, change.new_id, change.model_dump_json()) for change in changes)
            self._database.executemany("INSERT INTO changes VALUES (?, ?, ?)", rows)
            self._set("changes end", end)
            self._set("counts", vars(counts))

    def add_objects(self, end: int, items: Iterable[WikiItem]) -> None:
        """Store items that the second stage read up to an offset."""
        with self._transaction():
            rows = ((item.id, item.label, json.dumps(item.aliases), item.page) for item in items)
            self._database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", rows)
            self._set("objects end", end)

    def object_ids(self) -> Iterator[str]:
        """Yield the distinct ids of the objects of all changes."""
        with self._errors():
            for (id_,) in self._database.execute(
                "SELECT old FROM changes UNION SELECT new FROM changes"
            ):
                yield id_

    def changes(self) -> Iterator[tuple[FactUpdate, dict[str, WikiItem]]]:
        """Yield the changes in dump order, each once and with the items of its objects that were
        found; a dump may have an item twice.
        """
        changes = "SELECT old, new, fields FROM changes GROUP BY fields ORDER BY min(rowid)"
        query = "SELECT id, label, aliases, page FROM objects WHERE id IN (?, ?)"
        with self._errors():
            for old, new, fields in self._database.execute(changes):
                rows = self._database.execute(query, (old, new))
                items = (
                    WikiItem(id_, label, tuple(json.loads(names)), page)
                    for id_, label, names, page in rows
                )
                yield FactUpdate.model_validate_json(fields), {item.id: item for item in items}

    def _fact(self, name: str, default: Any) -> Any:
        with self._errors():
            row = self._database.execute(
                "SELECT value FROM facts WHERE name = ?", (name,)
            ).fetchone()
            value = json.loads(row[0]) if row else default
            if not isinstance(value, type(default)):
                raise ValueError(f"'{name}' is another type")
            return value

    def _set(self, name: str, value: Any) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value))
        )

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
            remedy = "Stop any other process that uses it, free space, or delete it to start again."
            raise FetchFailed(
                f"the state of the reading, '{self.path}', cannot be used: {error}. {remedy}"
            ) from error
        except (ValueError, TypeError) as error:
            raise FetchFailed(
                f"the state of the reading, '{self.path}', is damaged: delete it to begin anew."
            ) from error


class ScanProgress(FrozenModel):
    """Progress of a scan; `changes` counts the changes found, with or without labels."""

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
    """Yield the fact updates in a dump, in dump order.

    Args:
        dump: `.json`, `.json.gz` or `.json.bz2` file.
        since: earliest start date of a new object.
        relations: relations to read.
        recipe: rule that defines an update.
        language: language of labels, aliases and pages.
        workers: number of processes; None for one per CPU.
        progress: callback after each block.
        state: file for intermediate results, from which an interrupted scan resumes; None for a
            temporary file.
        counts: counts of lines, updates and reasons, which are added to.
        today: current date, after which starts and ends are in the future; default: the date on
            which the scan began.

    Raises:
        MissingData: the dump does not exist.
        BadData: the file is not a dump, or is truncated.
        BadSettings: the state belongs to another scan, or the language is unknown.
        FetchFailed: the state cannot be written.
        WorkerDied: the system killed a worker.
    """
    file = DumpFile(dump)
    settings = _settings(file, since, relations, recipe, language)
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


def _settings(
    file: DumpFile, since: date, relations: Relations, recipe: Recipe, language: str
) -> dict[str, Any]:
    """Return the settings that must be equal when a scan is resumed."""
    return {
        "dump": file.path.name,
        "size": file.size,
        "since": since.isoformat(),
        "recipe": recipe,
        "language": language,
        "relations": [relation.model_dump() for relation in relations.relations],
    }


def _read_stage(
    file: DumpFile,
    scan: ScanState,
    stage: Stage,
    scanner: LineScanner[Any],
    workers: int | None,
    progress: Callable[[ScanProgress], None] | None,
) -> None:
    """Read the dump from the offset at which the stage stopped."""
    counts = scan.counts
    for block, part, rows in scan_blocks(file.blocks(scan.end_of(stage)), scanner, workers):
        if stage == "objects":
            scan.add_objects(block.end, rows)
        elif part.lines and part.lines == part.damaged == counts.lines + part.lines:
            raise BadData(f"'{file.path}' contains no entity. {ORIGIN}")
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
    """Yield the path, or a path in a temporary folder if it is None."""
    if path is not None:
        yield path
        return
    with TemporaryDirectory(prefix="emend-wikidata-") as folder:
        yield Path(folder) / "scan.sqlite"
