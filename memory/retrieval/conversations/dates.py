"""Dates in words, of turns and of queries that name or imply them, such as "last May"."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.conversations.window import ReplacedTexts
from emend.memory.retrieval.default import STEM_PART
from emend.memory.retrieval.exact import ExactCorpus

MONTHS = tuple(
    "january february march april may june july august september october november december".split()
)
_ISO = re.compile(r"\b(\d{4})-(\d\d)(?:-(\d\d))?")
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS)
_NAMED = re.compile(
    rf"\b(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+)?(?P<month>{_MONTH})\b\.?"
    r"(?:\s+(?P<day2>\d{1,2})(?:st|nd|rd|th)?\b)?(?:,?\s+(?P<year>(?:19|20)\d\d))?",
    re.IGNORECASE,
)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_LAST_MONTH = re.compile(rf"\b(?:last|past|this|next)\s+(?P<month>{_MONTH})\b", re.IGNORECASE)
_AGO = re.compile(
    r"\b(\d+|a|an|one|two|three|four|five|six)\s+(day|week|month|year)s?\s+ago\b", re.IGNORECASE
)
_LAST = re.compile(
    r"\b(?:last|previous)\s+(day|week|month|year)\b|\b(yesterday|today)\b", re.IGNORECASE
)
_WEEK_BEFORE = re.compile(r"\bthe\s+(day|week|month)\s+(before|after)\b", re.IGNORECASE)
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


def parse_day(text: str | None) -> date | None:
    """Return the date at the start of an ISO 8601 text; None for other texts.

    A month without a day stands for its first day.
    """
    match = _ISO.match((text or "").strip())
    try:
        return date(int(match[1]), int(match[2]), int(match[3] or 1)) if match else None
    except ValueError:
        return None


def day_words(day: date) -> str:
    """Return a day in words: `8 may 2023`."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def month_number(name: str) -> int:
    """Return the number of a month from its name or a prefix of it."""
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(name.lower()))


def query_dates(query: str, now: date | None = None) -> list[str]:
    """Return the dates, in words, that a query names or implies.

    Implied dates are relative to `now` or to a named date.

    >>> query_dates("What did Ida do the week before 9 June 2023?")
    ['9 june 2023', '2 june 2023']
    >>> query_dates("Where was she last May?", date(2024, 3, 2))
    ['may 2023']
    """
    named = list(_named_dates(query, now))
    implied = (
        [] if now is None else [day_words(now - timedelta(days)) for days in _distances(query)]
    )
    return list(dict.fromkeys([*named, *_around(query), *implied]))


def _named_dates(query: str, now: date | None) -> Iterator[str]:
    rest = query
    for match in _LAST_MONTH.finditer(query):
        month = month_number(match["month"])
        year = "" if now is None else f" {now.year - (month >= now.month)}"
        yield f"{MONTHS[month - 1]}{year}"
        rest = rest.replace(match[0], " ")
    for match in _NAMED.finditer(rest):
        if match["month"].lower() == "may" and not (match["day"] or match["day2"] or match["year"]):
            if not re.search(
                r"\b(?:in|of|since|until|by|during)\s*$", rest[: match.start()], re.IGNORECASE
            ):
                continue  # the verb "may"
        day = match["day"] or match["day2"] or ""
        parts = (day, MONTHS[month_number(match["month"]) - 1], match["year"] or "")
        yield " ".join(filter(None, parts))
    if not _NAMED.search(rest):
        yield from _YEAR.findall(rest)


def _around(query: str) -> Iterator[str]:
    """Yield the days that lie a day, week or month before or after a full date in the query."""
    match, days = _WEEK_BEFORE.search(query), list(_whole_dates(query))
    if match:
        sign = -1 if match[2].lower() == "before" else 1
        for day in days:
            yield day_words(day + timedelta(sign * _DAYS[match[1].lower()]))


def _whole_dates(query: str) -> Iterator[date]:
    for match in _NAMED.finditer(query):
        day = match["day"] or match["day2"]
        if day and match["year"]:
            try:
                yield date(int(match["year"]), month_number(match["month"]), int(day))
            except ValueError:
                continue


def _distances(query: str) -> Iterator[int]:
    """Yield the number of days between now and each day that the query implies."""
    for match in _AGO.finditer(query):
        count = _COUNTS.get(match[1].lower()) or int(match[1])
        yield min(count * _DAYS[match[2].lower()], 36_500)
    for match in _LAST.finditer(query):
        yield {"yesterday": 1, "today": 0}.get(
            (match[2] or "").lower(), _DAYS.get((match[1] or "").lower(), 0)
        )


class DateIndex:
    """Index of turns by date, for queries that name or imply one.

    Relative dates ("two weeks ago") are counted from the newest turn.

    Args:
        corpus: the entries to search; entries with a time have a date.
    """

    def __init__(self, corpus: Corpus) -> None:
        entries = corpus.entries()
        self._days = [parse_day(entry.time) for entry in entries]
        self._now = max((day for day in self._days if day is not None), default=None)
        self._index = BM25(
            ReplacedTexts(corpus, self.texts(entries, with_text=False)), k1=1.2, b=0.0
        )

    def texts(self, entries: Sequence[Entry], with_text: bool) -> list[Entry]:
        """Return the entries with dates in words, before their texts if `with_text`."""
        dated = []
        for entry, day in zip(entries, self._days, strict=True):
            words = "" if day is None else day_words(day)
            text = f"{words} {entry.text}" if with_text else words
            dated.append(entry.model_copy(update={"text": text}))
        return dated

    def words(self, query: str) -> str:
        """Return the dates of a query in words."""
        return " ".join(query_dates(query, self._now))

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return the score of every entry, 0 if no date matches; shape (entries,)."""
        return self._index.scores(self.words(query))


class Dates:
    """Another strategy with dates in words added to the turns and to the query.

    Args:
        corpus: the entries to search.
        inner: the factory of the strategy that searches.
    """

    def __init__(self, corpus: Corpus, inner: Callable[[Corpus], Retriever] = STEM_PART) -> None:
        entries = corpus.entries()
        self._entries = {entry.id: entry for entry in entries}
        self._index = DateIndex(corpus)
        dated = self._index.texts(entries, with_text=True)
        if isinstance(corpus, ExactCorpus) and entries:
            corpus = corpus.replaced(dated, corpus.vectors)
        else:
            corpus = ReplacedTexts(corpus, dated)
        self._inner = inner(corpus)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k turns, best first."""
        implied = self._index.words(query)
        hits = self._inner.search(f"{query} {implied}" if implied else query, k)
        return [Hit(entry=self._entries[hit.entry.id], score=hit.score) for hit in hits]
