"""Normalisation of numbers in digits, in English words and with scale words to one decimal form."""

import re
from collections.abc import Sequence
from decimal import Decimal

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
CARDINALS = {word: value for value, word in enumerate(_SMALL)}
CARDINALS |= {word: 10 * tens for tens, word in enumerate(_TENS, 2)}
_IRREGULAR = {
    "first": 1,
    "second": 2,
    "third": 3,
    "fifth": 5,
    "eighth": 8,
    "ninth": 9,
    "twelfth": 12,
}
ORDINALS = {f"{word}th": value for word, value in CARDINALS.items() if value < 20}
ORDINALS |= {f"{word[:-1]}ieth": value for word, value in CARDINALS.items() if value >= 20}
ORDINALS |= _IRREGULAR
SCALES = {
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "mn": 10**6,
    "bn": 10**9,
}
# Points as thousands separators, as in `12.500`: a decimal fraction would not end in zero.
_POINTS = re.compile(r"[1-9]\d{0,2}\.\d\d0")
_THOUSANDS = re.compile(r"\d{1,3}(?:[,' ]\d{3})+")


def plain_number(digits: str) -> str:
    """Return a number without thousands separators, leading zeros and trailing decimal zeros.

    >>> plain_number("1,204"), plain_number("-5.50"), plain_number("007"), plain_number("٣")
    ('1204', '-5.5', '7', '3')
    """
    sign, size = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    if _POINTS.fullmatch(size) or size.count(".") > 1:
        size = size.replace(".", ",")
    whole, _, fraction = size.partition(".")
    if _THOUSANDS.fullmatch(whole):
        whole = re.sub(r"[,' ]", "", whole)
    whole = "".join(str(int(digit)) for digit in whole).lstrip("0") or "0"
    fraction = fraction.rstrip("0")
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def scaled(number: str, scale: str) -> str:
    """Return a number times a scale word: 1.5 million is 1500000."""
    product = Decimal(number) * SCALES[scale]
    return plain_number(f"{product:f}")


def spoken_number(words: Sequence[str]) -> tuple[int, int]:
    """Return the value and count of the number words at the start of a sequence; (0, 0) without
    any.

    >>> spoken_number(["two", "hundred", "and", "fifty", "four", "men"])
    (254, 5)
    >>> spoken_number(["nineteen", "eighty", "four"]), spoken_number(["twelve", "thousand"])
    ((1984, 3), (12000, 2))
    """
    total = group = length = 0
    last = 0
    for index, word in enumerate(words):
        if (
            word == "and"
            and last >= 100
            and words[index + 1 : index + 2]
            and words[index + 1] in CARDINALS
        ):
            continue
        value = CARDINALS.get(word)
        if value is not None:
            if not _continues(last, value):
                break
            group = group * 100 + value if 10 < last <= 20 and value >= 10 else group + value
            last = value
        elif word in SCALES and length:
            scale = SCALES[word]
            if scale == 100:
                group = max(group, 1) * 100
            else:
                total, group = total + max(group, 1) * scale, 0
            last = scale
        else:
            break
        length = index + 1
    return total + group, length


def _continues(last: int, value: int) -> bool:
    """Return whether a number word may follow one of the value `last` within a number; 0 is the
    beginning.
    """
    if last == 0 or last >= 100:
        return True
    if value >= 10:  # a year: nineteen eighty, twenty twenty
        return 10 < last <= 20
    return last >= 20 and value > 0
