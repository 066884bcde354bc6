"""Alternative forms in which an answer counts as the same value."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from emend.memory.probe import NAME_WORDS
from emend.memory.retrieval.tokens import stem
from emend.memory.values.dates import Date, years
from emend.memory.values.nations import nation_words
from emend.memory.values.text import TextSpan, ValueText, glue, value_text
from emend.memory.values.tokens import Token

# Words at the ends of an answer that do not belong to the value.
LIGHT_WORDS = frozenset(
    "a an the in on at of to from by as for with about around approximately circa over nearly "
    "almost because into mid early late more less than least most up "
    "and or was is were are be it its his her their they he she who what that this which when "
    "where".split()
)
ARTICLES = frozenset({"a", "an", "the"})
# Maximum number of words of a date (`on Friday, the 15th of June, 1990`).
LONGEST_DATE = 7
# Maximum number of other words between the words of an answer.
SPREAD = 6
_BRACKETS = re.compile(r"\([^)]*\)?")
_ADDITION = re.compile(r"[^,]+ [^,]+,(?!.*(?:,| and | & ).* )[^,]*[^\W\d]")
_FIELD = re.compile(r"(?P<root>\w{4,})(?:ism|y)$")


class Form(NamedTuple):
    """A form of an answer, and the rule that allows it."""

    rule: str
    glued: str


@lru_cache(maxsize=1 << 14)
def written_forms(answer: str, question: str = "") -> tuple[Form, ...]:
    """Return the forms of an answer that are searched as a whole, the strictest first.

    >>> [form.glued for form in written_forms("the Nile River", "Which river is longest?")]
    ['nileriver', 'nile']

    Args:
        answer: a correct answer, or a rival.
        question: the question; its words at the ends of the answer may be left out.
    """
    tokens = value_text(answer).tokens
    forms = [Form("", glue(trimmed)[0]) for trimmed in (_without_light_words(tokens),) if trimmed]
    shorter = " ".join(_BRACKETS.sub(" ", answer).split())
    if "(" in answer and not _names(question, shorter):
        is_acronym = shorter.isupper() and not answer.isupper()
        rule = "as its initials" if is_acronym else "without its brackets"
        forms.append(_form(rule, value_text(shorter).tokens))
    if _has_addition(answer):
        forms.append(_form("without its addition", value_text(answer.partition(",")[0]).tokens))
    short = [*_short_forms(answer, tokens)]
    forms += [
        _form(rule, value_text(word).tokens) for rule, word in short if not _names(question, word)
    ]
    if question:
        forms.append(_form("without words of the question", _without_question(tokens, question)))
    forms += [_form("as a nation's word", value_text(word).tokens) for word in nation_words(answer)]
    return tuple({form.glued: form for form in reversed(forms) if form.glued}.values())[::-1]


def _names(question: str, name: str) -> bool:
    """Return whether a question contains the name."""
    return any(True for _ in value_text(question).find(glue(value_text(name).tokens)[0]))


def _has_addition(answer: str) -> bool:
    """Return whether a name of several words is followed by a comma and a place, title or year (not
    `Berlin, Germany`).
    """
    return (
        len(answer.split()) <= NAME_WORDS
        and bool(_ADDITION.match(answer))
        and not answer_dates(answer)
    )


def _short_forms(answer: str, tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Yield the initials of a name of three or more words, initials in brackets, and words for its
    followers or agents.
    """
    initials = "".join(token.form[0].upper() for token in tokens if token.kind == "name")
    if len(initials) > 2 and len(initials) == len(tokens):
        yield "as its initials", initials
    bracket = re.search(r"\(([A-Z]{2,6})\)$", answer)
    if bracket:
        yield "as its initials", bracket[1]
    if match := _FIELD.fullmatch(answer):
        yield "as who does it", f"{match['root']}ist"


def _form(rule: str, tokens: Sequence[Token]) -> Form:
    return Form(rule, glue(_without_light_words(tokens))[0])


def _without_light_words(tokens: Sequence[Token]) -> Sequence[Token]:
    """Drop leading articles and lower-case light words; return all tokens if nothing else is
    left.
    """
    first = next((i for i, token in enumerate(tokens) if not _is_light(token)), 0)
    return tokens[first:]


def _is_light(token: Token) -> bool:
    return token.form in ARTICLES or (token.kind == "word" and token.form in LIGHT_WORDS)


def _without_question(tokens: Sequence[Token], question: str) -> Sequence[Token]:
    """Drop the question's words at both ends; return nothing if no token is left or none was
    dropped.

    The beginning of a name is not dropped if only one word, a description, would remain: `district
    judge`.
    """
    question_stems = {stem(token.form) for token in value_text(question).tokens} | LIGHT_WORDS
    new = [
        i
        for i, token in enumerate(tokens)
        if token.form not in question_stems and stem(token.form) not in question_stems
    ]
    if not new or len(new) == len(tokens):
        return ()
    rest = tokens[new[0] : new[-1] + 1]
    is_head = new[0] > 0 and not _is_light(tokens[new[0] - 1])
    return () if len(rest) == 1 and (is_head or rest[0].kind == "word") else rest


@lru_cache(maxsize=1 << 14)
def content_words(answer: str) -> tuple[str, ...]:
    """Return the stems of an answer's words except light ones; numbers are unchanged."""
    tokens = value_text(_BRACKETS.sub(" ", answer)).tokens or value_text(answer).tokens
    return tuple(
        dict.fromkeys(word_stem(token) for token in tokens if token.form not in LIGHT_WORDS)
    )


def word_stem(token: Token) -> str:
    """Return the stem of a word, or the form of any other token."""
    return stem(token.form) if token.kind in ("word", "name") else token.form


def find_words(text: ValueText, words: Sequence[str]) -> Iterator[TextSpan]:
    """Yield the spans in which all words occur close together, in any order and inflection.

    At most `SPREAD` other words may occur between the first and the last one.
    """
    positions = {word: index for index, word in enumerate(words)}
    latest = [-1] * len(words)
    stems = text.stems
    for index, word in enumerate(stems):
        if word not in positions:
            continue
        latest[positions[word]] = index
        first = min(latest)
        if first >= 0 and index - first < len(words) + SPREAD:
            yield TextSpan(text.tokens[first].start, text.tokens[index].end)


@lru_cache(maxsize=1 << 14)
def answer_dates(answer: str) -> tuple[Date, ...]:
    """Return the readings of an answer that is a date; none for other answers."""
    text = value_text(answer)
    return tuple(text.dates) if len(text.tokens) <= LONGEST_DATE else ()


@lru_cache(maxsize=1 << 14)
def answer_year(answer: str) -> int:
    """Return the year if the answer is only a year, else 0."""
    tokens = _without_light_words(value_text(answer).tokens)
    year_dates = years(tokens)
    return year_dates[0].year if len(tokens) == 1 and year_dates else 0
