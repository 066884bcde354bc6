"""DocTER's analyses: where in a document a fact stands and how often, languages, reasoning, extracted triplets."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from emend.evals.case import Record
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
    Bins,
    Inventory,
    Lacking,
    PlotStyle,
    ReferenceLine,
    first_value,
    needs,
    ordered,
    panel_name,
    records_of,
    row_of,
)
from emend.evals.run.resources import load_benchmark
from emend.memory.embeddings.embed import FUNCTION_WORDS, Embedding, load_embedding
from emend.memory.paths import cache_folder
from emend.memory.retrieval.tokens import whole

SUCCESS = ("success", "generated")
"""Edit success of a model with probabilities, and of one without."""
MAX_MENTIONS = 5
"""Documents that state their fact so often or more are taken together."""
ENDS = 200
"""Number of documents that DocTER takes from either end."""
FRONT, BACK = "Front", "Back"
ALWAYS = {"always True (DocTER 56.09)": 56.09, "always False (DocTER 43.91)": 43.91}
"""Scores of constant answers on the whole file: 327 and 256 of 583 questions."""
DIRECTIONS = {"doc_en_zh": "en->zh", "doc_zh_en": "zh->en", "cross_en_zh": "en->zh", "cross_zh_en": "zh->en"}
NO_DOCUMENTS = "the edits are no documents: run with --setting doc and --benchmark-option blocks=edit_success."
NO_CROSS = (
    "no question in another language was asked: run with --benchmark-option blocks=cross_en_zh,cross_zh_en "
    "--setting doc_en_zh --setting doc_zh_en."
)
NO_REASONING = "no reasoning question was scored: run with --benchmark-option blocks=edit_success,locality,reasoning."
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_OPENERS = "|".join(sorted({word.capitalize() for word in FUNCTION_WORDS} - {"The"}, key=len, reverse=True))
_PART = rf"(?!(?:{_OPENERS})\b)(?:[A-Z0-9]|[^\W\da-z_])(?:\w|[.&/+-](?=\w)|['’](?!s\b)(?=\w)|(?<=\b\w)\.)*!?"
_NAME = re.compile(
    rf"{_PART}(?:,?\s(?:(?:of|the|and|in|on|for|at|to|a|de|la|le|du|des|von|van|der|den|di|da|al|el|y|e|&)\s)"
    rf"{{0,2}}{_PART})*"
)


def frequency(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Edit success by the number of sentences of the document that name subject and new object (Figure 6)."""
    bins = Bins(runs, NO_DOCUMENTS)
    for run in runs:
        for record, text in _documents(run):
            times = min(MAX_MENTIONS, mentions(text, record.prompt, record.gold[0]))
            label = f"{times}+" if times == MAX_MENTIONS else str(times)
            bins.add(run, record.setting, label, record, first_value(record, SUCCESS), x=times)
    return Analysis(
        title="Edit success by how often the document states the fact",
        unit="edit success, %",
        rows=bins.rows([*map(str, range(MAX_MENTIONS)), f"{MAX_MENTIONS}+"]),
        picture=PlotStyle(
            form="curve", x="sentences that name subject and new object", y="edit success, %", limits=(0, 105)
        ),
        notes=("the subject is taken to be the longest name in the question",),
    )


def position(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Edit success where the new object is named early or late: Front200 against Back200 (section 6.5.4).

    Documents are sorted by the character at which the object is first named, as a whole word. Fewer than 400 documents
    are cut in halves.
    """
    bins = Bins(runs, NO_DOCUMENTS)
    sizes: set[int] = set()
    for run in runs:
        matches = [(record, first_named(text, record.gold[0])) for record, text in _documents(run)]
        for setting in dict.fromkeys(record.setting for record, _ in matches):
            places = {r.case: at for r, at in matches if r.setting == setting and at is not None}
            order = sorted(places, key=lambda case: (places[case], case))
            size = min(ENDS, len(order) // 2)
            sizes.add(size)
            ends = {case: FRONT for case in order[:size]} | {case: BACK for case in order[len(order) - size :]}
            for record, _ in matches:
                if record.setting == setting and (end := ends.get(record.case)) is not None:
                    bins.add(run, setting, end, record, first_value(record, SUCCESS))
    rows = bins.rows((FRONT, BACK))
    answers = " and ".join(str(size) for size in sorted(sizes))
    return Analysis(
        title="Edit success by where the document first names the new object",
        unit="edit success, %",
        rows=rows,
        picture=PlotStyle(x=f"earliest and latest {answers} documents", y="edit success, %", limits=(0, 105)),
        notes=(
            f"{answers} documents from either end (DocTER: {ENDS}), "
            "by the first character of the object as a whole word",
        ),
    )


def crosslingual(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Edit success in the other language, by direction (Table 4): CES, and CEM where there are probabilities."""
    bins = Bins(runs, NO_CROSS)
    for run, record in records_of(runs, ["cross_lingual"]):
        direction = str(run.case(record).tags.get("direction", DIRECTIONS.get(record.setting, record.setting)))
        if any(output in record.values or output in record.unscored for output in SUCCESS):
            bins.add(run, "CES", direction, record, first_value(record, SUCCESS))
        for panel, output in (("CEM", "magnitude"), ("hit@1", "hit@1")):
            bins.take(run, panel, direction, record, output)
    return Analysis(
        title="Transfer to the other language, by direction",
        unit="%",
        rows=tuple(row for row in bins.scored_rows() if row.n),
        picture=PlotStyle(x="documents -> questions", y="%"),
        notes=("CES: the new object more probable than the old; CEM: by how much; hit@1: the right document found",),
    )


def reasoning(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Accuracy of the yes/no questions by label, with what constant answers score drawn in (Tables 2 to 4)."""
    bins = Bins(runs, NO_REASONING)
    labels: dict[str, dict[tuple[str, str], bool]] = {}
    for run, record in records_of(runs, ["reasoning"], ["gold"]):
        if "acc" in record.values or "acc" in record.unscored:
            truth = record.gold[0] == "true"
            labels.setdefault(panel_name(run, runs, record.setting), {})[record.case, record.probe] = truth
            for label in ("all", "True" if truth else "False"):
                bins.take(run, record.setting, label, record, "acc")
    rows = bins.rows(("all", "True", "False"))
    shares = {panel: 100 * sum(answers.values()) / len(answers) for panel, answers in labels.items()}
    return Analysis(
        title="Reasoning by label",
        unit="accuracy, %",
        rows=rows,
        picture=PlotStyle(x="questions whose label is", y="accuracy, %", limits=(0, 105)),
        lines=tuple(ReferenceLine(panel=p, label=name, value=at) for p in labels for name, at in ALWAYS.items()),
        notes=tuple(
            f"{panel}: of these {len(labels[panel])} questions a constant answer gets {share:.2f} (True) or "
            f"{100 - share:.2f} (False); of DocTER's 583 it gets 56.09 or 43.91"
            for panel, share in shares.items()
        ),
    )


def _documents(run: Run) -> Iterator[tuple[Record, str]]:
    """Records of the queries about a document, with its text."""
    for _, record in records_of([run], ["efficacy"], ["prompt", "gold"]):
        edits = run.case(record).edits
        if len(edits) == 1 and edits[0]["form"] == "document":
            yield record, str(edits[0]["text"])


def mentions(document: str, question: str, target: str) -> int:
    """Number of sentences that name both the question's subject and the target, ignoring case."""
    subject = subject_of(question)
    if not subject:
        return 0
    named, answer = (whole(name, any_case=True) for name in (subject.removeprefix("The "), target))
    return sum(bool(named.search(sentence) and answer.search(sentence)) for sentence in _SENTENCES.split(document))


def subject_of(question: str) -> str:
    """Subject of the question: its longest name without possessive and full stop; "" if it has none.

    DocTER's files do not say which part of a question is the subject. A name runs from a capitalised word or number to
    another, over small words such as `of`; `The` opens one, other function words (`What`, `It`) do not.
    """
    matches = [hit.group() for hit in _NAME.finditer(question)]
    return max((name for name in matches if name != "The"), key=len, default="")


def first_named(document: str, target: str) -> int | None:
    """The character at which the target is first named as a whole word; None where it is not."""
    matches = whole(target, any_case=True).search(document)
    return matches.start() if matches else None


def _documents_lack(inventory: Inventory) -> str:
    documents = any(edit["form"] == "document" for case in inventory.run.cases.values() for edit in case.edits)
    return "" if documents and inventory.has(SUCCESS, ["efficacy"]) else NO_DOCUMENTS


FREQUENCY = AnalysisKind(("docter",), _documents_lack, frequency)
POSITION = AnalysisKind(("docter",), _documents_lack, position)
CROSSLINGUAL = AnalysisKind(("docter",), needs(NO_CROSS, SUCCESS, ["cross_lingual"]), crosslingual)
REASONING = AnalysisKind(("docter",), needs(NO_REASONING, ["acc"], ["reasoning"]), reasoning)
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


TRIPLES = AnalysisKind(
    ("docter", "akew"), lambda contents: "" if "triples" in contents.run.options else _no_file(contents.run), triples
)
