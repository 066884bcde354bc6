"""AKEW's types of error: why an edit failed, by rule (section 5.3)."""

from collections.abc import Sequence
from typing import Any

from emend.evals.case import Record
from emend.evals.metrics.text import fold, parse_choice
from emend.memory.retrieval.tokens import stems

EDITED = ("efficacy", "efficacy_contaminated", "efficacy_repeated")
INCOMPLETE, AMBIGUOUS = "triplet: incomplete", "triplet: ambiguous"
OLD, IRRELEVANT = "answer: old", "answer: irrelevant"
ERROR_FIELDS = ("prompt", "gold", "rival", "answer", "tags")
"""Fields of a record by which an error is sorted, beside its setting."""


def error_of(record: Record, edits: Sequence[dict[str, Any]]) -> str:
    """The error type of a failed edit.

    Args:
        record: its record; the tag `recoverable` says whether a triplet names subject and new object. Without it the
            edits do.
        edits: the edits of its case, as `cases.jsonl` has them.
    """
    if record.setting == "extract" and not record.tags.get("recoverable", _names_both(record, edits)):
        return AMBIGUOUS if any(_states_relation(edit, record.prompt) for edit in edits) else INCOMPLETE
    if record.answer is None or record.rival is None:
        return IRRELEVANT
    named, _ = parse_choice(record.answer, (record.gold[0], record.rival))
    return OLD if named == record.rival else IRRELEVANT


def _names_both(record: Record, edits: Sequence[dict[str, Any]]) -> bool:
    """Return True if a triplet names the prompt's subject and the new object, ignoring case."""
    request, gold = record.prompt.lower(), record.gold[0].lower()
    triplets = [(str(edit.get("subject", "")).lower(), str(edit["text"]).lower()) for edit in edits]
    return any(subject and subject in request and gold in text for subject, text in triplets)


def _states_relation(edit: dict[str, Any], prompt: str) -> bool:
    """Return True if a triplet has the prompt's subject and its relation."""
    subject, fact = str(edit.get("subject", "")), str(edit["text"])
    if not subject or fold(subject) not in fold(prompt):
        return False
    request = set(stems(_without(prompt, subject)))
    relation = _without(_without(fact, subject), str(edit.get("target_new", "")))
    return bool(request & set(stems(relation)))


def _without(text: str, part: str) -> str:
    at = text.casefold().find(part.casefold()) if part else -1
    return text if at < 0 else f"{text[:at]} {text[at + len(part) :]}"
