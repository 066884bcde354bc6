"""Numbers in texts with their values, in digits and in words: `1,204`, `five hundred`, `twice`."""

from collections.abc import Iterator
from typing import NamedTuple

from emend.memory.values.numbers import SCALES
from emend.memory.values.tokens import Token, tokenize

# Words for frequency.
TIMES = {"once": 1, "twice": 2, "thrice": 3}


class NumberSpan(NamedTuple):
    """The value of a number in a text, and its position in characters."""

    value: float
    start: int
    end: int


def read_numbers(plain: str) -> Iterator[NumberSpan]:
    """Yield the numbers of a text, including decades (`1990s`), in order.

    >>> [span.value for span in read_numbers("twenty-five of 1,204, or 2.5 million")]
    [25.0, 1204.0, 2500000.0]

    Args:
        plain: a text in folded typography (`fold_typography` or `fold_text`).
    """
    for token in tokenize(plain):
        value = _value(token)
        if value is not None:
            yield NumberSpan(value, token.start, token.end)


def read_number(plain: str) -> float | None:
    """Return the value of the first number of a text in folded typography, or None."""
    return next((span.value for span in read_numbers(plain)), None)


def _value(token: Token) -> float | None:
    form = token.form
    if token.kind == "number":
        return float(form)
    if form[0].isdigit() and token.kind in ("ordinal", "word"):  # 3rd, 1990s
        return float(form.rstrip(".s"))
    return TIMES.get(form, SCALES.get(form))
