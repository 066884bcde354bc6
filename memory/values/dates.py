"""Recognition and comparison of dates in texts, in several languages and orders."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from emend.memory.values.tokens import Token

# Months in English, French, Spanish, Italian, Portuguese, German, Dutch and Russian, as
# `fold_letters` folds them.
_NAMES = (
    "january january janvier enero gennaio janeiro januar januari января",
    "february fevrier febrero febbraio fevereiro februar februari февраля",
    "march mars marzo marco marz maart марта",
    "april avril abril aprile апреля",
    "may mai mayo maggio maio mei мая",
    "june juin junio giugno junho juni июня",
    "july juillet julio luglio julho juli июля",
    "august aout agosto augustus августа",
    "september septembre septiembre settembre setembro сентября",
    "october octobre octubre ottobre outubro oktober октября",
    "november novembre noviembre novembro ноября",
    "december decembre diciembre dicembre dezembro dezember декабря",
)
MONTHS = {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}
MONTHS |= {names.split()[0][:3]: number for number, names in enumerate(_NAMES, 1)} | {"sept": 9}
# Months that are also other words or names, so that a day or year must be next to them.
_WORDS_TOO = frozenset({"march", "may", "mar", "mars", "mai", "mei", "jan", "dec", "marco"})
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_BETWEEN = frozenset({"of", "de", "del", "the", "in"})


class Date(NamedTuple):
    """A date whose year, month or day may be missing (0), and its position in characters."""

    year: int
    month: int
    day: int
    start: int
    end: int

    def gives(self, gold: "Date") -> bool:
        """Return whether this date equals the gold one, or is more precise and agrees with it."""
        pairs = zip(gold[:3], self[:3], strict=True)
        return all(not gold_value or gold_value == own_value for gold_value, own_value in pairs)

    def is_coarser(self, gold: "Date") -> bool:
        """Return whether this date is the gold one without its day, or without its month and
        day.
        """
        if not self.year or self.year != gold.year or self.day:
            return False
        return not self.month or self.month == gold.month

    def contradicts(self, gold: "Date") -> bool:
        """Return whether both dates have a year, a month or a day that differs."""
        pairs = zip(gold[:3], self[:3], strict=True)
        return any(
            gold_value and own_value and gold_value != own_value for gold_value, own_value in pairs
        )


def find_dates(tokens: Sequence[Token]) -> list[Date]:
    """Return the dates with a month, in order of position; a date in digits may have two readings.

    `15.06.1990` has one reading; `03/04/2011` two, as day and month may be in either order.
    """
    return [*_written_dates(tokens), *_digit_dates(tokens), *_east_asian_dates(tokens)]


def years(tokens: Sequence[Token]) -> list[Date]:
    """Return the years (1000 to 2099) of a text as dates without month and day."""
    token_years = ((token, _year(token)) for token in tokens)
    return [Date(year, 0, 0, token.start, token.end) for token, year in token_years if year]


def _written_dates(tokens: Sequence[Token]) -> Iterator[Date]:
    for index, token in enumerate(tokens):
        month = MONTHS.get(token.form)
        if month is None:
            continue
        first = last = index
        day = year = 0
        before = _step(tokens, index, -1)
        if before is not None and (day := _day(tokens[before])):
            first = before
        after = _step(tokens, index, 1)
        if after is not None and not day and (day := _day(tokens[after])):
            last = after
            after = _step(tokens, after, 1)
        if after is not None and (year := _year(tokens[after])):
            last = after
        if not year and first > 0 and (year := _year(tokens[first - 1])):
            first -= 1
        if token.form in _WORDS_TOO and not (day or year):
            continue
        yield Date(year, month, day, tokens[first].start, tokens[last].end)


def _step(tokens: Sequence[Token], index: int, step: int) -> int | None:
    """Return the index of the neighbouring token, over one preposition (`15 de junio de 1990`)."""
    index += step
    if 0 <= index < len(tokens) and tokens[index].form in _BETWEEN:
        index += step
    return index if 0 <= index < len(tokens) else None


def _day(token: Token) -> int:
    digits = token.form.rstrip(".")
    if token.kind not in ("number", "ordinal") or not digits.isdigit():
        return 0
    return int(digits) if 1 <= int(digits) <= 31 else 0


def _year(token: Token) -> int:
    """Return the year of a number; one or two digits after it belong to a footnote (`196912`)."""
    match = _YEAR.match(token.form)
    if token.kind != "number" or match is None or len(token.form) not in (4, 5, 6):
        return 0
    is_round = token.form.endswith("0") and len(token.form) > 4
    return 0 if is_round else int(match[0])


def _digit_dates(tokens: Sequence[Token]) -> Iterator[Date]:
    for token in tokens:
        if token.kind != "date":
            continue
        first, second, third = (int(digits) for digits in re.findall(r"\d+", token.form))
        orders = [(first, second, third)]
        if first < 32:
            orders = [(third, second, first), (third, first, second)]
        for year, month, day in dict.fromkeys(orders):
            if 1 <= month <= 12 and 1 <= day <= 31:
                yield Date(year, month, day, token.start, token.end)


def _east_asian_dates(tokens: Sequence[Token]) -> Iterator[Date]:
    """Yield dates such as 1990年6月15日 and 6月15日."""
    for index in range(1, len(tokens)):
        if tokens[index].form != "月" or not 1 <= (month := _day(tokens[index - 1])) <= 12:
            continue
        first, last, day, year = index - 1, index, 0, 0
        if tokens[index + 2 : index + 3] and tokens[index + 2].form == "日":
            day, last = _day(tokens[index + 1]), index + 2
        if index >= 3 and tokens[index - 2].form == "年":
            year, first = _year(tokens[index - 3]), index - 3
        yield Date(year, month, day, tokens[first].start, tokens[last].end)
