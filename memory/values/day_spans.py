"""Dates as spans of days: `7 May 2023`, `7 de mayo de 2023`, `the week before 9 June`, `early July
2023`.

Months are named in each language of `dates.MONTHS`; the words around them are English.
"""

import calendar
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from emend.memory.typography import fold_text
from emend.memory.values.dates import MONTHS
from emend.memory.values.letters import fold_accents_in_place
from emend.memory.values.numbers import CARDINALS
from emend.memory.values.quantities import TIMES, read_number

# Maximum span in days of a reply that counts as giving a single day, or a date given in weeks; a
# third of a month has up to 11 days and does not count as a single day.
WEEK, THIRD = 7, 11
# Characters before a date in which a phrase such as `two weeks before the` may begin.
LONGEST_MOVE = 60
# Numbers for `a few` and `a couple of`.
FEW = 3
_DAYS = {name.casefold(): number for number, name in enumerate(calendar.day_name)}
_SEASONS = {"spring": (3, 5), "summer": (6, 8), "fall": (9, 11), "autumn": (9, 11)}
_THIRDS = {"early": 0, "beginning": 0, "start": 0, "mid": 1, "middle": 1, "late": 2, "end": 2}
_RANKS = ("first", "second", "third", "fourth")
_LENGTHS = {"day": 1, "month": 30, "year": 365}
# Words after which `may` and `march` are months.
_BEFORE_MONTH = "in |of |by |early |late |mid |mid-|since |during |until ".split("|")

_ENGLISH = [
    name.casefold()
    for names in (calendar.month_name, calendar.month_abbr)
    for name in names
    if name
]
_MONTH = rf"(?P<month>{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b\.?"
_NTH = r"(?:st|nd|rd|th|er|\.)?"
_OF = r"(?:(?:of|de|del|do)\s+)?"
_DAY = rf"(?P<day>[0-3]?\d){_NTH}"
_RANGE = rf"{_DAY}(?:\s*-\s*|\s+(?:to|and|or|through|until)\s+)(?P<until>[0-3]?\d){_NTH}"
_YEAR = r"(?P<year>1[5-9]\d\d|20\d\d)"
_IN_YEAR = rf"(?:\s*,?\s*{_OF}{_YEAR})?"
_FORMS = (
    r"(?P<year>\d{4})-(?P<number>\d\d)-(?P<day>\d\d)",
    rf"{_RANGE}\s*{_MONTH}{_IN_YEAR}",
    rf"{_MONTH}\s*{_RANGE}(?!\d){_IN_YEAR}",
    rf"{_DAY}\s*{_OF}{_MONTH}{_IN_YEAR}",
    rf"{_MONTH}\s*{_DAY}(?!\d){_IN_YEAR}",
    rf"{_MONTH}\s*,?\s*{_OF}{_YEAR}",
    rf"(?P<season>{'|'.join(_SEASONS)})\s*,?\s*(?:of\s+|in\s+|\()?{_YEAR}",
    rf"(?:{'|'.join(f'(?<={word})' for word in _BEFORE_MONTH)})(?P<month>{'|'.join(_ENGLISH)}|"
    rf"sept)\b\.?",
    _YEAR,
)
_DATES = [re.compile(rf"(?<![\w.]){form}(?![\w%]|\.\d|-\d\d-)") for form in _FORMS]
_PART = re.compile(rf"\b(?P<third>{'|'.join(_THIRDS)})(?:\s+(?:of|in))?(?:\s+the)?[\s-]*$")
_ORDINAL = re.compile(rf"\b(?P<rank>{'|'.join(_RANKS)}|last)\s+week(?:end)?\s+(?:of|in)\s+$")
_COUNT = rf"(?:(?P<count>\d+|few|couple(?: of)?|{'|'.join(CARDINALS | TIMES)})\s+)?"
_UNIT = f"(?P<unit>day|weekend|week|month|year|{'|'.join(_DAYS)})s?"
_SIDE = r"(?P<side>before|after|of|preceding|following)"
_RELATIVE = re.compile(rf"\b{_COUNT}{_UNIT}\s+{_SIDE}\s+(?:the\s+)?$")


class DaySpan(NamedTuple):
    """The days that a date expression refers to, and its position in the folded text."""

    first: date
    last: date
    start: int
    end: int
    by_weeks: bool = False
    """Told by weeks or more from another date, so that some days more or less are meant, too."""

    @property
    def days(self) -> int:
        """Number of days."""
        return (self.last - self.first).days + 1

    def gives(self, other: "DaySpan") -> bool:
        """Return whether the two spans overlap and this one is about as narrow as the other."""
        meets = self.first <= other.last and other.first <= self.last
        return meets and self.days <= max(other.days, THIRD if other.by_weeks else WEEK)


def read_dates(text: str, year: int | None = None) -> list[DaySpan]:
    """Return the dates of a text, in order of position.

    Args:
        text: of any length.
        year: the year of dates without one; if None, these are skipped.

    >>> [span] = read_dates("It was the Friday before 15 July 2023.")
    >>> str(span.first), str(span.last)
    ('2023-07-14', '2023-07-15')
    """
    plain = fold_accents_in_place(fold_text(text))
    spans = list[DaySpan]()
    marks = bytearray(len(plain))
    for pattern in _DATES:
        for hit in pattern.finditer(plain):
            days = _absolute(hit, year)
            if days is None or any(marks[hit.start() : hit.end()]):
                continue
            span = _moved(DaySpan(*days, hit.start(), hit.end()), plain)
            marks[span.start : span.end] = b"\1" * (span.end - span.start)
            spans.append(span)
    return sorted(spans, key=lambda span: span.start)


def _absolute(hit: re.Match[str], year: int | None) -> tuple[date, date] | None:
    """Return the days of an absolute date; None for an impossible date or without a year."""
    fields = hit.groupdict()
    written = int(fields["year"]) if fields.get("year") else year
    if written is None:
        return None
    if fields.get("season"):
        first, last = _SEASONS[fields["season"]]
        return date(written, first, 1), _month_end(written, last)
    month = int(fields.get("number") or MONTHS.get(fields.get("month") or "", 0))
    if not 1 <= month <= 12:
        return None if month else (date(written, 1, 1), date(written, 12, 31))
    if not fields.get("day"):
        return date(written, month, 1), _month_end(written, month)
    first, last = int(fields["day"]), int(fields.get("until") or fields["day"])
    if not 1 <= first <= last <= _month_end(written, month).day:
        return None
    return date(written, month, first), date(written, month, last)


def _month_end(year: int, month: int) -> date:
    return date(year, month, calendar.monthrange(year, month)[1])


def _moved(span: DaySpan, text: str) -> DaySpan:
    """Return the span of a date with the words before it, such as `early` or `two weeks before`."""
    first_character = max(0, span.start - LONGEST_MOVE)
    for pattern, move in _MOVES:
        if hit := pattern.search(text, first_character, span.start):
            first, last = move(span, hit)
            by_weeks = move is _relative and hit["unit"] not in ("day", *_DAYS)
            return DaySpan(first, last, hit.start(), span.end, by_weeks)
    return span


def _third(span: DaySpan, hit: re.Match[str]) -> tuple[date, date]:
    """Return the first, middle or last third of a span."""
    length, number = max(1, span.days // 3), _THIRDS[hit["third"]]
    first = span.first + timedelta(length * number)
    return first, span.last if number == 2 else first + timedelta(length - 1)


def _week(span: DaySpan, hit: re.Match[str]) -> tuple[date, date]:
    """Return a week of a month by its number."""
    if hit["rank"] == "last":
        return span.last - timedelta(WEEK - 1), span.last
    first = span.first + timedelta(WEEK * _RANKS.index(hit["rank"]))
    return first, first + timedelta(WEEK - 1)


def _relative(span: DaySpan, hit: re.Match[str]) -> tuple[date, date]:
    """Return the days at a distance from a date, including the date itself, which is as specific.

    A week is seven days or a calendar week.
    """
    if hit["side"] == "of":
        around = timedelta(WEEK - 1 if span.days == 1 else 0)
        return span.first - around // 2, span.last + around
    sign = 1 if hit["side"] in ("after", "following") else -1
    near = span.last if sign > 0 else span.first
    count = hit["count"]
    far = near + timedelta(sign * _distance(hit["unit"], count, near, sign))
    if count and read_number(count):  # two weeks before: excludes the week in between
        near = far - timedelta(sign * min(WEEK, abs((far - near).days)))
    return min(near, far), max(near, far)


def _distance(unit: str, count: str | None, near: date, sign: int) -> int:
    """Return the number of days from a date to the farthest day of the span."""
    steps = int(read_number(count or "one") or FEW)
    if unit in _DAYS:
        ahead = (_DAYS[unit] - near.weekday()) * sign
        return (ahead - 1) % WEEK + 1 + WEEK * (steps - 1)
    if unit in ("week", "weekend"):
        return steps * WEEK + (near.weekday() if sign < 0 else WEEK - near.weekday() - 1)
    return steps * _LENGTHS[unit]


_Move = Callable[[DaySpan, re.Match[str]], tuple[date, date]]
_MOVES: Sequence[tuple[re.Pattern[str], _Move]] = (
    (_ORDINAL, _week),
    (_RELATIVE, _relative),
    (_PART, _third),
)


def without_spans(plain: str, spans: Sequence[tuple[int, int]]) -> str:
    """Replace each span (start, end) of a text by a space; spans are in order."""
    return "".join(_kept(plain, spans))


def _kept(plain: str, spans: Sequence[tuple[int, int]]) -> Iterator[str]:
    end = 0
    for start, stop in spans:
        yield f"{plain[end:start]} "
        end = max(end, stop)
    yield plain[end:]
