"""Filters of ELKEN's tendency events and of the questions about them."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from emend.graphs.construction.filters.name_forms import names
from emend.graphs.construction.filters.questions import find_command, find_markup, find_several, find_talk
from emend.graphs.construction.filters.texts import AuthoredDraft, find_cut, find_foreign_language, summary_of
from emend.graphs.extraction.sentences import split_sentences
from emend.memory.retrieval.tokens import words

LONGEST_EVENT, LONGEST_OPTION = 45, 12
"""Words."""
_EFFECT = re.compile(
    r"\b(?:leading to|resulting in|causing|boosting|which (?:will|is expected|may|could|might|is likely)"
    r"|(?:is|are) expected to|(?:will|may|might|could) (?:lead|result|cause|boost|harm|affect|impact)"
    r"|as a (?:result|consequence)|impact(?:ing|s)?)\b",
    re.IGNORECASE,
)
_TENDS = re.compile(r"\b(?:tends?|tendency|may|might|likely|could|change)\b", re.IGNORECASE)
_EVENT = re.compile(
    r"\b(?:the|this|that) (?:(?:above|given|described) )?(?:event|news|announcement|report)\b"
    r"|\bthis (?:deal|decision|move)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=\S\s)[\"'“]?[A-ZÀ-Þ]\w|\d")


class Rejected(NamedTuple):
    """A filter that a text did not pass, and why."""

    filter: str
    reason: str


def event_fault(event: str, language: str) -> Rejected:
    """The first filter that a line does not pass, and why; both empty if it passes all."""
    hits = ((name, find(event, language)) for name, find in EVENT_FILTERS.items())
    return next((Rejected(name, reason) for name, reason in hits if reason), Rejected("", ""))


def question_fault(question: Mapping[str, Any], language: str) -> Rejected:
    """The first filter that a question does not pass, and why; both empty if it passes all."""
    hits = ((name, find(question, language)) for name, find in QUESTION_FILTERS.items())
    return next((Rejected(name, reason) for name, reason in hits if reason), Rejected("", ""))


def find_no_sentence(event: str, language: str) -> str:
    """The line is not one sentence of usual length."""
    count, size = len(split_sentences(event)), len(words(event))
    if find_cut(AuthoredDraft(event, "", "")) or event.rstrip().endswith(("?", "？")) or count != 1:
        return "no single sentence"
    return f"the sentence has {size} words" if size > LONGEST_EVENT else ""


def find_no_name(event: str, language: str) -> str:
    """The line names nobody and nothing."""
    return "" if language in ("zh", "ja", "de") or _NAME.search(event) else "the event names nobody"


def find_effect(event: str, language: str) -> str:
    """The line says what follows from its event."""
    hit = _EFFECT.search(event)
    return f"the event says what follows from it: '{hit[0]}'" if hit else ""


def find_dependent_question(question: Mapping[str, Any], language: str) -> str:
    """The question is none, speaks of the event, or does not name what it is about."""
    text = question["question"]
    if not text.rstrip().endswith(("?", "？")) or len(words(text)) < 4:
        return "no question"
    if hit := _EVENT.search(text):
        return f"the question speaks of the event: '{hit[0]}'"
    return "" if names(text, question["about"]) else f"the question does not name '{question['about']}'"


def find_no_tendency(question: Mapping[str, Any], language: str) -> str:
    """The question does not ask what may change."""
    return "" if language != "en" or _TENDS.search(question["question"]) else "the question asks for no tendency"


def find_no_choice(question: Mapping[str, Any], language: str) -> str:
    """The options are not three different short ones."""
    keys = {" ".join(words(option)) for option in question["options"]}
    long = any(len(words(option)) > LONGEST_OPTION for option in question["options"])
    return "the options are not three different short ones" if len(keys) < 3 or "" in keys or long else ""


def _whole(question: Mapping[str, Any]) -> str:
    return "\n".join([question["question"], *question["options"]])


EVENT_FILTERS: Mapping[str, Callable[[str, str], str]] = {
    "talk": lambda event, language: find_talk(event),
    "instruction": lambda event, language: find_command(event),
    "markup": lambda event, language: find_markup(event),
    "one_sentence": find_no_sentence,
    "language": lambda event, language: find_foreign_language(AuthoredDraft(event, "", "", language=language)),
    "named": find_no_name,
    "effect": find_effect,
}
QUESTION_FILTERS: Mapping[str, Callable[[Mapping[str, Any], str], str]] = {
    "question_talk": lambda question, language: find_talk(question["question"]),
    "question_instruction": lambda question, language: find_command(_whole(question)),
    "question_markup": lambda question, language: find_markup(_whole(question)),
    "one_question": lambda question, language: find_several(question["question"]),
    "self_contained": find_dependent_question,
    "tendency": find_no_tendency,
    "options": find_no_choice,
}
_REJECTS = {
    "talk": "The author speaks to its reader.",
    "instruction": "The event holds an instruction to a model, or an address.",
    "markup": "The event has a label, markup or a placeholder.",
    "language": "The event is in another language.",
    "question_talk": "The author speaks to its reader in a question.",
    "question_instruction": "A question holds an instruction to a model, or an address.",
    "question_markup": "A question has a label, markup or a placeholder.",
    "one_question": "A question asks several things.",
}


def summaries(filters: Mapping[str, Callable[..., str]]) -> dict[str, str]:
    """Descriptions of what filters reject, by their names."""
    return {name: _REJECTS.get(name) or summary_of(find) for name, find in filters.items()}
