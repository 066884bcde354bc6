"""Updates of facts from a dump of Wikidata on disk.

A dump is read twice, since the labels of a change's objects stand in lines of their own: first the changes, then the
labels, aliases and pages of their objects. What was read is in an SQLite file, so that memory does not grow with it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from emend.evals.data.wikidata.changes import ChangeRule, Recipe
from emend.evals.data.wikidata.dump_lines import ORIGIN, Block, ChangeScanner, DumpFile, ItemScanner, scan_blocks
from emend.evals.data.wikidata.fact_update import FactUpdate, UpdateCounts
from emend.evals.data.wikidata.relations import Relations
from emend.evals.data.wikidata.scan_state import ScanState, Stage
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData


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
        report = partial(_report, file, progress)
        if not scan.is_done("changes"):
            _find_changes(file, scan, ChangeScanner(rule, relations, language), workers, report)
        if not scan.is_done("objects"):
            _find_objects(file, scan, language, workers, report)
        yield from _updates(scan, relations, UpdateCounts() if counts is None else counts)


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


_Report = Callable[[Stage, Block, UpdateCounts], None]


def _report(
    file: DumpFile, progress: Callable[[ScanProgress], None] | None, stage: Stage, block: Block, counts: UpdateCounts
) -> None:
    if progress is not None:
        progress(
            ScanProgress(
                stage=stage,
                packed_bytes=block.packed_end,
                packed_size=file.size,
                offset=block.end,
                changes=counts.candidates - counts.reasons.total(),
            )
        )


def _find_changes(
    file: DumpFile, scan: ScanState, scanner: ChangeScanner, workers: int | None, report: _Report
) -> None:
    counts = scan.counts
    for block, part, rows in scan_blocks(file.blocks(scan.end_of("changes")), scanner, workers):
        if part.lines and part.lines == part.damaged == counts.lines + part.lines:
            raise BadData(f"'{file.path}' has no line that is an entity. {ORIGIN}")
        counts.add(part)
        scan.add_changes(block.end, rows, counts)
        report("changes", block, counts)
    scan.finish("changes")


def _find_objects(file: DumpFile, scan: ScanState, language: str, workers: int | None, report: _Report) -> None:
    scanner, counts = ItemScanner(scan.object_ids(), language), scan.counts
    for block, _, rows in scan_blocks(file.blocks(scan.end_of("objects")), scanner, workers):
        scan.add_objects(block.end, rows)
        report("objects", block, counts)
    scan.finish("objects")
