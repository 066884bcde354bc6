"""Scripted authors, judges and reviewers: what they say depends on what is asked alone, and most of it is usable."""

import csv
import re
import zlib
from pathlib import Path

from emend.agents.roles.author import SHIPPED
from emend.graphs.extraction.sentences import split_sentences
from emend.graphs.registry import CONSTRUCTIONS
from emend.memory.retrieval.tokens import words
from tests.provider.protocols import Asked

TASKS = {name: prompt.task.partition("{")[0][:60] for name, prompt in SHIPPED.items()}
DOCTER = (
    "press_document", "object_knowledge", "reasoning_question", "follows", "translate_fact", "translate_back",
)  # fmt: skip
NUMBERED = ("", "The harbour", "The council", "A local museum", "The school")


def fact_of(prompt: str) -> str:
    """The fact that a paragraph is asked for, without what was wrong with an earlier one."""
    return prompt.rpartition("Fact: ")[2].partition("\n")[0].strip()


def write_akew(prompt: str) -> str:
    """A paragraph of its own for each fact; one fact in four is refused at first, and one in eight always."""
    if TASKS["paragraph"] not in prompt:
        return CONSTRUCTIONS.load("akew").sample(prompt)
    fact = fact_of(prompt)
    kind = zlib.crc32(fact.encode()) % 8
    if kind == 0 or (kind == 1 and "An earlier attempt" not in prompt):
        return "I'm sorry, but I cannot write about that."
    return CONSTRUCTIONS.load("akew").sample(prompt)


def read_document(prompt: str) -> str:
    """The answer of a reader to a question of `questions.sample`: the last word of the sentence about its subject."""
    document, _, question = prompt.rpartition("Document: ")[2].rpartition("Question: ")
    subject = re.findall(r"(?:it that|what does) (\w+) ha", question)[0]
    return next((words(text)[-1] for text in split_sentences(document) if words(text)[:1] == [subject]), "unknown")


def author(asked: Asked) -> str:
    """The reply of the author, or of the judge, to a provider's request."""
    prompt = asked.prompt
    if TASKS["document_facts"] in prompt or TASKS["answers"] in prompt:
        return CONSTRUCTIONS.load("questions").sample(prompt)
    if TASKS["event_report"] in prompt:
        return CONSTRUCTIONS.load("elken").sample(prompt)
    if TASKS["chain_questions"] in prompt or TASKS["asks_same"] in prompt:
        return CONSTRUCTIONS.load("chains").sample(prompt)
    if any(TASKS[name] in prompt for name in DOCTER) or "How does this sentence end" in prompt:
        return CONSTRUCTIONS.load("docter").sample(prompt)
    if TASKS["read_with"] in prompt:
        return read_document(prompt)
    return "I do not know." if TASKS["read_without"] in prompt else write_akew(prompt)


def label(sheet: Path, first: str = "yes", count: int = 0) -> None:
    """Label the first items, and the others with yes."""
    rows = list(csv.DictReader(sheet.read_text("utf-8-sig").splitlines()))
    for place, row in enumerate(rows):
        row["keep"] = first if place < count else "yes"
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
