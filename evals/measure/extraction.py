"""Extract triplets from a benchmark's documents and score them against its gold facts."""

from collections.abc import Hashable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from emend.agents.providers.policy import CallPolicy
from emend.evals.case import Benchmark, Case
from emend.evals.config.measure_config import ExtractionConfig
from emend.evals.config.run_config import CallLimits
from emend.evals.data.benchmarks.triples import TEXTS, ExtractedDocument, text_setting
from emend.evals.measure.extraction_file import (
    MODEL_FAILED,
    Extract,
    ExtractionRows,
    SourceDocument,
    extract_to,
)
from emend.evals.metrics.triples import Sorter, TripleQuality, score_documents, sort_by_rule, triple_quality
from emend.evals.run.results import Progress
from emend.evals.run.setup.benchmark import load_benchmark
from emend.graphs.extraction.base import rules_digest
from emend.graphs.extraction.graph import ExtractContext, build, extract_document
from emend.graphs.extraction.load import load_extractor
from emend.memory.edit import Edit, content_id
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.errors import BadSettings, EmendError, KeyRefused, MissingData, ModelError, ProviderPaused
from emend.memory.paths import cache_folder
from emend.memory.redaction import refuse_secrets

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
    context = _context(config, embedding, policy)
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


def _context(config: ExtractionConfig, embedding: Embedding, policy: CallPolicy) -> ExtractContext:
    return ExtractContext(
        extractor=_extractor(config, policy),
        embedding=embedding,
        coreference=config.coreference,
        validation=config.validation,
        deduplication=config.deduplication,
        attempts=config.attempts,
        normalisation=config.normalisation,
    )


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
