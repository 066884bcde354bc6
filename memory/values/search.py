"""Search for an answer in a text, in all forms that have the same value."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from emend.memory.values.dates import Date
from emend.memory.values.forms import (
    answer_dates,
    answer_year,
    content_words,
    find_words,
    written_forms,
)
from emend.memory.values.names import find_name, is_name
from emend.memory.values.text import TextSpan, ValueText, value_text
from emend.memory.values.units import UNIT_NAMES

_COUNTED = re.compile(r"\d[,.]?\s+$")
# Characters before a word that are searched for the end of a number.
_BEFORE = 12
"""A number before a word, which makes a unit another quantity: *a week* is not in `741 weeks`."""


class AnswerHit(NamedTuple):
    """An answer found in a text: its position, the matched answer, and the matching rule."""

    start: int
    end: int
    answer: str
    rule: str
    """Empty where only marks, case and the writing of numbers differ."""


def find_answers(
    text: ValueText, answers: Sequence[str], question: str = ""
) -> Iterator[AnswerHit]:
    """Yield the positions at which a text gives one of the answers, the strictest rules first.

    A date that is more precise than the answer matches. A less precise one matches by its year if
    the text gives no other date. A year within a date only matches if the date agrees with the
    answers that are dates of that year.

    Args:
        text: the text.
        answers: the answer and its aliases, all of one value.
        question: the question; its words at the ends of an answer may be left out.
    """
    for answer in answers:
        for form in written_forms(answer, question):
            for span in text.find(form.glued):
                if _is_same(text, span, answer, form.rule) and not _is_other_date(
                    text, span, answers
                ):
                    yield AnswerHit(*span, answer, form.rule)
    for answer in answers:
        for hit in _dates(text, answer, question):
            if not _is_other_date(text, TextSpan(hit.start, hit.end), answers):
                yield hit
    for answer in answers:
        tokens = value_text(answer).tokens
        if is_name(tokens) and "," not in answer:
            yield from (AnswerHit(*span, answer, "as a name") for span in find_name(text, tokens))
    for answer in answers:
        yield from _words(text, answer, answers, question)


def _is_same(text: ValueText, span: TextSpan, answer: str, rule: str) -> bool:
    """Return False if a comma splits the words of a name without comma, or initials are in lower
    case.
    """
    words = text.plain[span.start : span.end]
    if _is_counted(text, span) and words.split()[0].lower() in UNIT_NAMES:
        return False
    if rule == "as its initials":
        return words.isupper()
    return "," in answer or "," not in words or any(letter.isdigit() for letter in words)


def _is_counted(text: ValueText, span: TextSpan) -> bool:
    """Return whether a number precedes a span."""
    return _COUNTED.search(text.plain[max(0, span.start - _BEFORE) : span.start]) is not None


def _dates(text: ValueText, answer: str, question: str) -> Iterator[AnswerHit]:
    year = answer_year(answer)
    yield from (
        AnswerHit(date.start, date.end, answer, "as a date")
        for date in text.dates
        if date.year == year != 0
    )
    for gold in answer_dates(answer):
        for date in text.dates:
            if date.gives(gold):
                yield AnswerHit(date.start, date.end, answer, "as a date")
        yield from (
            AnswerHit(date.start, date.end, answer, "less precise")
            for date in (text.dates or text.years)
            if date.is_coarser(gold) and text.plain[date.start : date.end] not in question
        )


def _is_other_date(text: ValueText, span: TextSpan, answers: Sequence[str]) -> bool:
    """Return whether a hit is part of a date that contradicts all answers that are dates of the
    same year.
    """
    around = [date for date in text.dates if date.start <= span.start and span.end <= date.end]
    if not around:
        return False
    dates = [gold for gold in _all_dates(tuple(answers)) if gold.year == around[0].year]
    return bool(dates) and all(date.contradicts(gold) for date in around for gold in dates)


@lru_cache(maxsize=4096)
def _all_dates(answers: tuple[str, ...]) -> tuple[Date, ...]:
    return tuple(date for answer in answers for date in answer_dates(answer))


def _words(
    text: ValueText, answer: str, answers: Sequence[str], question: str
) -> Iterator[AnswerHit]:
    """Yield the positions at which an answer's words occur close together, unless the question has
    all of them.
    """
    words = content_words(answer)
    if (
        answer_dates(answer)
        or set(words) <= set(content_words(question))
        or not _may_inflect(answer, words)
    ):
        return
    for span in find_words(text, words):
        if len(words) == 2 and "," in text.plain[span.start : span.end] and "," not in answer:
            continue
        is_counted = len(words) == 1 and _is_counted(text, span)
        if not is_counted and not any(
            date.contradicts(gold)
            for date in _dates_in(text, span)
            for gold in _all_dates(tuple(answers))
        ):
            yield AnswerHit(*span, answer, "by its words")


def _dates_in(text: ValueText, span: TextSpan) -> list[Date]:
    return [date for date in text.dates if span.start < date.end and date.start < span.end]


def _may_inflect(answer: str, words: Sequence[str]) -> bool:
    """Return False if an answer is a single name or number, whose inflected forms are other
    values.
    """
    if len(words) != 1:
        return bool(words)
    content = [token for token in value_text(answer).tokens if token.kind != "word"]
    return not content and len(words[0]) >= 4
