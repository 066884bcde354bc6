"""The quality of extracted triplets and what leaving out a step of the extraction does (DocTER, Tables 6 and 8)."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.benchmarks.triples import Triples, text_setting, triples_files
from emend.evals.judging.judged_run import Run
from emend.evals.measure.extraction import documents_of, score
from emend.evals.metrics.triples import ERRORS
from emend.evals.results.analyses.base import (
    Analysis,
    AnalysisKind,
    AnalysisRequest,
    AnalysisRow,
    Inventory,
    Lacking,
    PlotStyle,
    ordered,
    row_of,
)
from emend.evals.run.setup.benchmark import load_benchmark
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.paths import cache_folder

FIGURES = ("recall", "precision", "f1")
QUALITY, NUMBER, WRONG = "quality, %", "triplets per document", "of unmatched triplets, %"


def triples(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Recall, precision, F1, number and error types of each file of triplets, beside each other.

    Raises:
        Lacking: no file was given, and no run was made with one.
        MissingData: a file, or the benchmark's data, is absent.
        BadData: a file has triplets of none of the documents.
    """
    options = dict.fromkeys(run.options["triples"] for run in runs if "triples" in run.options)
    files = request.triples or tuple(str(file.path) for option in options for file in triples_files(option))
    if not files:
        raise Lacking(_no_file(runs[0]))
    encoder = load_embedding(request.embedding, cache_folder("vectors"))
    rows = [row for file in files for row in _rows(runs[0], Path(file), encoder)]
    return Analysis(
        kind="triples",
        title="Quality of extracted triplets",
        unit="",
        series="file",
        rows=ordered(sorted(rows, key=lambda row: (QUALITY, NUMBER, WRONG).index(row.panel))),
        picture=PlotStyle(alike=False),
        notes=(
            f"a triplet matches at a cosine of 0.8 or more to the gold fact; embedding {encoder.identity}",
            "AT ambiguous triplet, IS incorrect subject, IR incorrect relation, sorted by rule",
        ),
    )


def _rows(run: Run, file: Path, encoder: Embedding) -> list[AnalysisRow]:
    if not BENCHMARKS.installed(run.benchmark):
        raise Lacking(f"'{run.benchmark}' is neither built in nor installed, and reading a run imports no other code.")
    extracted = Triples(file).documents
    options = {name: value for name, value in run.options.items() if name != "triples"}
    source, _ = load_benchmark(run.benchmark, run.data, options)
    documents = [
        document for document in documents_of(source, text_setting(source, None)) if document.edit.id in extracted
    ]
    if not documents:
        raise Lacking(f"'{file}' has triplets of none of the documents of this run's data: give the right file.")
    quality = score(documents, [extracted[document.edit.id] for document in documents], encoder)
    name = file.stem
    rows = [row_of((QUALITY, figure, name), getattr(quality, figure).scaled(100)) for figure in FIGURES]
    rows.append(row_of((NUMBER, "per document", name), quality.per_document))
    return rows + [row_of((WRONG, error, name), quality.errors[error].scaled(100)) for error in ERRORS]


def _lacks(inventory: Inventory) -> str:
    return "" if "triples" in inventory.run.options else _no_file(inventory.run)


def _no_file(run: Run) -> str:
    """Remedy for files of the run's own documents, with its benchmark, data and options."""
    arguments = ["--benchmark", run.benchmark, *(["--data", run.data] if run.data else [])]
    arguments += [each for name, value in run.options.items() for each in ("--benchmark-option", f"{name}={value}")]
    command = f"emend extract {shlex.join(arguments)}"
    return (
        f"no file of extracted triplets is told: make one for each way of extracting, for example {command} --out "
        f"all.jsonl and {command} --no-deduplication --out plain.jsonl, and give them with --triples all.jsonl "
        "--triples plain.jsonl."
    )


TRIPLES = AnalysisKind(("docter", "akew"), _lacks, triples)
