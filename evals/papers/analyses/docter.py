"""DocTER's analyses: frequency and position of facts, languages, reasoning, and triplets."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from emend.evals.case import Record
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.benchmarks.triples import Triples, text_setting, triples_files
from emend.evals.evaluate.resources import load_benchmark
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
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.paths import cache_folder
from emend.memory.retrieval.tokens import FUNCTION_WORDS, whole

# Edit success with and without probabilities.
SUCCESS = ("success", "generated")
# Documents with this many mentions or more share one group.
MAX_MENTIONS = 5
# Number of documents that DocTER takes from each end.
ENDS = 200
FRONT, BACK = "Front", "Back"
# Accuracy of constant answers on the whole file: 327 and 256 of 583 questions.
ALWAYS = {"always True (DocTER 56.09)": 56.09, "always False (DocTER 43.91)": 43.91}
DIRECTIONS = {
    "doc_en_zh": "en->zh",
    "doc_zh_en": "zh->en",
    "cross_en_zh": "en->zh",
    "cross_zh_en": "zh->en",
}
NO_DOCUMENTS = (
    "the edits are not documents: run with --setting doc and --benchmark-option "
    "blocks=edit_success."
)
NO_CROSS = (
    "no question in another language was asked: run with --benchmark-option "
    "blocks=cross_en_zh,cross_zh_en --setting doc_en_zh --setting doc_zh_en."
)
NO_REASONING = (
    "no reasoning question was scored: run with --benchmark-option "
    "blocks=edit_success,locality,reasoning."
)
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
# Words that open a question and do not begin a name; "The" may begin one.
_OPENERS = "|".join(
    sorted({word.capitalize() for word in FUNCTION_WORDS} - {"The"}, key=len, reverse=True)
)
# A word of a name: it begins with a capital or a digit, and may contain the points of initials.
_PART = (
    rf"(?!(?:{_OPENERS})\b)(?:[A-Z0-9]|[^\W\da-z_])"
    r"(?:\w|[.&/+-](?=\w)|['’](?!s\b)(?=\w)|(?<=\b\w)\.)*!?"
)
# Up to two small words may stand between the words of a name, as in "Bank of the West".
_NAME = re.compile(
    rf"{_PART}(?:,?\s(?:(?:of|the|and|in|on|for|at|to|a|de|la|le|du|des|von|van|der|den|di|da|al|"
    rf"el|y|e|&)\s)"
    rf"{{0,2}}{_PART})*"
)


def frequency(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Return edit success by number of sentences with subject and new object (Figure 6)."""
    bins = Bins(runs, NO_DOCUMENTS)
    for run in runs:
        for record, text in _documents(run):
            times = min(MAX_MENTIONS, mentions(text, record.prompt, record.gold[0]))
            if times == MAX_MENTIONS:
                label = f"{times}+"
            else:
                label = str(times)
            bins.add(run, record.setting, label, record, first_value(record, SUCCESS), x=times)
    return Analysis(
        title="Edit success by number of mentions of the fact in the document",
        unit="edit success, %",
        rows=bins.rows([*map(str, range(MAX_MENTIONS)), f"{MAX_MENTIONS}+"]),
        picture=PlotStyle(
            form="curve",
            x="sentences that name subject and new object",
            y="edit success, %",
            limits=(0, 105),
        ),
        notes=("the longest name in the question is taken as the subject",),
    )


def position(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Compare edit success by position of the new object: Front200 and Back200 (section 6.5.4).

    Documents are sorted by the character at which the object is first named as a whole word. If
    there are fewer than 400 documents, they are split into halves.
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
            ends = dict.fromkeys(order[:size], FRONT)
            ends |= dict.fromkeys(order[len(order) - size :], BACK)
            for record, _ in matches:
                if record.setting == setting and (end := ends.get(record.case)) is not None:
                    bins.add(run, setting, end, record, first_value(record, SUCCESS))
    rows = bins.rows((FRONT, BACK))
    answers = " and ".join(str(size) for size in sorted(sizes))
    return Analysis(
        title="Edit success by position of the new object's first mention",
        unit="edit success, %",
        rows=rows,
        picture=PlotStyle(
            x=f"{answers} documents with the earliest and the latest mention",
            y="edit success, %",
            limits=(0, 105),
        ),
        notes=(
            f"{answers} documents with the earliest and with the latest mention "
            f"(DocTER: {ENDS}), "
            "by the position of the object's first occurrence as a whole word",
        ),
    )


def crosslingual(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Return edit success in the other language by direction (Table 4): CES, and CEM if possible.

    CEM requires probabilities.
    """
    bins = Bins(runs, NO_CROSS)
    for run, record in records_of(runs, ["cross_lingual"]):
        direction = str(
            run.case(record).tags.get("direction", DIRECTIONS.get(record.setting, record.setting))
        )
        if any(output in record.values or output in record.unscored for output in SUCCESS):
            bins.add(run, "CES", direction, record, first_value(record, SUCCESS))
        for panel, output in (("CEM", "magnitude"), ("hit@1", "hit@1")):
            bins.take(run, panel, direction, record, output)
    return Analysis(
        title="Cross-lingual transfer by direction",
        unit="%",
        rows=tuple(row for row in bins.scored_rows() if row.n),
        picture=PlotStyle(x="documents -> questions", y="%"),
        notes=(
            "CES: the new object is more probable than the old one; CEM: magnitude of CES; hit@1: "
            "the first retrieved document is the relevant one",
        ),
    )


def reasoning(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Return accuracy of the yes/no questions by label (Tables 2 to 4).

    Reference lines show the accuracy of constant answers.
    """
    bins = Bins(runs, NO_REASONING)
    labels: dict[str, dict[tuple[str, str], bool]] = {}
    for run, record in records_of(runs, ["reasoning"], ["gold"]):
        if "acc" in record.values or "acc" in record.unscored:
            truth = record.gold[0] == "true"
            labels.setdefault(panel_name(run, runs, record.setting), {})[
                record.case, record.probe
            ] = truth
            for label in ("all", "True" if truth else "False"):
                bins.take(run, record.setting, label, record, "acc")
    rows = bins.rows(("all", "True", "False"))
    shares = {
        panel: 100 * sum(answers.values()) / len(answers) for panel, answers in labels.items()
    }
    return Analysis(
        title="Accuracy on reasoning questions by label",
        unit="accuracy, %",
        rows=rows,
        picture=PlotStyle(x="label of the questions", y="accuracy, %", limits=(0, 105)),
        lines=tuple(
            ReferenceLine(panel=p, label=name, value=at)
            for p in labels
            for name, at in ALWAYS.items()
        ),
        notes=tuple(
            f"{panel}: of these {len(labels[panel])} questions a constant answer gets {share:.2f} "
            f"(True) or {100 - share:.2f} (False); of DocTER's 583 it gets 56.09 or 43.91"
            for panel, share in shares.items()
        ),
    )


def _documents(run: Run) -> Iterator[tuple[Record, str]]:
    """Yield the records of queries about a document, with its text."""
    for _, record in records_of([run], ["efficacy"], ["prompt", "gold"]):
        edits = run.case(record).edits
        if len(edits) == 1 and edits[0]["form"] == "document":
            yield record, str(edits[0]["text"])


def mentions(document: str, question: str, target: str) -> int:
    """Return the number of sentences with the question's subject and the target, ignoring case."""
    subject = subject_of(question)
    if not subject:
        return 0
    named, answer = (whole(name, any_case=True) for name in (subject.removeprefix("The "), target))
    return sum(
        bool(named.search(sentence) and answer.search(sentence))
        for sentence in _SENTENCES.split(document)
    )


def subject_of(question: str) -> str:
    """Return the subject of the question, its longest name; "" if it has none.

    The name excludes a possessive ending and a full stop. DocTER's files do not mark the subject. A
    name runs from one capitalised word or number to another, across small words such as `of`; `The`
    may open a name, other function words (`What`, `It`) may not.
    """
    matches = [hit.group() for hit in _NAME.finditer(question)]
    return max((name for name in matches if name != "The"), key=len, default="")


def first_named(document: str, target: str) -> int | None:
    """Return the position at which the target first occurs as a whole word; None if it does not."""
    matches = whole(target, any_case=True).search(document)
    if matches:
        return matches.start()
    return None


def _documents_lack(inventory: Inventory) -> str:
    documents = any(
        edit["form"] == "document" for case in inventory.run.cases.values() for edit in case.edits
    )
    if documents and inventory.has(SUCCESS, ["efficacy"]):
        return ""
    return NO_DOCUMENTS


FREQUENCY = AnalysisKind(("docter",), _documents_lack, frequency)
POSITION = AnalysisKind(("docter",), _documents_lack, position)
CROSSLINGUAL = AnalysisKind(("docter",), needs(NO_CROSS, SUCCESS, ["cross_lingual"]), crosslingual)
REASONING = AnalysisKind(("docter",), needs(NO_REASONING, ["acc"], ["reasoning"]), reasoning)
FIGURES = ("recall", "precision", "f1")
QUALITY, NUMBER, WRONG = "quality, %", "triplets per document", "of unmatched triplets, %"


def triples(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Compare files of triplets by recall, precision, F1, number and error types.

    Raises:
        Lacking: no file was given and no run was made with one, or a file has no triplets of the
            run's documents.
        MissingData: a file, or the benchmark's data, is absent.
        BadData: a line of a file is malformed.
    """
    options = dict.fromkeys(run.options["triples"] for run in runs if "triples" in run.options)
    files = request.triples or tuple(
        str(file.path) for option in options for file in triples_files(option)
    )
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
            "a triplet matches the gold fact at a cosine similarity of at least 0.8; embedding "
            f"{encoder.identity}",
            "AT ambiguous triplet, IS incorrect subject, IR incorrect relation, classified by "
            "rules",
        ),
    )


def _rows(run: Run, file: Path, encoder: Embedding) -> list[AnalysisRow]:
    if not BENCHMARKS.installed(run.benchmark):
        raise Lacking(
            f"'{run.benchmark}' is neither built in nor installed, and reading a run "
            "imports no other code."
        )
    extracted = Triples(file).documents
    options = {name: value for name, value in run.options.items() if name != "triples"}
    source, _ = load_benchmark(run.benchmark, run.data, options)
    documents = [
        document
        for document in documents_of(source, text_setting(source, None))
        if document.edit.id in extracted
    ]
    if not documents:
        raise Lacking(f"'{file}' has no triplets of this run's documents: give the right file.")
    quality = score(documents, [extracted[document.edit.id] for document in documents], encoder)
    name = file.stem
    rows = [
        row_of((QUALITY, figure, name), getattr(quality, figure).scaled(100)) for figure in FIGURES
    ]
    rows.append(row_of((NUMBER, "per document", name), quality.per_document))
    return rows + [
        row_of((WRONG, error, name), quality.errors[error].scaled(100)) for error in ERRORS
    ]


def _no_file(run: Run) -> str:
    """Return the command that makes files for the run's own documents, with its options."""
    arguments = ["--benchmark", run.benchmark]
    if run.data:
        arguments += ["--data", run.data]
    for name, value in run.options.items():
        arguments += ["--benchmark-option", f"{name}={value}"]
    command = f"emend extract {shlex.join(arguments)}"
    return (
        "no file of extracted triplets is given: make one for each way of extracting, for "
        f"example {command} --out all.jsonl and {command} --no-deduplication --out plain.jsonl, "
        "and give them with --triples all.jsonl --triples plain.jsonl."
    )


TRIPLES = AnalysisKind(
    ("docter", "akew"),
    lambda contents: "" if "triples" in contents.run.options else _no_file(contents.run),
    triples,
)
