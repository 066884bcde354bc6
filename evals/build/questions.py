"""Questions about a folder of documents: a file of facts whose edits are the documents."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from emend.evals.build.documents import DocumentFolder
from emend.evals.build.source_items import KeptItem, SourceItem, SourceNotes
from emend.evals.data.benchmarks.built import BenchmarkFiles
from emend.evals.data.benchmarks.fact_file.template import REAL_FACTS
from emend.memory.files import replace_file
from emend.memory.retrieval.tokens import whole
from emend.memory.typography import fold_typography

FILE = "questions.jsonl"
FAR = 2
"""Questions far from all documents that each fact has."""
TRUE = "Is this true: {statement} Answer yes or no."
LIMITS = (
    "Answers are compared with the words of the document; an answer in other words needs the protocol judge.",
    "Questions far from the documents are about well-known facts; a document that changes one of them makes it wrong.",
    "There are no questions over two documents, and none whose right answer is that the documents do not say it.",
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


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write a file of facts: a row for each fact, with its document as the edit, and its proof as a tag."""
    far = json.loads(REAL_FACTS.read_text(encoding="utf-8"))
    rows = [row for item in items for row in _rows(item, far)]
    replace_file(folder / FILE, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
    return BenchmarkFiles(benchmark="facts", files=(FILE,))


def _rows(item: KeptItem, far: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    name, facts = item.fields["name"], item.result["facts"]
    for place, fact in enumerate(facts):
        start = (len(name) + place) % len(far)
        others = [far[(start + step) % len(far)] for step in range(FAR)]
        yield {
            "document": item.fields["text"],
            "question": fact["question"],
            "answer": fact["answer"],
            "paraphrases": [fact["paraphrase"]],
            "reasoning": [
                {"question": TRUE.format(statement=fact["statement"]), "answer": "yes"},
                {"question": TRUE.format(statement=false_statement(fact)), "answer": "no"},
            ],
            "locality": [{"question": other["question"], "answer": other["old_answer"]} for other in others],
            "tags": {"document": name, "proof": fact["sentence"]},
        }


def false_statement(fact: dict[str, str]) -> str:
    """The statement with the wrong answer in place of the right one."""
    statement = fold_typography(fact["statement"])
    pattern = whole(fold_typography(fact["answer"]), any_case=True)
    return pattern.sub(lambda hit: fact["wrong_answer"], statement, count=1)
