"""Filters of self-contained questions, each of which returns why a question is rejected, or an
empty text.
"""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from emend.graphs.construction.filters.patterns import MARKUP, REFUSAL, TALK, read_pattern
from emend.graphs.construction.filters.texts import (
    AuthoredDraft,
    find_foreign_besides,
    find_instruction,
)

# Several questions: two question marks, or an interrogative at the beginning and another one after
# a conjunction.
SEVERAL = read_pattern("several", re.IGNORECASE | re.DOTALL)
# Lettered answers, or a list of answers after a colon.
OPTIONS = read_pattern("options", re.IGNORECASE | re.DOTALL)
# Yes or no questions.
YES_NO = read_pattern("yes_no")


def find_talk(question: str) -> str:
    """The author refuses, comments on its own text, or addresses the reader."""
    hit = TALK.search(question) or REFUSAL.search(question)
    return f"the author speaks to its reader: '{hit[0].strip()[:40]}'" if hit else ""


def find_command(question: str) -> str:
    """The question contains an instruction to a model, a URL, an e-mail address or markup."""
    return find_instruction(AuthoredDraft(question, "", ""))


def find_markup(question: str) -> str:
    """The question has a label, markup or a placeholder."""
    hit = MARKUP.search(question)
    return f"a question has markup: '{hit[0].strip()[:40]}'" if hit else ""


def find_several(question: str) -> str:
    """The text asks several questions, or lists answers to choose from."""
    if SEVERAL.search(question):
        return "several questions in one"
    return "a question lists its answers" if OPTIONS.search(question) else ""


def find_yes_no(question: str) -> str:
    """The question is a yes-or-no question."""
    return "a question to be answered by yes or no" if YES_NO.search(question) else ""


def find_foreign(question: str, language: str, name: str) -> str:
    """Return the reason if a question, without the name, is in another language, else empty."""
    return find_foreign_besides(AuthoredDraft(question, "", "", language=language), (name,))


def of_question(find: Callable[[str], str]) -> Callable[[Any], str]:
    """Convert a filter of texts to a filter of drafts with a `question`, keeping its docstring."""

    @wraps(find)
    def find_in(draft: Any) -> str:
        return find(draft.question)

    return find_in


# Filters of drafts with a `question`, by name.
COMMON_FILTERS: Mapping[str, Callable[[Any], str]] = {
    "talk": of_question(find_talk),
    "instruction": of_question(find_command),
    "markup": of_question(find_markup),
}
