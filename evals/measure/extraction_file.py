"""File of extracted triplets: one line per document, resumed where it stopped, never mixed from two methods."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from emend.evals.data.benchmarks.triples import ExtractedDocument, read_extracted
from emend.evals.log.locking import locked
from emend.evals.log.manifest import changes
from emend.evals.log.records import AppendLog, json_line, replace
from emend.evals.run.results import Progress
from emend.memory.edit import Edit, FrozenModel
from emend.memory.errors import RunRefused, TooManyFailures

MODEL_FAILED = "the model failed: "
"""Beginning of the reason of a document for which the model returned no reply at all."""
FAILURES_IN_A_ROW = 5
LINE_START = b'{"document_id":'
"""Beginning of every line of a file of triplets."""

Extract = Callable[[Edit], ExtractedDocument]
ExtractionSettings = Mapping[str, str | int | bool]


class SourceDocument(FrozenModel):
    """A text to extract from, and the gold fact behind it if the benchmark has one: its sentence and its subject."""

    edit: Edit
    gold: str = ""
    subject: str = ""


class ExtractionRows(FrozenModel):
    """Lines of the file, in the order of the documents, and how many of them this call added or skipped."""

    rows: tuple[ExtractedDocument, ...]
    added: int
    skipped: int


def extract_to(
    out: Path,
    documents: Sequence[SourceDocument],
    extract: Extract,
    fingerprint: str,
    progress: Progress | None = None,
    concurrency: int = 1,
    settings: ExtractionSettings | None = None,
) -> ExtractionRows:
    """Append one line per document to `out`, each flushed when it is done; documents already there are skipped.

    A document whose reply could not be parsed has a line with the reason, and is tried again by the next call.
    `settings` are those of `settings_of`, which a refusal compares with those in the file.

    Raises:
        RunRefused: the file was made with other settings, is in use, or cannot be written; nothing in it is lost.
        BadData: a line of it is damaged.
    """
    bar, out = progress or Progress(), Path(os.path.realpath(out))  # a file that the user names may be a link
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunRefused(f"cannot write to '{out}': {error.strerror or error}. Give another --out.") from error
    with locked(Path(f"{out}.lock"), f"writing '{out}'"):
        rows = {row.document_id: row for row in _read_repaired(out, fingerprint, settings or {})}
        left = [each for each in documents if each.edit.id not in rows or rows[each.edit.id].failed]
        bar.start(len(documents), len(documents) - len(left))
        try:
            with AppendLog(out.parent, [out.name], "Finished documents are kept.") as log:
                for row in _until_silent(_in_threads(extract, [each.edit for each in left], concurrency)):
                    log.append({out.name: json_line(row)})
                    rows[row.document_id] = row
                    bar.unit(row.method, row.failed, tokens=row.usage.input_tokens + row.usage.output_tokens)
        finally:
            bar.close()
        if any(row.failed for row in rows.values()) or len(rows) != sum(1 for _ in read_extracted(out)):
            replace(out, b"".join(map(json_line, rows.values())))  # one that was tried again has two lines until now
    ordered = tuple(rows[each.edit.id] for each in documents)
    return ExtractionRows(rows=ordered, added=len(left), skipped=len(documents) - len(left))


def _until_silent(rows: Iterator[ExtractedDocument]) -> Iterator[ExtractedDocument]:
    """The rows, until the model failed `FAILURES_IN_A_ROW` times in a row.

    Raises:
        TooManyFailures: it did.
    """
    silent = 0
    for row in rows:
        yield row
        silent = silent + 1 if row.reason.startswith(MODEL_FAILED) else 0
        if silent == FAILURES_IN_A_ROW:
            raise TooManyFailures(
                f"{silent} documents in a row got no reply; the last: {row.reason.removeprefix(MODEL_FAILED)} "
                "Finished documents are kept: fix the cause and repeat the command."
            )


def _read_repaired(out: Path, fingerprint: str, settings: ExtractionSettings) -> list[ExtractedDocument]:
    """Lines of an existing file; a last line that a killed process left unfinished is cut off."""
    if not out.exists():
        return []
    rows = list(read_extracted(out))
    if other := next((row for row in rows if row.fingerprint != fingerprint), None):
        changed = changes({"fingerprint": other.fingerprint} | other.settings, {"fingerprint": fingerprint, **settings})
        raise RunRefused(
            f"'{out}' was made with other settings ({'; '.join(changed)}): give the same method, model, switches and "
            "embedding, or another --out."
        )
    whole, line_end, torn = out.read_bytes().rpartition(b"\n")
    if not LINE_START.startswith(torn[: len(LINE_START)]):
        raise RunRefused(f"'{out}' ends in what `emend extract` has not written ({torn[:40]!r}): give another --out.")
    os.truncate(out, len(whole) + len(line_end))
    return rows


def _in_threads(extract: Extract, edits: Sequence[Edit], count: int) -> Iterator[ExtractedDocument]:
    """Rows in the order of the documents; at most `count` at once, so that an interruption loses no more than these."""
    if count <= 1:
        yield from map(extract, edits)
        return
    with ThreadPoolExecutor(count) as pool:
        running: deque[Future[ExtractedDocument]] = deque()
        for edit in edits:
            if len(running) == count:
                yield running.popleft().result()
            running.append(pool.submit(extract, edit))
        while running:
            yield running.popleft().result()
