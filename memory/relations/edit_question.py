"""Questions that an edit answers by itself: they ask for its fact, in its own words or nearly so."""

import re
from collections import Counter

from emend.memory.edit import Edit, Triplet
from emend.memory.retrieval.tokens import stems, whole
from emend.memory.typography import fold_text

PREPOSITIONS = frozenset(("at", "by", "for", "from", "in", "on", "to", "with"))
"""Words without which relations would be mixed up: `founded by` and `founded in`."""
GENERAL = frozenset(("what", "which"))
ASKING = GENERAL | {"who", "whom", "whose", "when", "where", "why", "how"}


def plain_name(name: str) -> str:
    """A name without case, marks of typography, quotes, article and final full stop."""
    return fold_text(name).strip(" \"'").removeprefix("the ").removesuffix(".")


def prepositions(text: str) -> frozenset[str]:
    """The prepositions of a text, which `stems` leaves out."""
    return PREPOSITIONS.intersection(_words(text))


def asks_for(question: str, triplet: Triplet, edit: Edit) -> bool:
    """True if a question or cloze asks for the object of a triplet of an edit, and for nothing more.

    It is the edit's prompt or question, or it has the same content words about the subject and asks in the same way:
    as the edit's question does, or as one asks for a noun such as `mayor`. "When was Ana born?" does not ask for what
    "Ana was born in" states, nor "Who was founded by Acme?" for the founder of Acme.
    """
    name = plain_name(triplet.subject)
    if not name or not whole(name).search(plain_name(question)):
        return False
    is_main = triplet.subject == edit.subject  # prompt and question are about it
    wordings = (edit.cloze, edit.question) if is_main else ()
    if any(wording.strip() and _letters(wording) == _letters(question) for wording in wordings):
        return True
    if is_main and edit.question and _is_alike(question, edit.question, name):
        return True
    nouns = (triplet.relation, edit.cloze) if is_main else (triplet.relation,)
    return any(_names_noun(question, noun, name) for noun in nouns)


def _letters(text: str) -> list[str]:
    return re.findall(r"\w+", fold_text(text))


def _words(text: str) -> set[str]:
    return set(_letters(text))


def _content(text: str, name: str) -> Counter[str]:
    """The stems of a text without those of the subject."""
    return Counter(stems(text)) - Counter(stems(name))


def _is_alike(question: str, other: str, name: str) -> bool:
    """Return whether two questions about a subject have the same words, and ask in the same way."""
    first, second = ASKING & _words(question), ASKING & _words(other)
    in_one_way = first == second or (first <= GENERAL and second <= GENERAL)
    content = _content(question, name)
    return (
        in_one_way
        and bool(content)
        and content == _content(other, name)
        and prepositions(question) == prepositions(other)
        and _before(question, name) == _before(other, name)
    )


def _names_noun(question: str, noun: str, name: str) -> bool:
    """Return whether a question asks for a noun of the subject, as in "Who is the mayor of Kesselby?"."""
    content = _content(question, name)
    plain = ASKING & _words(question) <= GENERAL | {"who"} and not prepositions(question) | prepositions(noun)
    return plain and bool(content) and content == _content(noun, name)


def _before(text: str, name: str) -> str:
    """The preposition right before the subject; empty without one."""
    before = _letters(plain_name(text).partition(name)[0])
    return before[-1] if before and before[-1] in PREPOSITIONS else ""
