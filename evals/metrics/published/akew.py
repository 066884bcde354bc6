"""Error types of extracted triplets and of answers, in the classification of AKEW."""

from collections.abc import Sequence
from typing import Any

from emend.evals.case import Record
from emend.evals.metrics.text.choices import parse_choice
from emend.evals.metrics.text.exact import fold
from emend.memory.retrieval.tokens import stems

EDITED = ("efficacy", "efficacy_contaminated", "efficacy_repeated")


INCOMPLETE, AMBIGUOUS = "triplet: incomplete", "triplet: ambiguous"


OLD, IRRELEVANT = "answer: old", "answer: irrelevant"


# Fields of a record, beside its setting, that the classification reads.
ERROR_FIELDS = ("prompt", "gold", "rival", "answer", "tags")


def akew_error(record: Record, edits: Sequence[dict[str, Any]]) -> str:
    """Return the error type of a failed edit.

    Args:
        record: the record of the answer; its tag `recoverable` says whether a triplet names the
            subject and the new object. Without the tag, this is derived from the edits.
        edits: the edits of the case, as in `cases.jsonl`.
    """
    if record.setting == "extract" and not record.tags.get(
        "recoverable", _names_both(record, edits)
    ):
        if any(_states_relation(edit, record.prompt) for edit in edits):
            return AMBIGUOUS
        return INCOMPLETE
    if record.answer is None or record.rival is None:
        return IRRELEVANT
    named, _ = parse_choice(record.answer, (record.gold[0], record.rival))
    if named == record.rival:
        return OLD
    return IRRELEVANT


def _names_both(record: Record, edits: Sequence[dict[str, Any]]) -> bool:
    """Return whether a triplet names the prompt's subject and the new object, ignoring case."""
    request, gold = record.prompt.lower(), record.gold[0].lower()
    triplets = [(str(edit.get("subject", "")).lower(), str(edit["text"]).lower()) for edit in edits]
    return any(subject and subject in request and gold in text for subject, text in triplets)


def _states_relation(edit: dict[str, Any], prompt: str) -> bool:
    """Return whether a triplet has the prompt's subject and relation."""
    subject, fact = str(edit.get("subject", "")), str(edit["text"])
    if not subject or fold(subject) not in fold(prompt):
        return False
    request = set(stems(_without(prompt, subject)))
    relation = _without(_without(fact, subject), str(edit.get("target_new", "")))
    return bool(request & set(stems(relation)))


def _without(text: str, part: str) -> str:
    at = text.casefold().find(part.casefold()) if part else -1
    if at < 0:
        return text
    return f"{text[:at]} {text[at + len(part) :]}"
