"""Bound on the time that the regular expressions of a tokenizer file take.

The library `tokenizers` bounds the steps back of one match, but not those of a whole text, so that
an expression from a stranger may take half a second for each character.
"""

import time
from collections.abc import Iterable
from itertools import product
from pathlib import Path

from tokenizers import Regex, pre_tokenizers

from emend.memory.errors import ModelError

# Maximum number of characters of an expression; those of well-known models have at most 700.
LONGEST = 10_000
# Time in which all expressions of a file must read the probes. Those of well-known models take
# milliseconds.
SECONDS = 0.5
PROBES = (
    "The capital of France is Paris (since 987), isn't it? 巴黎 Où est-ce? ",
    "a" * 64,
    " " * 64,
    "0" * 64,
)
# Lengths of the probes in characters, from short to long.
LENGTHS = range(4, 65, 4)


def check_patterns(patterns: Iterable[str], file: Path) -> None:
    """Split short texts of growing length by the regular expressions of a tokenizer file.

    An invalid expression is left to the library that reads the file.

    Raises:
        ModelError: an expression is too long, or they take more than `SECONDS` together.
    """
    start = time.thread_time()
    for pattern in patterns:
        if len(pattern) > LONGEST:
            raise ModelError(
                f"a regular expression in {file} has more than {LONGEST:,} characters: take the "
                "tokenizer from the model's publisher."
            )
        try:
            split = pre_tokenizers.Split(Regex(pattern), "isolated")
        except Exception:  # noqa: BLE001  the library raises plain exceptions
            continue
        for length, probe in product(LENGTHS, PROBES):
            if not _is_split(split, probe[:length]) or time.thread_time() - start > SECONDS:
                raise ModelError(
                    f"the regular expression {pattern[:60]!r} in {file} takes too long for short "
                    "texts: take the tokenizer from the model's publisher."
                )


def _is_split(split: pre_tokenizers.Split, text: str) -> bool:
    """Return whether a text is split within the library's own bound."""
    try:
        split.pre_tokenize_str(text)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # the library's class, below BaseException
            raise
        return False
    return True
