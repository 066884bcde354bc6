"""Extraction of triplets from a benchmark's documents into a resumable file, and their scores
against gold facts.
"""

import os
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from emend.agents.providers.policy import CallPolicy
from emend.evals.case import Benchmark, Case
from emend.evals.config.limits import Limits
from emend.evals.config.measure_config import ExtractionConfig
from emend.evals.data.benchmarks.triples import (
    TEXTS,
    ExtractedDocument,
    read_extracted,
    text_setting,
)
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.jobs.progress import Progress
from emend.evals.log.folder import locked
from emend.evals.log.manifest import changes
from emend.evals.log.records import AppendLog, json_line, replace
from emend.evals.metrics.triples import (
    Sorter,
    TripleQuality,
    score_documents,
    sort_by_rule,
    triple_quality,
)
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

# Prefix of the reason stored for a document if the model call failed.
MODEL_FAILED = "the model failed: "
FAILURES_IN_A_ROW = 5
# First bytes of every line of a file of triplets.
LINE_START = b'{"document_id":'

Extract = Callable[[Edit], ExtractedDocument]
ExtractionSettings = Mapping[str, str | int | bool]


class SourceDocument(FrozenModel):
    """A text to extract from, with the sentence and the subject of its gold fact if the benchmark
    has one.
    """

    edit: Edit
    gold: str = ""
    subject: str = ""


@runtime_checkable
class StatesFacts(Protocol):
    """Protocol of benchmarks that provide the facts of their documents in the documents'
    language.
    """

    def stated_facts(self) -> Mapping[tuple[str, Hashable], tuple[str, str]]:
        """Return the sentence and the subject of each fact, by language and number of its
        document.
        """
        ...


class ExtractionRows(FrozenModel):
    """Rows of the file in the order of the documents, with the numbers of rows added and skipped by
    this call.
    """

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
    """Append one line per document to `out`, each flushed when it is done; skip documents that are
    already there.

    A document whose reply could not be parsed gets a line with the reason, and is tried again by
    the next call. `settings`, from `settings_of`, are compared with those in the file for the error
    message.

    Raises:
        RunRefused: the file was made with other settings, is in use, or cannot be written; its
            content is not changed.
        BadData: a line of the file is damaged.
    """
    # replacing the path of a link would replace the link, not its file
    bar, out = progress or Progress(), Path(os.path.realpath(out))
    _make_parent(out)
    with locked(Path(f"{out}.lock"), f"writing '{out}'"):
        rows = {row.document_id: row for row in _read_repaired(out, fingerprint, settings or {})}
        left = [each for each in documents if each.edit.id not in rows or rows[each.edit.id].failed]
        bar.start(len(documents), len(documents) - len(left))
        try:
            with AppendLog(out.parent, [out.name], "Finished documents are kept.") as log:
                for row in _until_silent(
                    _in_threads(extract, [each.edit for each in left], concurrency)
                ):
                    log.append({out.name: json_line(row)})
                    rows[row.document_id] = row
                    bar.unit(
                        row.method,
                        row.failed,
                        tokens=row.usage.input_tokens + row.usage.output_tokens,
                    )
        finally:
            bar.close()
        if any(row.failed for row in rows.values()) or len(rows) != sum(
            1 for _ in read_extracted(out)
        ):
            # a document that was tried again has two lines so far
            replace(out, b"".join(map(json_line, rows.values())))
    ordered = tuple(rows[each.edit.id] for each in documents)
    return ExtractionRows(rows=ordered, added=len(left), skipped=len(documents) - len(left))


def _make_parent(out: Path) -> None:
    """Create the folder of an output file.

    Raises:
        RunRefused: the folder cannot be created.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunRefused(
            f"cannot write to '{out}': {error.strerror or error}. Give another --out."
        ) from error


def _until_silent(rows: Iterator[ExtractedDocument]) -> Iterator[ExtractedDocument]:
    """Yield the rows until the model failed `FAILURES_IN_A_ROW` times in a row.

    Raises:
        TooManyFailures: the model failed that often.
    """
    silent = 0
    for row in rows:
        yield row
        if row.reason.startswith(MODEL_FAILED):
            silent = silent + 1
        else:
            silent = 0
        if silent == FAILURES_IN_A_ROW:
            raise TooManyFailures(
                f"{silent} documents in a row had no reply; the last error: "
                f"{row.reason.removeprefix(MODEL_FAILED)} Finished documents are kept: fix the "
                "cause and repeat the command."
            )


def _read_repaired(
    out: Path, fingerprint: str, settings: ExtractionSettings
) -> list[ExtractedDocument]:
    """Read the rows of an existing file, and cut off an incomplete last line of a killed
    process.
    """
    if not out.exists():
        return []
    rows = list(read_extracted(out))
    if other := next((row for row in rows if row.fingerprint != fingerprint), None):
        changed = changes(
            {"fingerprint": other.fingerprint} | other.settings,
            {"fingerprint": fingerprint, **settings},
        )
        raise RunRefused(
            f"'{out}' was made with other settings ({'; '.join(changed)}): give the same method, "
            "model, switches and embedding, or another --out."
        )
    whole, line_end, torn = out.read_bytes().rpartition(b"\n")
    if not LINE_START.startswith(torn[: len(LINE_START)]):
        raise RunRefused(
            f"'{out}' ends with text that `emend extract` did not write ({torn[:40]!r}): give "
            "another --out."
        )
    os.truncate(out, len(whole) + len(line_end))
    return rows


def _in_threads(extract: Extract, edits: Sequence[Edit], count: int) -> Iterator[ExtractedDocument]:
    """Yield rows in the order of the documents; at most `count` run at once and are lost by an
    interruption.
    """
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
# Tags with a case's number in the benchmark's files.
CASE_NUMBERS = ("docter_id", "akew_id", "case_id")
# Methods that call no chat model.
WITHOUT_MODEL = ("rules",)
# Allowed keys of `overrides`, with descriptions for errors.
MODELS_BY_KEY = {"model": "the model that extracts", "judge": "the model that classifies errors"}


class ExtractionResult(NamedTuple):
    """Extracted rows and their quality, with the language and embedding used to measure it."""

    file: ExtractionRows
    quality: TripleQuality
    language: str
    embedding: str


def run_extraction(
    config: ExtractionConfig, limits: Limits, out: Path, progress: Progress | None = None
) -> ExtractionResult:
    """Extract triplets into `out` and score all of them; raise the errors of
    `extract_documents`.
    """
    embedding = load_embedding(config.embedding, cache_folder("vectors"))
    with closing(limits.policy()) as policy:
        documents, file = extract_documents(config, policy, embedding, out, progress)
        quality = score(documents, file.rows, embedding, *_sorter(config, policy))
    language = documents[0].edit.language if documents else "en"
    return ExtractionResult(file, quality, language, embedding.identity)


def extract_documents(
    config: ExtractionConfig,
    policy: CallPolicy,
    embedding: Embedding,
    out: Path,
    progress: Progress | None = None,
) -> tuple[list[SourceDocument], ExtractionRows]:
    """Extract triplets from a benchmark's documents into a file; return the documents and the rows.

    Raises:
        BadSettings: an unknown name, or settings of a model that is not called. Also any error of
            `extract_to`.
    """
    _check(config)
    policy.on_wait = (progress or Progress()).waiting
    benchmark, _ = load_benchmark(config.benchmark, config.data, config.benchmark_options)
    steps = ("coreference", "validation", "deduplication", "attempts", "normalisation")
    context = ExtractContext(
        _extractor(config, policy), embedding, **config.model_dump(include=set(steps))
    )
    documents = documents_of(
        benchmark, text_setting(benchmark, config.setting), config.limit, config.seed
    )
    extract, settings = document_extractor(context), settings_of(context)
    file = extract_to(
        out, documents, extract, context.fingerprint, progress, config.concurrency, settings
    )
    return documents, file


def _check(config: ExtractionConfig) -> None:
    """Refuse a reply format and model settings if no model is called.

    Raises:
        BadSettings: names the option.
    """
    if config.reply_format is not None and config.method in WITHOUT_MODEL:
        raise BadSettings(
            f"method '{config.method}' calls no chat model, so --reply-format "
            f"{config.reply_format} has no effect: leave it out, or choose --method llm."
        )
    for name, settings in config.overrides.items():
        if name not in MODELS_BY_KEY:
            raise BadSettings(
                f"--set {name}: only model.key=value and judge.key=value can be set here."
            )
        if (name == "judge" and config.judge is None) or (
            name == "model" and config.method in WITHOUT_MODEL
        ):
            raise BadSettings(
                f"--set {name}: {MODELS_BY_KEY[name]} is not called: leave it out, or name one."
            )
        refuse_secrets(settings, name)


def _extractor(config: ExtractionConfig, policy: CallPolicy) -> Any:
    """Return the extractor; a chat model is called within the limits of the policy."""
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
    """Return the function that classifies errors, None for rules, and its name."""
    if config.judge is None:
        return None, "rules"
    from emend.agents.llm import load_model
    from emend.agents.roles.extract import sort_error

    model = load_model(config.judge, policy, **config.overrides.get("judge", {}))
    return (lambda gold, triplet: sort_error(model, gold, triplet)), config.judge


def documents_of(
    benchmark: Benchmark, setting: str, limit: int | None = None, seed: int = 0
) -> list[SourceDocument]:
    """Return the distinct texts of a setting, each with the gold fact at the same position of the
    same case, if any.
    """
    cases = list(benchmark.cases(setting, limit, seed))
    gold_edits = _gold_edits(benchmark, limit, seed, len(cases))
    stated = benchmark.stated_facts() if isinstance(benchmark, StatesFacts) else {}
    documents: dict[str, SourceDocument] = {}
    for number, case in enumerate(cases):
        golds = gold_edits.get(_case_key(case, number), ())
        golds = golds if len(golds) == len(case.edits) else ()
        for place, edit in enumerate(case.edits):
            if edit.form not in TEXTS or edit.id in documents:
                continue
            gold = golds[place] if golds else None
            text = ""
            if gold:
                text = gold.text.strip().removesuffix(".")
            fact = (text, gold.subject if gold else "")
            text, subject = stated.get((edit.language, _case_key(case, number)), fact)
            documents[edit.id] = SourceDocument(edit=edit, gold=text, subject=subject)
    return list(documents.values())


def _gold_edits(
    benchmark: Benchmark, limit: int | None, seed: int, count: int
) -> dict[Hashable, tuple[Edit, ...]]:
    """Return the edits of the setting with single hand-made triplets, by case; empty if no setting
    has them.

    Cases are matched by the data's own numbers, or by position if both settings have equally many
    cases.
    """
    for setting in benchmark.settings:
        try:
            cases = list(benchmark.cases(setting, limit, seed))
            if limit:
                everything = list(benchmark.cases(setting, None, seed))
            else:
                everything = []
        except (BadSettings, MissingData):  # DocTER has no gold triplets in Chinese
            continue
        edits = [edit for case in cases for edit in case.edits]
        if edits and all(
            edit.form == "triplet" and len(edit.triplets) == 1 and edit.target_true
            for edit in edits
        ):
            golds = {
                _case_key(c, place): c.edits
                for each in (everything, cases)
                for place, c in enumerate(each)
            }
            return {
                key: edits
                for key, edits in golds.items()
                if isinstance(key, str) or len(cases) == count
            }
    return {}


def _case_key(case: Case, place: int) -> Hashable:
    """Return the number of the case in the data's files, as text, or else its position."""
    return next((str(case.tags[name]) for name in CASE_NUMBERS if name in case.tags), place)


def settings_of(context: ExtractContext) -> dict[str, str | int | bool]:
    """Return everything that the context's fingerprint depends on, by option name; `extractor`
    combines three options.
    """
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
    """Return a function from a text to its row of the file; a failed model call gives a failed row.

    Raises:
        BadSettings: raised by that function, if the extractor does not support the text's language.
    """
    app = build()
    common: dict[str, Any] = {
        "method": context.extractor.method,
        "fingerprint": context.fingerprint,
    }
    common["settings"] = settings_of(context)

    def extract(edit: Edit) -> ExtractedDocument:
        try:
            fields: dict[str, Any] = extract_document(
                edit.text, context, edit.language, app
            ).model_dump()
        except (EmendError, MemoryError) as error:
            if not isinstance(error, ModelError) or isinstance(error, (KeyRefused, ProviderPaused)):
                raise
            fields = {"failed": True, "reason": f"{MODEL_FAILED}{error}"}
        except Exception as error:  # noqa: BLE001
            # network, limits, keys: each client library raises its own exceptions
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
    """Return the quality of the triplets; documents that failed or have no gold fact are unscored,
    with the reason.
    """
    pairs = list(zip(documents, rows, strict=True))
    scorable = [(document, row) for document, row in pairs if document.gold and not row.failed]
    unscored = [
        row.reason if row.failed else NO_GOLD
        for document, row in pairs
        if row.failed or not document.gold
    ]
    scored = score_documents(
        [document.edit.id for document, _ in scorable],
        [row.triplets for _, row in scorable],
        [(document.gold, document.subject) for document, _ in scorable],
        embedding,
    )
    return triple_quality(scored, unscored, sort or sort_by_rule, sorted_by)
