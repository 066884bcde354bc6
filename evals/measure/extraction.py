"""Extract triplets from a benchmark's documents into a file that is resumed, and score them against its gold facts."""

import os
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from emend.agents.providers.policy import CallPolicy
from emend.evals.case import Benchmark, Case
from emend.evals.config.run_config import CallLimits
from emend.evals.config.task_config import ExtractionConfig
from emend.evals.data.benchmarks.triples import TEXTS, ExtractedDocument, read_extracted, text_setting
from emend.evals.log.folder import locked
from emend.evals.log.manifest import changes
from emend.evals.log.records import AppendLog, json_line, replace
from emend.evals.metrics.triples import Sorter, TripleQuality, score_documents, sort_by_rule, triple_quality
from emend.evals.run.resources import load_benchmark
from emend.evals.run.results import Progress
from emend.graphs.extraction.base import rules_digest
from emend.graphs.extraction.graph import ExtractContext, build, extract_document
from emend.graphs.extraction.load import load_extractor
from emend.memory.edit import Edit, FrozenModel, content_id
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.errors import (
    BadSettings,
    EmendError,
    KeyRefused,
    MissingData,
    ModelError,
    ProviderPaused,
    RunRefused,
    TooManyFailures,
)
from emend.memory.paths import cache_folder
from emend.memory.redaction import refuse_secrets

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


NO_GOLD = "the benchmark has no gold triplet for the document"
CASE_NUMBERS = ("docter_id", "akew_id", "case_id")
"""Tags that hold a case's number in the benchmark's own files."""
WITHOUT_MODEL = ("rules", "spacy")
"""Methods that call no chat model."""
MODELS_BY_KEY = {"model": "the model that reads", "judge": "the model that sorts errors"}
"""Parts that `overrides` may name."""


class ExtractionResult(NamedTuple):
    """Extracted rows, their quality, and the language and embedding that the quality was measured with."""

    file: ExtractionRows
    quality: TripleQuality
    language: str
    embedding: str


def run_extraction(
    config: ExtractionConfig, limits: CallLimits, out: Path, progress: Progress | None = None
) -> ExtractionResult:
    """Extract triplets into `out` and score all of them; raises what `extract_documents` does."""
    embedding = load_embedding(config.embedding, cache_folder("vectors"))
    with closing(limits.policy()) as policy:
        documents, file = extract_documents(config, policy, embedding, out, progress)
        quality = score(documents, file.rows, embedding, *_sorter(config, policy))
    language = documents[0].edit.language if documents else "en"
    return ExtractionResult(file, quality, language, embedding.identity)


def extract_documents(
    config: ExtractionConfig, policy: CallPolicy, embedding: Embedding, out: Path, progress: Progress | None = None
) -> tuple[list[SourceDocument], ExtractionRows]:
    """Extract the triplets of a benchmark's documents into a file; returns both.

    Raises:
        BadSettings: an unknown name, or settings of a model that is not called. Also any error of `extract_to`.
    """
    _check(config)
    policy.on_wait = (progress or Progress()).waiting
    benchmark, _ = load_benchmark(config.benchmark, config.data, config.benchmark_options)
    steps = ("coreference", "validation", "deduplication", "attempts", "normalisation")
    context = ExtractContext(_extractor(config, policy), embedding, **config.model_dump(include=set(steps)))
    documents = documents_of(benchmark, text_setting(benchmark, config.setting), config.limit, config.seed)
    extract, settings = document_extractor(context), settings_of(context)
    file = extract_to(out, documents, extract, context.fingerprint, progress, config.concurrency, settings)
    return documents, file


def _check(config: ExtractionConfig) -> None:
    """Refuse a reply format and settings of a model where no model is called.

    Raises:
        BadSettings: names the option.
    """
    if config.reply_format is not None and config.method in WITHOUT_MODEL:
        raise BadSettings(
            f"method '{config.method}' calls no chat model, so --reply-format {config.reply_format} has no effect: "
            "leave it out, or choose --method llm."
        )
    for name, settings in config.overrides.items():
        if name not in MODELS_BY_KEY:
            raise BadSettings(f"--set {name}: only model.key=value and judge.key=value can be set here.")
        if (name == "judge" and config.judge is None) or (name == "model" and config.method in WITHOUT_MODEL):
            raise BadSettings(f"--set {name}: {MODELS_BY_KEY[name]} is not called: leave it out, or name one.")
        refuse_secrets(settings, name)


def _extractor(config: ExtractionConfig, policy: CallPolicy) -> Any:
    """The extractor; a chat model is called within the limits of the policy."""
    reply_format, settings = config.reply_format or "json", config.overrides.get("model", {})
    if config.method != "llm" or config.model is None:
        return load_extractor(config.method, config.model, reply_format)
    from emend.agents.llm import fingerprint, load_model
    from emend.agents.roles.extract import check_form
    from emend.graphs.extraction.llm import LlmExtractor

    check_form(reply_format)  # before a model is loaded
    chat = load_model(config.model, policy, **settings)
    name = fingerprint(chat, config.model) + (f"+{content_id(settings)[:8]}" if settings else "")
    return LlmExtractor(chat, reply_format, name)


def _sorter(config: ExtractionConfig, policy: CallPolicy) -> tuple[Sorter | None, str]:
    """Function that classifies errors, and its name; None is by rules."""
    if config.judge is None:
        return None, "rules"
    from emend.agents.llm import load_model
    from emend.agents.roles.extract import sort_error

    model = load_model(config.judge, policy, **config.overrides.get("judge", {}))
    return (lambda gold, triplet: sort_error(model, gold, triplet)), config.judge


def documents_of(benchmark: Benchmark, setting: str, limit: int | None = None, seed: int = 0) -> list[SourceDocument]:
    """The texts of a setting, each once, with the gold fact of the same case and place if there is one."""
    cases = list(benchmark.cases(setting, limit, seed))
    gold_edits = _gold_edits(benchmark, limit, seed, len(cases))
    documents: dict[str, SourceDocument] = {}
    for number, case in enumerate(cases):
        golds = gold_edits.get(_case_key(case, number), ())
        golds = golds if len(golds) == len(case.edits) else ()
        for place, edit in enumerate(case.edits):
            if edit.form not in TEXTS or edit.id in documents:
                continue
            gold = golds[place] if golds else None
            text = gold.text.strip().removesuffix(".") if gold else ""
            documents[edit.id] = SourceDocument(edit=edit, gold=text, subject=gold.subject if gold else "")
    return list(documents.values())


def _gold_edits(benchmark: Benchmark, limit: int | None, seed: int, count: int) -> dict[Hashable, tuple[Edit, ...]]:
    """Edits of the setting whose edits are single hand-made triplets, by case; empty if there is no such setting.

    Cases are matched by the data's own numbers, or by their place if both settings have as many cases.
    """
    for setting in benchmark.settings:
        try:
            cases = list(benchmark.cases(setting, limit, seed))
            everything = list(benchmark.cases(setting, None, seed)) if limit else []
        except (BadSettings, MissingData):  # DocTER has no gold triplets in Chinese
            continue
        edits = [edit for case in cases for edit in case.edits]
        if edits and all(edit.form == "triplet" and len(edit.triplets) == 1 and edit.target_true for edit in edits):
            golds = {_case_key(c, place): c.edits for each in (everything, cases) for place, c in enumerate(each)}
            return {key: edits for key, edits in golds.items() if isinstance(key, str) or len(cases) == count}
    return {}


def _case_key(case: Case, place: int) -> Hashable:
    """Number of the case in the data's own files, as text, or its place."""
    return next((str(case.tags[name]) for name in CASE_NUMBERS if name in case.tags), place)


def settings_of(context: ExtractContext) -> dict[str, str | int | bool]:
    """Everything that the context's fingerprint depends on, by option name; `extractor` depends on three options."""
    return {
        "extractor": context.extractor.fingerprint,
        "coreference": context.coreference,
        "validation": context.validation,
        "deduplication": context.deduplication,
        "normalisation": f"rules/{rules_digest()}" if context.normalisation else False,
        "attempts": context.attempts,
        "embedding": context.embedding.identity,
    }


def document_extractor(context: ExtractContext) -> Extract:
    """Function from a text to its line in the file; a model that does not answer makes a failed line.

    Raises:
        BadSettings: by that function, if the extractor does not know the text's language.
    """
    app = build()
    common: dict[str, Any] = {"method": context.extractor.method, "fingerprint": context.fingerprint}
    common["settings"] = settings_of(context)

    def extract(edit: Edit) -> ExtractedDocument:
        try:
            fields: dict[str, Any] = extract_document(edit.text, context, edit.language, app).model_dump()
        except (EmendError, MemoryError) as error:
            if not isinstance(error, ModelError) or isinstance(error, (KeyRefused, ProviderPaused)):
                raise
            fields = {"failed": True, "reason": f"{MODEL_FAILED}{error}"}
        except Exception as error:  # noqa: BLE001  network, limits, keys: every client has errors of its own
            fields = {"failed": True, "reason": f"{MODEL_FAILED}{type(error).__name__}: {error}"}
        return ExtractedDocument(document_id=edit.id, **common, **fields)

    return extract


def score(
    documents: Sequence[SourceDocument],
    rows: Sequence[ExtractedDocument],
    embedding: Embedding,
    sort: Sorter | None = None,
    sorted_by: str = "rules",
) -> TripleQuality:
    """Quality of the extracted triplets; documents that failed or have no gold fact are unscored, with the reason."""
    pairs = list(zip(documents, rows, strict=True))
    scorable = [(document, row) for document, row in pairs if document.gold and not row.failed]
    unscored = [row.reason if row.failed else NO_GOLD for document, row in pairs if row.failed or not document.gold]
    scored = score_documents(
        [document.edit.id for document, _ in scorable],
        [row.triplets for _, row in scorable],
        [(document.gold, document.subject) for document, _ in scorable],
        embedding,
    )
    return triple_quality(scored, unscored, sort or sort_by_rule, sorted_by)
