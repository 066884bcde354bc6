"""Which of the options that a question lists a sentence names as its answer."""

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from emend.agents.parsing.passages import sentences
from emend.evals.metrics.assertion import asserts
from emend.memory.retrieval.tokens import whole
from emend.memory.typography import fold_typography

_LISTED = "\N{HORIZONTAL ELLIPSIS}"
"""In place of a list that was said again."""
_PAIR = re.compile(r" and | or ")
_NAME = re.compile(r"(?<=\s)[A-Z][\w'-]*")
_GLUE = re.compile(r"\s*(?:,|,? and |,? or |&)\s*$")
_AND = re.compile(r",?\s*(?:and|or|&)\s+$")
_BULLETS = "-*\u2022 0123456789.)"


def names_option(passage: str, golds: Sequence[str], rivals: Iterable[str], question: str) -> bool:
    """Return whether a passage names a gold answer as its answer by the rule of `contains`.

    A list of options said again ("Which of Anguilla, Kosovo and Sudan has ...") is no answer. Where the question names
    the gold answer, among others, it is the first of its names that comes then, and not one of several, and the passage
    does not go through the options one by one.
    """
    rivals = list(rivals)
    rest = _without_list(passage, question, [*golds, *rivals])
    if not asserts(rest, golds, rivals, question):
        return False
    if not any(whole(gold).search(question) for gold in golds):
        return True
    start, end = min((hit.span() for gold in golds for hit in whole(gold).finditer(rest)), default=(0, 0))
    words = {word for gold in golds for word in gold.split()}
    others = {name for name in _NAME.findall(question) if name not in words}
    places = [hit.start() for name in others for hit in whole(name).finditer(rest)]
    places += [hit.start() for hit in re.finditer(_LISTED, rest) if _AND.match(rest[hit.end() : start])]
    if any(place < start or _GLUE.match(rest[end:place]) for place in places):
        return False
    starts = {name for line in sentences(rest) for name in (*others, *golds) if line.lstrip(_BULLETS).startswith(name)}
    return len(starts) < 2


def _without_list(passage: str, question: str, names: Sequence[str]) -> str:
    """The passage with a mark in place of the list of options that it takes over from the question.

    A list has commas where the question has some, since names have an "and" too (Bosnia and Herzegovina).
    """
    reply, listed = (re.sub(r", (and|or) ", r" \1 ", fold_typography(text)) for text in (passage, question))
    match = SequenceMatcher(None, reply, listed, autojunk=False).find_longest_match()
    shared = reply[match.a : match.a + match.size]
    between = shared
    for name in names:
        between = between.replace(name, "")
    is_list = "," in between if "," in listed else bool(_PAIR.search(between))
    return reply.replace(shared, f" {_LISTED} ") if is_list else reply
