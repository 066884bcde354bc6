"""Detection of replies that state that the answer is not known and give no value."""

import re

from emend.agents.parsing.patterns import PatternFile
from emend.memory.retrieval.tokens import words
from emend.memory.typography import fold_typography

_FILE = PatternFile.beside(__file__)
# Statements that the model or its source has no answer.
_UNKNOWN = _FILE.read("unknown", re.IGNORECASE | re.MULTILINE)
# Phrases after or before which a hedged value is given.
_GUESS = _FILE.read("guess")
# Statements about other content of the source, which are not an answer.
_SOURCE = _FILE.read("source")
_COURTESY = frozenset(
    "sorry unfortunately please thanks thank you no yes well honestly i am i'm m afraid answer the "
    "leider entschuldigung tut mir leid désolé désolée malheureusement lo siento perdón "
    "desafortunadamente a".split()
)
_COURTESY_CJK = re.compile(r"抱歉|对不起|很遗憾|申し訳|すみません|残念")
_SENTENCE = re.compile(
    r"[.;!?](?=\s|\Z)|[。！？；\n]"
    r"|[,，]?\s?\b(?:but|however|though|although|yet|aber|jedoch|mais|pero|sino)\b|但是?|不过|しかし|ですが"
)
_COMMA = re.compile(r"\s*[,，、:：—–()]\s*|\s-\s")
# Maximum words (or characters, in scripts without spaces) of a clause that can only be a value.
SHORT, SHORT_CHARACTERS = 3, 8


def abstains(text: str, question: str = "") -> bool:
    """Return whether a reply states that the answer is not known or not given, and names no value.

    >>> abstains("The document does not say who built it.", "Who built Pell Lock?")
    True
    >>> abstains("I don't know, but it was probably Ana Rojo.", "Who built Pell Lock?")
    False

    Args:
        text: the reply, or its passage that answers the question.
        question: the question; names in it do not count as values.
    """
    plain, known = fold_typography(text), frozenset(words(question))
    parts = [part.strip() for part in _SENTENCE.split(plain) if part and part.strip()]
    if not any(_UNKNOWN.search(part) for part in parts):
        return False
    return not any(_gives_value(part, known) for part in parts)


def _gives_value(part: str, known: frozenset[str]) -> bool:
    """Return whether a sentence, or a clause next to an abstaining one, gives a value."""
    if not _UNKNOWN.search(part):
        return _is_value(part, known, _names_something(part, known))
    clauses = [
        clause for clause in _COMMA.split(part) if clause.strip() and not _UNKNOWN.search(clause)
    ]
    return any(
        _is_value(clause, known, _names_something(clause, known, r"\d\w*")) for clause in clauses
    )


def _is_value(clause: str, known: frozenset[str], names_something: bool) -> bool:
    tokens = words(clause)
    if (
        not tokens
        or set(tokens) <= known | _COURTESY
        or _SOURCE.search(clause)
        or _COURTESY_CJK.search(clause)
    ):
        return False
    if clause.isascii() or " " in clause:
        is_short = len(tokens) <= SHORT
    else:
        is_short = len(clause) <= SHORT_CHARACTERS
    return names_something or is_short or _GUESS.search(clause) is not None


def _names_something(
    part: str, known: frozenset[str], form: str = r"(?<=\s)[A-ZÀ-Þ]\w+|\d\w*"
) -> bool:
    """Return whether a text has a number, or a capitalised word after the first word, that the
    question does not contain.
    """
    names = re.findall(form, part)
    return any(word not in known for name in names for word in words(name))
