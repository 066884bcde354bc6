"""Scripted authors, judges and reviewers: what they say depends on what is asked alone, and most of it is usable."""

import csv
import zlib
from pathlib import Path

from emend.agents.judging.base import PROMPTS
from emend.agents.roles.author import SHIPPED
from emend.evals.construction.registry import load_pipeline
from tests.provider.protocols import Asked

TASKS = {name: prompt.task.partition("{")[0][:60] for name, prompt in SHIPPED.items()}
DOCTER = (
    "press_document", "object_knowledge", "reasoning_question", "follows", "translate_fact", "translate_back",
)  # fmt: skip
RECOE = (
    "consistent", "corrected_fact", "answer_aliases", "answer_follows", "reasoned_question", "debate_answer",
    "debate_revise",
)  # fmt: skip
NUMBERED = ("", "The harbour", "The council", "A local museum", "The school")


def fact_of(prompt: str) -> str:
    """The fact that a paragraph is asked for, without what was wrong with an earlier one."""
    return prompt.rpartition("Fact: ")[2].partition("\n")[0].strip()


def write_akew(prompt: str) -> str:
    """A paragraph of its own for each fact; one fact in four is refused at first, and one in eight always."""
    if TASKS["paragraph"] not in prompt:
        return load_pipeline("akew").sample(prompt)
    fact = fact_of(prompt)
    kind = zlib.crc32(fact.encode()) % 8
    if kind == 0 or (kind == 1 and "An earlier attempt" not in prompt):
        return "I'm sorry, but I cannot write about that."
    return load_pipeline("akew").sample(prompt)


def author(asked: Asked) -> str:
    """The reply of the author, or of the judge, to a provider's request."""
    prompt = asked.prompt
    if "Gold answer:" in prompt:
        return "Grade: CORRECT"
    if PROMPTS["equivalence"]["task"][:60] in prompt:
        return '{"reason": "It says so.", "quote": "", "verdict": "yes"}'
    if TASKS["event_report"] in prompt:
        return load_pipeline("elken").sample(prompt)
    if any(TASKS[name] in prompt for name in RECOE):
        return load_pipeline("recoe").sample(prompt)
    if any(TASKS[name] in prompt for name in ("tendency_events", "tendency_questions", "tendency_choice")):
        return load_pipeline("tendencies").sample(prompt)
    if TASKS["fact_lines"] in prompt:
        return load_pipeline("facts").sample(prompt)
    if TASKS["chain_questions"] in prompt or TASKS["asks_same"] in prompt:
        return load_pipeline("chains").sample(prompt)
    if any(TASKS[name] in prompt for name in DOCTER) or "How does this sentence end" in prompt:
        return load_pipeline("docter").sample(prompt)
    if any(TASKS[name] in prompt for name in ("document_facts", "answers", "read_with")):
        return load_pipeline("questions").sample(prompt)
    return "I do not know." if TASKS["read_without"] in prompt else write_akew(prompt)


def label(sheet: Path, first: str = "yes", count: int = 0, column: str = "") -> None:
    """Label the first items, and the others with yes."""
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    column = column or ("keep" if "keep" in rows[0] else "equivalent")
    for place, row in enumerate(rows):
        row[column] = first if place < count else "yes"
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
