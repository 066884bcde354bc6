"""Filters of self-contained questions, each of which returns why a question is rejected, or an
empty text.
"""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from emend.graphs.construction.filters.patterns import MARKUP, REFUSAL, TALK
from emend.graphs.construction.filters.texts import (
    AuthoredDraft,
    find_foreign_besides,
    find_instruction,
)

_ASKS = (
    r"(?:who|whom|whose|what|when|where|which|why|how|wer|wen|wem|wessen|was|wann|wo|welche[rsnm]?|"
    r"warum|wie"
    r"|qui|que|quoi|quand|où|comment|quel(?:le)?s?|quién|quiénes|qué|cuándo|dónde|cómo|cuál(?:es)?)"
)
# Several questions: two question marks, or an interrogative at the beginning and another one after
# a conjunction.
SEVERAL = re.compile(
    rf"[?？].*[?？]|\A(?:\w+ ){{0,2}}{_ASKS}\b.*\b(?:and|or|und|oder|et|ou|y|o) (?:\w+ )?{_ASKS}\b",
    re.IGNORECASE | re.DOTALL,
)
# Lettered answers, or a list of answers after a colon.
OPTIONS = re.compile(
    rf"\b[A-D]\)\s*\w.*\b[A-D]\)\s*\w|:(?!.*\b{_ASKS}\b)[^:?]*\b(?:or|oder|ou|o)\b[^:?]*\?",
    re.IGNORECASE | re.DOTALL,
)
# Yes or no questions.
YES_NO = re.compile(
    r"\A(?:am|is|are|was|were|does|do|did|has|have|had|can|could|will|would|must|may|might|shall|"
    r"should)\b"
    r"(?! you (?:happen to )?(?:know|name|say|tell)\b)"
    r"|\A(?:ist|sind|war|waren|hat|haben|hatte|wird|wurde|kann|est-ce "
    r"que|est-il|est-elle|a-t-il|a-t-elle)\b"
    r"|是不是|是否|有没有|吗[?？]\Z|か[?？]\Z(?<!誰か[?？])(?<!何か[?？])(?<!どこか[?？])(?<!どれか[?？])",
    re.IGNORECASE,
)


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
