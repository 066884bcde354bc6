"""Questions about a folder of documents, single-hop and two-hop, written as a file of facts with
the documents as edits.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.construction.sources.documents import DocumentFolder
from emend.evals.construction.sources.stored_items import (
    KeptItem,
    SourceItem,
    SourceNotes,
    write_lines,
)
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.facts.fact_file import REAL_FACTS
from emend.graphs.construction.filters.name_forms import names_exactly
from emend.memory.retrieval.tokens import whole
from emend.memory.typography import fold_text, fold_typography

# Maximum number of two-hop questions, and of near questions, per fact.
PER_FACT = 2
_ARTICLE = re.compile(r"\A(?:the|an?)\s+", re.IGNORECASE)


class PlacedFact(NamedTuple):
    """Fact with the name and the text of its document."""

    name: str
    document: str
    fact: Mapping[str, str]


class TwoHops(NamedTuple):
    """Two-hop question: the answer of `first` is the subject of `second`, whose answer is the
    question's.
    """

    question: str
    first: PlacedFact
    second: PlacedFact


def two_hop_questions(facts: Sequence[PlacedFact]) -> Iterator[TwoHops]:
    """Yield two-hop questions over two documents.

    The answer of the first fact is the subject of the second. In the second question, this subject
    is replaced by the first fact's description of it. Descriptions of several answers are skipped.
    """
    about = defaultdict(list)
    for fact in facts:
        about[_name(fact.fact["subject"])].append(fact)
    for first in facts:
        description = first.fact["description"]
        if not description or _is_ambiguous(first, facts):
            continue
        others = (
            fact for fact in about[_name(first.fact["answer"])] if fact.document != first.document
        )
        joined = (_join(description, first, second) for second in others)
        yield from [each for each in joined if each is not None][:PER_FACT]


def _join(description: str, first: PlacedFact, second: PlacedFact) -> TwoHops | None:
    """Return the second question with its subject replaced by the description.

    None if the subject cannot be replaced, or if the question would name an answer.
    """
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
    """Return other facts with the same subject or the same relation, but another answer."""
    near = [
        other
        for other in facts
        if _name(other.fact["answer"]) != _name(fact.fact["answer"])
        and _is_near(other.fact, fact.fact)
    ]
    return near[:PER_FACT]


def _is_near(other: Mapping[str, str], fact: Mapping[str, str]) -> bool:
    same_question = fold_text(other["question"]) == fold_text(fact["question"])
    same_subject = _name(other["subject"]) == _name(fact["subject"])
    return not same_question and (same_subject or _relation(other) == _relation(fact))


def _relation(fact: Mapping[str, str]) -> str:
    """Return the question without its subject, which facts of the same relation share."""
    return whole(fold_text(fact["subject"]), any_case=True).sub(
        "", fold_text(fact["question"]), count=1
    )


def _name(text: str) -> str:
    return _ARTICLE.sub("", fold_text(text)).strip(" .")


FILE = "questions.jsonl"
# Number of questions per fact that are unrelated to all documents.
FAR = 2
TRUE = "Is this true: {statement} Answer yes or no."


def read_source(source: str) -> tuple[Iterator[SourceItem], SourceNotes]:
    """Return the parts of a folder's documents as items, and notes on the folder.

    Raises:
        MissingData: the folder does not exist, or has no documents.
    """
    folder = DocumentFolder(source)
    notes = SourceNotes(
        source, "that of the documents", files=folder.digests(), unread=folder.unread
    )
    if folder.others:
        notes.left_out["files of other types"] = folder.others
    return (
        SourceItem(part.name, {"name": part.name, "text": part.text}) for part in folder.parts()
    ), notes


def written_text(item: KeptItem) -> str:
    """Return the questions about a document with their answers, one per line."""
    return "\n".join(f"{fact['question']} {fact['answer']}" for fact in item.result["facts"])


def write_rows(
    items: Sequence[KeptItem], sources: Sequence[dict[str, Any]], folder: Path
) -> BenchmarkFiles:
    """Write a file of facts with a row per fact, its document as the edit, and its proof sentence
    as a tag.

    Args:
        items: documents with kept facts.
        sources: all documents that were read.
        folder: benchmark folder.
    """
    far = json.loads(REAL_FACTS.read_text(encoding="utf-8"))
    facts = [
        PlacedFact(item.fields["name"], item.fields["text"], fact)
        for item in items
        for fact in item.result["facts"]
    ]
    hops = list(two_hop_questions(facts))
    texts = [source["text"] for source in sources]
    rows = [row for item in items for row in _rows(item, facts, hops, texts, far)]
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
            "locality": [
                {"question": other["question"], "answer": other["old_answer"]} for other in others
            ],
            "abstention": abstention if place == 0 else [],
            "tags": {"document": name, "proof": fact["sentence"]},
        }


def _multihop(hops: TwoHops) -> dict[str, Any]:
    """Return a two-hop question with both proof sentences."""
    proofs = {"proof": hops.first.fact["sentence"], "second_proof": hops.second.fact["sentence"]}
    return {
        "question": hops.question,
        "answer": hops.second.fact["answer"],
        "hops": [hops.first.fact["answer"]],
        "documents": [hops.second.document],
        "tags": {"second_document": hops.second.name, **proofs},
    }


def _near(near: PlacedFact, text: str) -> dict[str, Any]:
    documents = [near.document] if near.document != text else []
    tags = {"document": near.name, "proof": near.fact["sentence"]}
    return {
        "question": near.fact["question"],
        "answer": near.fact["answer"],
        "documents": documents,
        "tags": tags,
    }


def _unanswered(item: KeptItem, texts: Sequence[str]) -> list[str]:
    """Return the questions that a document does not answer, if no other document names their
    subject.
    """
    others = [text for text in texts if text != item.fields["text"]]
    questions = []
    for row in item.result["unanswered"]:
        if not any(names_exactly(text, row["subject"]) for text in others):
            questions.append(row["question"])
    return questions


def false_statement(fact: dict[str, str]) -> str:
    """Return the statement of a fact with the wrong answer instead of the right one."""
    statement = fold_typography(fact["statement"])
    pattern = whole(fold_typography(fact["answer"]), any_case=True)
    return pattern.sub(lambda hit: fact["wrong_answer"], statement, count=1)
