"""Filters of ELKEN's tendency questions about likely effects of an event, and of their options."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from emend.graphs.construction.filters.name_forms import names
from emend.graphs.construction.filters.patterns import read_pattern
from emend.graphs.construction.filters.questions import (
    find_command,
    find_markup,
    find_several,
    find_talk,
)
from emend.graphs.construction.filters.texts import (
    AuthoredDraft,
    find_foreign_letters,
    find_foreign_words,
)
from emend.memory.retrieval.tokens import stems, whole, words

# Maximum number of words of an option.
LONGEST_OPTION = 12
# Maximum share of the event's word stems that a question may contain.
REPEATED = 0.6
_TENDS = read_pattern("tendency")
_EVENT = read_pattern("about_event", re.NOFLAG)
_PRONOUN = read_pattern("without_name")
_TASK = re.compile(r"\A(?:answer|choose|disregard|forget|ignore|pick|select)\b", re.IGNORECASE)
_LETTERED = re.compile(r"\A\(?[A-D][).:]\s")
_NO_IMPACT = read_pattern("no_impact")
_UNSURE = read_pattern("unsure")
_NEGATION = frozenset("anti de kein keine never nicht no non not un 不 没 未 无".split())


class QuestionDraft(NamedTuple):
    """Tendency question with the entity that it is about, its options, and its event."""

    question: str
    about: str
    options: tuple[str, ...]
    event: str
    language: str = "en"

    @classmethod
    def from_fields(cls, question: Mapping[str, Any], event: str, language: str) -> "QuestionDraft":
        """Return the draft of a question from its fields in a benchmark."""
        return cls(
            question["question"], question["about"], tuple(question["options"]), event, language
        )

    @property
    def whole(self) -> str:
        """Question and options, one per line."""
        return "\n".join([self.question, *self.options])


def find_question_command(draft: QuestionDraft) -> str:
    """A question contains an instruction to a model, a URL or an e-mail address."""
    hit = _TASK.search(draft.question)
    return f"the question is an instruction: '{hit[0]}'" if hit else find_command(draft.whole)


def find_dependent_question(draft: QuestionDraft) -> str:
    """The text is not a question, refers to the event, or does not name its subject."""
    text = draft.question
    if not text.rstrip().endswith(("?", "？")) or len(words(text)) < 4:
        return "no question"
    if hit := _EVENT.search(text):
        return f"the question speaks of the event: '{hit[0]}'"
    if _PRONOUN.fullmatch(draft.about.strip()):
        return f"nobody knows who '{draft.about}' is without the event"
    return "" if names(text, draft.about) else f"the question does not name '{draft.about}'"


def find_event(draft: QuestionDraft) -> str:
    """The question repeats the event, so that it cannot be asked without it."""
    of_event, of_question = set(stems(draft.event)), set(stems(draft.question))
    share = len(of_event & of_question) / max(1, len(of_event))
    return f"the question has {100 * share:.0f}% of the event's words" if share > REPEATED else ""


def find_no_tendency(draft: QuestionDraft) -> str:
    """The question does not ask about a likely change."""
    if draft.language != "en" or _TENDS.search(draft.question):
        return ""
    return "the question asks for no tendency"


def find_no_choice(draft: QuestionDraft) -> str:
    """The options other than "no impact" are not two short, distinct statements."""
    *opposites, _ = draft.options
    for option in opposites:
        if not words(option) or len(words(option)) > LONGEST_OPTION:
            return f"no short option: '{option[:80]}'"
        for pattern, problem in (
            (_LETTERED, "a letter"),
            (_NO_IMPACT, "no impact"),
            (_UNSURE, "no answer"),
        ):
            if pattern.search(option):
                return f"an option has {problem}: '{option}'"
        if find_foreign_letters(AuthoredDraft(option, "", "", language=draft.language)):
            return f"an option is in another language: '{option}'"
    first, second = ({stem for stem in stems(option)} for option in opposites)
    is_alike = (first <= second or second <= first) and not (first ^ second) & _NEGATION
    return "the options are alike" if is_alike else ""


def find_other_language(draft: QuestionDraft) -> str:
    """The question is in another language."""
    text = whole(draft.about).sub("", draft.question) if draft.about else draft.question
    return find_foreign_words(AuthoredDraft(text, "", "", language=draft.language))


QUESTION_FILTERS: Mapping[str, Callable[[QuestionDraft], str]] = {
    "question_talk": lambda draft: find_talk(draft.question),
    "question_instruction": find_question_command,
    "question_markup": lambda draft: find_markup(draft.whole),
    "one_question": lambda draft: find_several(draft.question),
    "question_language": find_other_language,
    "self_contained": find_dependent_question,
    "event_repeated": find_event,
    "tendency": find_no_tendency,
    "options": find_no_choice,
}
# Descriptions of the filters that are shared with other questions.
QUESTION_REJECTS: Mapping[str, str] = {
    "question_talk": "The author addresses the reader in a question.",
    "question_markup": "A question has a label, markup or a placeholder.",
    "one_question": "The text asks several questions at once.",
}
