"""Questions about a folder of documents, of one fact or of several joined: a file of facts with documents as edits."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.build.sources.stored_items import KeptItem, SourceItem, SourceNotes, write_lines
from emend.evals.data.benchmarks.fact_file import REAL_FACTS
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.benchmarks.rows import read_text, sha256
from emend.graphs.construction.filters.name_forms import names_exactly
from emend.memory.distribution import install_command
from emend.memory.errors import BadData, MissingData, MissingExtra
from emend.memory.retrieval.tokens import whole
from emend.memory.typography import fold_text, fold_typography

LONGEST = 4_000
"""Characters of a part; a longer document is divided between paragraphs."""
SHORTEST = 80
"""Characters of a text that can state a fact."""
PLAIN, HTML, PDF = (".txt", ".md", ".markdown", ".rst"), (".html", ".htm"), (".pdf",)
HIDDEN = frozenset({"script", "style", "head", "template", "noscript", "nav", "footer"})
BLOCKS = frozenset({"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "table"})


class DocumentPart(NamedTuple):
    """A part of a document: its name, with the number of the part if there are several, and its text."""

    name: str
    text: str


class DocumentFolder:
    """The documents of a folder and the folders in it, in the order of their names; others are counted.

    Raises:
        MissingData: there is no such folder, or no document in it.
    """

    def __init__(self, path: str) -> None:
        self.folder = Path(path).expanduser()
        if not self.folder.is_dir():
            raise MissingData(f"there is no folder '{path}': name one with .txt, .md, .html or .pdf files with --from.")
        files = sorted(file for file in self.folder.rglob("*") if file.is_file() and not file.is_symlink())
        self.files = [file for file in files if file.suffix.lower() in (*PLAIN, *HTML, *PDF)]
        self.others = len(files) - len(self.files)
        if not self.files:
            raise MissingData(f"'{path}' holds no .txt, .md, .html or .pdf file: name another folder with --from.")

    def parts(self) -> Iterator[DocumentPart]:
        """Yield the parts of all documents.

        Raises:
            BadData: a document cannot be read; names it.
            MissingExtra: there is a PDF, and the package that reads it is not installed.
        """
        for file in self.files:
            name, texts = str(file.relative_to(self.folder)), divide(text_of(file))
            for number, text in enumerate(texts, 1):
                yield DocumentPart(f"{name}#{number}" if len(texts) > 1 else name, text)

    def digests(self) -> dict[str, str]:
        """The sha256 of each document."""
        return {str(file.relative_to(self.folder)): sha256(file) for file in self.files}


def text_of(file: Path) -> str:
    """The text of a document."""
    if file.suffix.lower() in PDF:
        return _pdf_text(file)
    text = read_text(file, "Save it as UTF-8.")
    return _html_text(text) if file.suffix.lower() in HTML else text


def divide(text: str) -> list[str]:
    """Parts of a text that are not too long, divided between paragraphs; what is too short to say anything is left out.

    A paragraph that is too long by itself is divided between lines or sentences.
    """
    pieces = [piece.strip() for piece in re.split(r"\n\s*\n", text) if piece.strip()]
    pieces = [part for piece in pieces for part in ([piece] if len(piece) <= LONGEST else _sentences(piece))]
    parts = [""]
    for piece in pieces:
        if parts[-1] and len(parts[-1]) + len(piece) + 2 > LONGEST:
            parts.append("")
        parts[-1] = f"{parts[-1]}\n\n{piece}".strip()
    return parts if len(parts) > 1 or len(parts[0]) >= SHORTEST else []


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in re.findall(rf".{{1,{LONGEST - 1}}}(?:[.!?。\n]|\Z)", text, re.DOTALL)]


def _pdf_text(file: Path) -> str:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError as error:
        raise MissingExtra(f"'{file.name}' is a PDF, which needs a package: {install_command('pdf')}.") from error
    try:
        return "\n\n".join(page.extract_text() for page in PdfReader(file).pages)
    except (PyPdfError, ValueError, OSError, RecursionError) as error:
        raise BadData(f"'{file}' cannot be read as a PDF ({error}): repair or remove it.") from error


class _Text(HTMLParser):
    """The visible text of a page, a line break after each block."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in HIDDEN
        self.parts += ["\n\n"] if tag in BLOCKS else []

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in HIDDEN and self._hidden > 0
        self.parts += ["\n\n"] if tag in BLOCKS else []

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(re.sub(r"\s+", " ", data))


def _html_text(page: str) -> str:
    parser = _Text()
    parser.feed(page)
    parser.close()
    return "".join(parser.parts)


PER_FACT = 2
"""Maximum number of questions of a kind that a fact gets."""
_ARTICLE = re.compile(r"\A(?:the|an?)\s+", re.IGNORECASE)


class PlacedFact(NamedTuple):
    """A fact with the name and the text of the document that states it."""

    name: str
    document: str
    fact: Mapping[str, str]


class TwoHops(NamedTuple):
    """A question whose answer is that of `second`, about what `first` answers."""

    question: str
    first: PlacedFact
    second: PlacedFact


def two_hop_questions(facts: Sequence[PlacedFact]) -> Iterator[TwoHops]:
    """Questions over two documents: the answer of the first fact is the subject of the second.

    The subject of the second question is replaced by the first fact's description of it; a description that fits two
    answers is left out.
    """
    about = defaultdict(list)
    for fact in facts:
        about[_name(fact.fact["subject"])].append(fact)
    for first in facts:
        description = first.fact["description"]
        if not description or _is_ambiguous(first, facts):
            continue
        others = (fact for fact in about[_name(first.fact["answer"])] if fact.document != first.document)
        joined = (_join(description, first, second) for second in others)
        yield from [each for each in joined if each is not None][:PER_FACT]


def _join(description: str, first: PlacedFact, second: PlacedFact) -> TwoHops | None:
    """The question about the second fact with its subject described; None if that gives an answer away."""
    subject = whole(fold_typography(second.fact["subject"]), any_case=True)
    question = subject.sub(lambda hit: description, fold_typography(second.fact["question"]))
    question = re.sub(r"\b(?:the|an?) (?=(?:the|an?) )", "", question, flags=re.IGNORECASE)
    answers = (first.fact["answer"], second.fact["answer"], second.fact["subject"])
    if description not in question or any(names_exactly(question, answer) for answer in answers):
        return None
    return TwoHops(question[:1].upper() + question[1:], first, second)


def _is_ambiguous(fact: PlacedFact, facts: Sequence[PlacedFact]) -> bool:
    answers = {
        _name(other.fact["answer"])
        for other in facts
        if fold_text(other.fact["description"]) == fold_text(fact.fact["description"])
    }
    return len(answers) > 1


def near_facts(fact: PlacedFact, facts: Sequence[PlacedFact]) -> list[PlacedFact]:
    """Other facts of the same subject, or of the same relation with another subject and answer."""
    near = [
        other
        for other in facts
        if _name(other.fact["answer"]) != _name(fact.fact["answer"]) and _is_near(other.fact, fact.fact)
    ]
    return near[:PER_FACT]


def _is_near(other: Mapping[str, str], fact: Mapping[str, str]) -> bool:
    same_question = fold_text(other["question"]) == fold_text(fact["question"])
    same_subject = _name(other["subject"]) == _name(fact["subject"])
    return not same_question and (same_subject or _relation(other) == _relation(fact))


def _relation(fact: Mapping[str, str]) -> str:
    """The question without its subject, which is the same for facts of one relation."""
    return whole(fold_text(fact["subject"]), any_case=True).sub("", fold_text(fact["question"]), count=1)


def _name(text: str) -> str:
    return _ARTICLE.sub("", fold_text(text)).strip(" .")


FILE = "questions.jsonl"
FAR = 2
"""Questions far from all documents that each fact has."""
TRUE = "Is this true: {statement} Answer yes or no."
LIMITS = (
    "Answers are compared with the words of the document; an answer in other words needs the protocol judge.",
    "Questions far from the documents are about well-known facts; a document that changes one of them makes it wrong.",
    "Two hops are joined by code from two facts that a reader has tried one by one; the joined question is not tried.",
    "What the documents leave open is judged by one document each; subjects that another one names are left out.",
)


def read_source(source: str) -> tuple[Iterator[SourceItem], SourceNotes]:
    """The parts of a folder's documents, and notes on the folder.

    Raises:
        MissingData: there is no such folder, or no document in it.
    """
    folder = DocumentFolder(source)
    notes = SourceNotes(source, "that of the documents", files=folder.digests())
    if folder.others:
        notes.left_out["files of other types"] = folder.others
    return (SourceItem(part.name, {"name": part.name, "text": part.text}) for part in folder.parts()), notes


def written_text(item: KeptItem) -> str:
    """The questions of a document."""
    return "\n".join(f"{fact['question']} {fact['answer']}" for fact in item.result["facts"])


def write_rows(items: Sequence[KeptItem], sources: Sequence[dict[str, Any]], folder: Path) -> BenchmarkFiles:
    """Write a file of facts: a row for each fact, with its document as the edit, and its proof as a tag.

    Args:
        items: documents with facts that are kept.
        sources: all documents that were read.
        folder: of the benchmark.
    """
    far = json.loads(REAL_FACTS.read_text(encoding="utf-8"))
    facts = [
        PlacedFact(item.fields["name"], item.fields["text"], fact) for item in items for fact in item.result["facts"]
    ]
    hops = list(two_hop_questions(facts))
    rows = [row for item in items for row in _rows(item, facts, hops, [source["text"] for source in sources], far)]
    write_lines(folder / FILE, rows)
    return BenchmarkFiles(benchmark="facts", files=(FILE,))


def _rows(
    item: KeptItem,
    facts: Sequence[PlacedFact],
    hops: Sequence[TwoHops],
    texts: Sequence[str],
    far: Sequence[dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    name, text = item.fields["name"], item.fields["text"]
    abstention = _unanswered(item, texts)
    for place, fact in enumerate(item.result["facts"]):
        start = (len(name) + place) % len(far)
        others = [far[(start + step) % len(far)] for step in range(FAR)]
        placed = PlacedFact(name, text, fact)
        yield {
            "document": text,
            "question": fact["question"],
            "answer": fact["answer"],
            "paraphrases": [fact["paraphrase"]],
            "reasoning": [
                {"question": TRUE.format(statement=fact["statement"]), "answer": "yes"},
                {"question": TRUE.format(statement=false_statement(fact)), "answer": "no"},
            ],
            "multihop": [_multihop(each) for each in hops if each.first == placed],
            "near_locality": [_near(each, text) for each in near_facts(placed, facts)],
            "locality": [{"question": other["question"], "answer": other["old_answer"]} for other in others],
            "abstention": abstention if place == 0 else [],
            "tags": {"document": name, "proof": fact["sentence"]},
        }


def _multihop(hops: TwoHops) -> dict[str, Any]:
    """A question over two documents, with both proofs."""
    proofs = {"proof": hops.first.fact["sentence"], "second_proof": hops.second.fact["sentence"]}
    return {
        "question": hops.question,
        "answer": hops.second.fact["answer"],
        "documents": [hops.second.document],
        "tags": {"second_document": hops.second.name, **proofs},
    }


def _near(near: PlacedFact, text: str) -> dict[str, Any]:
    documents = [near.document] if near.document != text else []
    tags = {"document": near.name, "proof": near.fact["sentence"]}
    return {"question": near.fact["question"], "answer": near.fact["answer"], "documents": documents, "tags": tags}


def _unanswered(item: KeptItem, texts: Sequence[str]) -> list[str]:
    """Questions that a document leaves open, about subjects that no other document names."""
    others = [text for text in texts if text != item.fields["text"]]
    return [
        each["question"]
        for each in item.result["unanswered"]
        if not any(names_exactly(text, each["subject"]) for text in others)
    ]


def false_statement(fact: dict[str, str]) -> str:
    """The statement with the wrong answer in place of the right one."""
    statement = fold_typography(fact["statement"])
    pattern = whole(fold_typography(fact["answer"]), any_case=True)
    return pattern.sub(lambda hit: fact["wrong_answer"], statement, count=1)
