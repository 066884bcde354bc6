"""Detection of questions that ask for the fact of an edit, in the same or nearly the same words."""

import re
from collections import Counter

from emend.memory.edit import Edit, Triplet
from emend.memory.retrieval.tokens import stems, whole
from emend.memory.typography import fold_text

# Words that distinguish relations, such as `founded by` and `founded in`.
PREPOSITIONS = frozenset(("at", "by", "for", "from", "in", "on", "to", "with"))
GENERAL = frozenset(("what", "which"))
ASKING = GENERAL | {"who", "whom", "whose", "when", "where", "why", "how"}


def plain_name(name: str) -> str:
    """Return a name without case, typography, quotes, article and final full stop."""
    return fold_text(name).strip(" \"'").removeprefix("the ").removesuffix(".")


def prepositions(text: str) -> frozenset[str]:
    """Return the prepositions of a text, which `stems` drops."""
    return PREPOSITIONS.intersection(_words(text))


def asks_for(question: str, triplet: Triplet, edit: Edit) -> bool:
    """Return whether a question or cloze asks for exactly the object of an edit's triplet.

    True for the edit's prompt or question, and for a question with the same content words about the
    subject and the same question form: that of the edit's question, or that of a noun such as
    `mayor`. "When was Ana born?" does not ask for what "Ana was born in" states, nor "Who was
    founded by Acme?" for the founder of Acme.
    """
    name = plain_name(triplet.subject)
    if not name or not whole(name).search(plain_name(question)):
        return False
    is_main = triplet.subject == edit.subject  # prompt and question are about this triplet
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
    """Return the stems of a text without those of the subject."""
    return Counter(stems(text)) - Counter(stems(name))


def _is_alike(question: str, other: str, name: str) -> bool:
    """Return whether two questions about a subject have the same words and question form."""
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
    """Return whether a question asks for this noun of the subject, as in "Who is the mayor of
    Kesselby?".
    """
    content = _content(question, name)
    plain = ASKING & _words(question) <= GENERAL | {"who"} and not prepositions(
        question
    ) | prepositions(noun)
    return plain and bool(content) and content == _content(noun, name)


def _before(text: str, name: str) -> str:
    """Return the preposition right before the subject, or "" if there is none."""
    before = _letters(plain_name(text).partition(name)[0])
    return before[-1] if before and before[-1] in PREPOSITIONS else ""
