"""Extracts triplets from a benchmark's documents into a file, going on where it stopped, and scores them."""

import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from emend.evals.benchmarks.triples import TEXTS, ExtractedDocument, read_extracted
from emend.evals.case import Benchmark, Case
from emend.evals.metrics.triples import Sorter, TripleQuality, score_documents, sort_by_rule, triple_quality
from emend.evals.runner.progress import Progress, RunProgress
from emend.graphs.extraction import canonical
from emend.graphs.extraction.graph import ExtractContext, build, extract_document
from emend.memory.edit import Edit, FrozenModel
from emend.memory.embeddings.embed import Embedding
from emend.memory.errors import BadSettings, EmendError, MissingData, ModelError, RunRefused, TooManyFailures

MODEL_FAILED = "the model failed: "
"""How a reason begins when no reply came at all."""
FAILURES_IN_A_ROW = 5
BEGIN = b'{"document_id":'
"""Of every line of a file of triplets."""
NO_GOLD = "the benchmark gives no gold triplet for the document"


class Document(FrozenModel):
    """One text to read, and the gold fact behind it, if the benchmark has one: its sentence and its subject."""

    edit: Edit
    gold: str = ""
    subject: str = ""


class Extracted(FrozenModel):
    """What is in the file now, and how much of it this call did."""

    rows: tuple[ExtractedDocument, ...]
    done: int
    skipped: int


OWN_NUMBERS = ("docter_id", "akew_id", "case_id")
"""Tags that hold the number that a case has in the benchmark's own files."""
Extract = Callable[[Edit], ExtractedDocument]
Settings = Mapping[str, str | int | bool]


def documents_of(benchmark: Benchmark, setting: str, limit: int | None = None, seed: int = 0) -> list[Document]:
    """The texts of a setting, each once, with the gold fact of the same case and place where there is one."""
    cases = list(benchmark.cases(setting, limit, seed))
    golds = _golds(benchmark, limit, seed, len(cases))
    found: dict[str, Document] = {}
    for number, case in enumerate(cases):
        told = golds.get(_own(case, number), ())
        told = told if len(told) == len(case.edits) else ()
        for place, edit in enumerate(case.edits):
            if edit.form not in TEXTS or edit.id in found:
                continue
            gold = told[place] if told else None
            text = gold.text.strip().removesuffix(".") if gold else ""
            found[edit.id] = Document(edit=edit, gold=text, subject=gold.subject if gold else "")
    return list(found.values())


def _golds(benchmark: Benchmark, limit: int | None, seed: int, count: int) -> dict[Hashable, tuple[Edit, ...]]:
    """The edits of the setting that gives one triplet by hand, by case; empty if there is no such setting.

    By the data's own numbers, of all cases. Where it has none, by the place, if both settings have as many cases.
    """
    for setting in benchmark.settings:
        try:
            cases = list(benchmark.cases(setting, limit, seed))
            everything = list(benchmark.cases(setting, None, seed)) if limit else []
        except (BadSettings, MissingData):  # DocTER has no gold triplets in Chinese
            continue
        edits = [edit for case in cases for edit in case.edits]
        if edits and all(edit.form == "triplet" and len(edit.triplets) == 1 and edit.target_true for edit in edits):
            told = {_own(case, place): case.edits for found in (everything, cases) for place, case in enumerate(found)}
            return {own: found for own, found in told.items() if isinstance(own, str) or len(cases) == count}
    return {}


def _own(case: Case, place: int) -> Hashable:
    """The number that the case has in the data's own files, as text; else its place."""
    return next((str(case.tags[name]) for name in OWN_NUMBERS if name in case.tags), place)


def extract_to(
    out: Path,
    documents: Sequence[Document],
    extract: Extract,
    fingerprint: str,
    progress: Progress | None = None,
    concurrency: int = 1,
    settings: Settings | None = None,
) -> Extracted:
    """One line per document in `out`, whole and flushed as each is done; documents that are there already are skipped.

    A document whose reply could not be read is there, with its reason, and is tried again by the next call. `settings`
    are those of `settings_of`, which a refusal compares with those in the file.

    Raises:
        RunRefused: the file was made otherwise, is in use, or cannot be written; nothing in it is lost.
        BadData: a line of it is damaged.
    """
    told = progress or RunProgress()
    with _owned(out):
        rows = {row.document_id: row for row in _mended(out, fingerprint, settings or {})}
        left = [one for one in documents if one.edit.id not in rows or rows[one.edit.id].failed]
        told.start(len(documents), len(documents) - len(left))
        try:
            with out.open("ab") as file:
                for row in _while_it_answers(_in_threads(extract, [one.edit for one in left], concurrency)):
                    _append(file, row)
                    rows[row.document_id] = row
                    told.unit(row.method, row.failed, tokens=row.usage.input_tokens + row.usage.output_tokens)
        finally:
            told.close()
        if any(row.failed for row in rows.values()) or len(rows) != sum(1 for _ in read_extracted(out)):
            _rewrite(out, rows.values())
    kept = tuple(rows[one.edit.id] for one in documents)
    return Extracted(rows=kept, done=len(left), skipped=len(documents) - len(left))


def settings_of(context: ExtractContext) -> dict[str, str | int | bool]:
    """What the context's fingerprint is made of, by the names of the command's options; `extractor` is of three."""
    return {
        "extractor": context.extractor.fingerprint,
        "coreference": context.coreference,
        "validation": context.validation,
        "deduplication": context.deduplication,
        "normalisation": f"rules/{canonical.fingerprint()}" if context.normalisation else False,
        "attempts": context.attempts,
        "embedding": context.embedding.identity,
    }


def reader(context: ExtractContext) -> Extract:
    """A function from a text to its line; a model that does not answer makes a failed line.

    Raises:
        BadSettings: out of that function, if the extractor does not know the text's language.
    """
    app = build()
    common: dict[str, Any] = {"method": context.extractor.method, "fingerprint": context.fingerprint}
    common["settings"] = settings_of(context)

    def read(edit: Edit) -> ExtractedDocument:
        try:
            told: dict[str, Any] = extract_document(edit.text, context, edit.language, app).model_dump()
        except (EmendError, MemoryError) as error:
            if not isinstance(error, ModelError):
                raise
            told = {"failed": True, "reason": f"{MODEL_FAILED}{error}"}
        except Exception as error:  # noqa: BLE001  network, limits, keys: every client has errors of its own
            told = {"failed": True, "reason": f"{MODEL_FAILED}{type(error).__name__}: {error}"}
        return ExtractedDocument(document_id=edit.id, **common, **told)

    return read


def _while_it_answers(rows: Iterator[ExtractedDocument]) -> Iterator[ExtractedDocument]:
    """The rows, until the model failed `FAILURES_IN_A_ROW` times: then it is of no use to go on."""
    silent = 0
    for row in rows:
        yield row
        silent = silent + 1 if row.reason.startswith(MODEL_FAILED) else 0
        if silent == FAILURES_IN_A_ROW:
            raise TooManyFailures(
                f"{silent} documents in a row got no reply; the last: {row.reason.removeprefix(MODEL_FAILED)} "
                "What is finished is kept: mend it, and give the same command again."
            )


def _owned(out: Path) -> Any:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{out}.lock", timeout=0)
        return lock.acquire()
    except Timeout as error:
        raise RunRefused(f"another process is writing '{out}': wait for it, or give another --out.") from error
    except OSError as error:
        raise RunRefused(f"cannot write to '{out}': {error.strerror or error}. Give another --out.") from error


def _mended(out: Path, fingerprint: str, settings: Settings) -> list[ExtractedDocument]:
    """The lines that are there; what a killed process left half written is cut off."""
    if not out.exists():
        return []
    rows = list(read_extracted(out))
    if other := next((row for row in rows if row.fingerprint != fingerprint), None):
        raise RunRefused(
            f"'{out}' was made otherwise (fingerprint {other.fingerprint}, now {fingerprint}"
            f"{_difference(other.settings, settings)}): give the same method, model, switches and embedding, or "
            "another --out."
        )
    whole, line_end, torn = out.read_bytes().rpartition(b"\n")
    if not BEGIN.startswith(torn[: len(BEGIN)]):
        raise RunRefused(f"'{out}' ends in what `emend extract` has not written ({torn[:40]!r}): give another --out.")
    os.truncate(out, len(whole) + len(line_end))
    return rows


def _difference(then: Settings, now: Settings) -> str:
    """Which settings are others; those of now, where the file does not say how it was made."""
    if not then:
        told = ", ".join(f"{name} {_shown(value)}" for name, value in now.items())
        return f"; it does not say with which settings, those of now are: {told}" if told else ""
    changed = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    return "".join(f"; {name}: was {_shown(then.get(name))}, now {_shown(now.get(name))}" for name in changed)


def _shown(value: str | int | bool | None) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "not told" if value is None else str(value)


def _append(file: Any, row: ExtractedDocument) -> None:
    try:
        file.write(row.model_dump_json().encode() + b"\n")
        file.flush()
    except OSError as error:
        raise RunRefused(f"cannot write to '{file.name}': {error.strerror}. What is finished is kept.") from error


def _rewrite(out: Path, rows: Any) -> None:
    """Each document once: a failed one that was tried again has two lines until now."""
    draft = out.with_name(out.name + ".new")
    draft.write_bytes(b"".join(row.model_dump_json().encode() + b"\n" for row in rows))
    draft.replace(out)


def _in_threads(extract: Extract, edits: Sequence[Edit], count: int) -> Iterator[ExtractedDocument]:
    """In the order of the documents; at most `count` at once, so that an interruption loses no more than these."""
    if count <= 1:
        yield from map(extract, edits)
        return
    waiting = iter(edits)
    stop = threading.Event()

    def guarded(edit: Edit) -> ExtractedDocument:
        if stop.is_set():
            raise ModelError("stopped")
        return extract(edit)

    with ThreadPoolExecutor(count) as pool:
        running: list[Future[ExtractedDocument]] = [pool.submit(guarded, edit) for edit in islice(waiting, count)]
        try:
            while running:
                yield running.pop(0).result()
                running += [pool.submit(guarded, edit) for edit in islice(waiting, 1)]
        finally:
            stop.set()


def score(
    documents: Sequence[Document],
    rows: Sequence[ExtractedDocument],
    embedding: Embedding,
    sort: Sorter | None = None,
    sorted_by: str = "rules",
) -> TripleQuality:
    """The quality of what was extracted; documents that failed or have no gold fact are unscored, with the reason."""
    pairs = list(zip(documents, rows, strict=True))
    good = [(one, row) for one, row in pairs if one.gold and not row.failed]
    unscored = [row.reason if row.failed else NO_GOLD for one, row in pairs if row.failed or not one.gold]
    scored = score_documents(
        [one.edit.id for one, _ in good],
        [row.triplets for _, row in good],
        [(one.gold, one.subject) for one, _ in good],
        embedding,
    )
    return triple_quality(scored, unscored, sort or sort_by_rule, sorted_by)
