"""Filters of the events of ELKEN's tendency questions, which must be one sentence about something
that has happened.
"""

import re
from collections import Counter
from collections.abc import Mapping

from emend.graphs.construction.filters.patterns import read_pattern
from emend.graphs.construction.filters.questions import find_command, find_markup, find_talk
from emend.graphs.construction.filters.texts import (
    AuthoredDraft,
    TextFilter,
    find_cut,
    find_denial,
    find_foreign_words,
    find_repeated_prompt,
    without_quotations,
)
from emend.graphs.extraction.sentences import split_sentences
from emend.memory.retrieval.tokens import words

# Maximum number of words of an event.
LONGEST = 45
# Number of occurrences of a trigram from which an event counts as repetitive.
SAME_RUNS = 3
_EFFECT = read_pattern("event_effect")
_POSSIBLE = read_pattern("possible_event", re.NOFLAG)
_LABEL = re.compile(r"\A\w+(?: \w+){0,2}[:：]\s")
_PLACEHOLDER = read_pattern("placeholder", re.NOFLAG)
_NAME = re.compile(
    r"(?<=\S\s)[\"'“]?[A-ZÀ-Þ]\w|\d"
    # the first word is a name if it has a possessive, or is followed by a third-person verb and is
    # no determiner
    r"|\A[\"'“]?(?!(?:An?|Another|Each|Every|His|Her|Its|No|One|Some|The|Their|"
    r"This)\b)[A-ZÀ-Þ][\w&.-]*"
    r"(?:'s\b|(?<!s) \w+s\b)|\A[A-Z]{2,}\b"
)
_ABOUT_LIST = re.compile(r"\A(?:that|these|this|those)\b[^.]*\bevents\b", re.IGNORECASE)
_INVENTED = read_pattern("invented_event")
_REQUEST = re.compile(r"\A(?:invent|imagine|think of|list)\b|\bnumber of events\b", re.IGNORECASE)


def find_event_talk(draft: AuthoredDraft) -> str:
    """The author addresses the reader, or comments on the list of events."""
    hit = _ABOUT_LIST.search(draft.text)
    return f"the line is about the list: '{hit[0]}'" if hit else find_talk(draft.text)


def find_invention(draft: AuthoredDraft) -> str:
    """The event comments on whether it is true."""
    hit = _INVENTED.search(draft.text)
    return f"the event says that it is invented: '{hit[0]}'" if hit else find_denial(draft)


def find_event_markup(draft: AuthoredDraft) -> str:
    """The event has a label, markup or a placeholder."""
    hit = _LABEL.search(draft.text) or _PLACEHOLDER.search(draft.text)
    if hit:
        return f"the event has a label or a placeholder: '{hit[0].strip()}'"
    return find_markup(draft.text)


def find_task(draft: AuthoredDraft) -> str:
    """The line repeats the request instead of describing an event."""
    hit = _REQUEST.search(draft.text)
    return f"the line is a request for events: '{hit[0]}'" if hit else find_repeated_prompt(draft)


def find_no_sentence(draft: AuthoredDraft) -> str:
    """The line is not a single sentence of at most 45 words."""
    event = draft.text.rstrip()
    count, size = len(split_sentences(event)), len(words(event))
    if (
        find_cut(draft)
        or event.endswith(("?", "？"))
        or count != 1
        or re.search(r"[。！？](?=.)", event)
    ):
        return "no single sentence"
    return f"the sentence has {size} words" if size > LONGEST else ""


def find_stutter(draft: AuthoredDraft) -> str:
    """The line repeats the same phrase several times."""
    tokens = words(draft.text)
    runs = Counter(zip(tokens, tokens[1:], tokens[2:], strict=False))
    run, count = next(iter(runs.most_common(1)), ((), 0))
    return f"the event repeats '{' '.join(run)}'" if count >= SAME_RUNS else ""


def find_no_name(draft: AuthoredDraft) -> str:
    """The line contains no name."""
    is_named = draft.language in ("zh", "ja", "de") or _NAME.search(draft.text)
    return "" if is_named else "the event names nobody"


def find_possible(draft: AuthoredDraft) -> str:
    """The line describes something that may happen, not something that has happened."""
    hit = _POSSIBLE.search(without_quotations(draft.text)) if draft.language == "en" else None
    return f"the event is only possible: '{hit[0].strip()}'" if hit else ""


def find_effect(draft: AuthoredDraft) -> str:
    """The line also states a consequence of the event."""
    hit = _EFFECT.search(without_quotations(draft.text))
    return f"the event says what follows from it: '{hit[0].strip(', ')}'" if hit else ""


EVENT_FILTERS: Mapping[str, TextFilter] = {
    "talk": find_event_talk,
    "instruction": lambda draft: find_command(draft.text),
    "task": find_task,
    "markup": find_event_markup,
    "one_sentence": find_no_sentence,
    "language": find_foreign_words,
    "loop": find_stutter,
    "denial": find_invention,
    "named": find_no_name,
    "effect": find_effect,
    "possible": find_possible,
}
# Descriptions of the filters that are shared with other texts.
EVENT_REJECTS: Mapping[str, str] = {
    "instruction": "The event contains an instruction to a model, a URL or an e-mail address.",
    "language": "The event is in another language.",
}
