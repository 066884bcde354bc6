"""Tokenisation for value search: words without marks, numbers as decimals, joined initials, dates
in digits.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from emend.memory.retrieval.tokens import UNSPACED
from emend.memory.typography import fold_typography
from emend.memory.values.letters import fold_letters
from emend.memory.values.numbers import (
    CARDINALS,
    ORDINALS,
    SCALES,
    plain_number,
    scaled,
    spoken_number,
)
from emend.memory.values.units import SHORT


class Token(NamedTuple):
    """A word or number: its form for comparison, its position in characters, and its type."""

    form: str
    start: int
    end: int
    kind: str
    """`word`, `name` (capitalised), `number`, `ordinal`, `date` (in digits) or `symbol`."""


_GROUPED = r"\d{1,3}(?:(?:,\d{3})+|(?:\.\d{3}){2,}(?![.,]\d))(?!\d)"
_SPACED = re.compile(r"(?<![\w.,])[1-9]\d{0,2}(?:[\u00a0\u2009\u202f ]\d{3})+(?![\d.,]\d|\d)")
_SIGN = r"(?:(?<![\w)\].,%])-)?"
_GLUED_END = r"(?:and|of|in|by|at|on|the|is|for|to|from|was|with)"
# A word also ends where a capital follows small letters, as in web text whose links lost their
# spaces.
_TOKEN = re.compile(
    rf"""
      (?P<date>(?<![\w/.-])(?:\d{{4}}([/-])\d\d?\2\d\d?|\d\d?([./-])\d\d?\3\d{{4}})(?![\w/-]))
    | (?P<number>{_SIGN}(?:{_GROUPED}|\d+)(?:\.\d+)?)
      (?:(?P<ordinal>st|nd|rd|th|er|o)\b|(?P<decade>'?s)\b)?
    | (?P<initials>\b[^\W\d_](?:\.\s{{0,2}}[^\W\d_](?![^\W\d_]))+\.?)
    | (?P<code>\b[A-Za-z]{{1,2}}(?:\+\+?|\#)(?!\w))
    | (?P<unspaced>[{UNSPACED}])
    | (?P<word>[a-zà-ÿ]{{2,}}(?=[A-Z][a-z])|[A-Z][a-z]+{_GLUED_END}(?=[A-Z][a-z])
      |[^\W\d_{UNSPACED}]+)
    | (?P<symbol>[%&$€£¥°~])
    """,
    re.VERBOSE,
)
_SYMBOLS = {"%": "percent", "&": "and"}
# Words and their usual abbreviation, which is the form of both.
_SAME = {
    "saint": "st",
    "mount": "mt",
    "doctor": "dr",
    "mister": "mr",
    "junior": "jr",
    "senior": "sr",
    "versus": "vs",
    "okay": "ok",
}
_MINUS = frozenset({"minus", "negative"})
_BEFORE_PRONOUN = frozenset("no the any some every which this that".split())
_AFTER_PRONOUN = frozenset("of who that which another day".split())
# Maximum number of words of a number.
LONGEST_NUMBER = 12
# Position before a fraction or superscript digit, which folded typography would join to the number:
# `4½`.
_SMALL_DIGITS = re.compile(
    r"(?<=\d)(?=[\u00b2\u00b3\u00b9\u2070-\u2079\u00bc-\u00be\u2150-\u215e])"
)


def tokenize(text: str) -> tuple[Token, ...]:
    """Return the tokens of a text in folded typography (`fold_typography`), in order.

    >>> [token.form for token in tokenize("J. R. R. Tolkien's 1,000 rings")]
    ['jrr', 'tolkien', '1000', 'rings']
    >>> [token.form for token in tokenize("twenty-one metres, 1.5 million, 3rd, -5")]
    ['21', 'm', '1500000', '3.', '-5']
    """
    return tuple(_with_units(_with_scales(_with_signs(_join_numbers([*_raw_tokens(text)])))))


def _raw_tokens(text: str) -> Iterator[Token]:
    possessive = -1
    for match in _TOKEN.finditer(text):
        if match.start() == possessive:
            continue
        yield _token(match)
        if text[match.end() : match.end() + 2].lower() == "'s":
            possessive = match.end() + 1


def _token(match: re.Match[str]) -> Token:
    start, end = match.span()
    if match["date"]:
        return Token(match[0], start, end, "date")
    if match["number"]:
        number = plain_number(match["number"])
        if match["decade"]:
            return Token(f"{number}s", start, end, "word")
        if match["ordinal"]:
            return Token(f"{number}.", start, end, "ordinal")
        return Token(number, start, end, "number")
    if match["initials"]:
        letters = re.sub(r"[\s.]", "", match[0])
        return Token(fold_letters(letters), start, end, "name" if letters[0].isupper() else "word")
    if match["symbol"]:
        return Token(_SYMBOLS.get(match[0], match[0]), start, end, "symbol")
    word = fold_letters(match[0])
    if word in ORDINALS:
        return Token(f"{ORDINALS[word]}.", start, end, "ordinal")
    form = _SAME.get(word, word)
    return Token(form, start, end, "name" if match[0][0].isupper() else "word")


def _join_numbers(tokens: list[Token]) -> Iterator[Token]:
    """Yield the tokens with each run of number words as one number."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        length = 1
        if token.form in CARDINALS and not _is_pronoun(tokens, index):
            token, length = _spoken_token(_adjacent(tokens, index))
        yield token
        index += length


def _adjacent(tokens: Sequence[Token], index: int) -> Sequence[Token]:
    """Return the tokens from an index on that are separated only by spaces or hyphens."""
    last = index + 1
    stop = min(len(tokens), index + LONGEST_NUMBER)
    while last < stop and tokens[last].start - tokens[last - 1].end <= 1:
        last += 1
    return tokens[index:last]


def _spoken_token(run: Sequence[Token]) -> tuple[Token, int]:
    """Return the number or ordinal at the start of a run as one token, and the number of tokens
    that it replaces.
    """
    value, length = spoken_number([token.form for token in run])
    start = run[0].start
    if value % 10 == 0 and value >= 20 and length < len(run) and run[length].kind == "ordinal":
        units = int(run[length].form.rstrip("."))
        if 0 < units < 10:  # twenty-first
            return Token(f"{value + units}.", start, run[length].end, "ordinal"), length + 1
    return Token(str(value), start, run[length - 1].end, "number"), length


def _is_pronoun(tokens: Sequence[Token], index: int) -> bool:
    """Return whether `one` is a pronoun: `one of the first`, `no one`, `the one that`."""
    if tokens[index].form != "one":
        return False
    before = tokens[index - 1].form if index else ""
    after = tokens[index + 1].form if index + 1 < len(tokens) else ""
    return before in _BEFORE_PRONOUN or after in _AFTER_PRONOUN


def _with_scales(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens with each number and following scale word merged."""
    number: Token | None = None
    for token in tokens:
        if number is not None and token.form in SCALES and token.start - number.end <= 1:
            number = Token(scaled(number.form, token.form), number.start, token.end, "number")
            continue
        if number is not None:
            yield number
        number = token if token.kind == "number" else None
        if number is None:
            yield token
    if number is not None:
        yield number


def _with_signs(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens with `minus` or `negative` before a number merged as its sign."""
    sign: Token | None = None
    for token in tokens:
        if sign is not None and token.kind == "number" and not token.form.startswith("-"):
            token = Token(f"-{token.form}", sign.start, token.end, "number")
        elif sign is not None:
            yield sign
        sign = token if token.form in _MINUS else None
        if sign is None:
            yield token
    if sign is not None:
        yield sign


def _with_units(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens with the unit after a number abbreviated."""
    after_number = False
    for token in tokens:
        if after_number and token.form in SHORT:
            token = token._replace(form=SHORT[token.form])
        yield token
        after_number = token.kind == "number"


def _fold_spaced_numbers(text: str) -> str:
    """Replace spaces between groups of three digits by commas (`1 000` becomes `1,000`)."""
    return _SPACED.sub(lambda match: re.sub(r"\s", ",", match[0]), text)


def fold_value_text(text: str) -> str:
    """Return a text in plain typography for `tokenize`; lines and case are kept."""
    return fold_typography(_SMALL_DIGITS.sub(" ", _fold_spaced_numbers(_decoded(text))))


def _decoded(text: str) -> str:
    """Repair UTF-8 text that was decoded as Windows-1252 (`2.45Â billion`)."""
    if "Â" not in text and "â€" not in text and "Ã" not in text:
        return text
    try:
        return text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return text
