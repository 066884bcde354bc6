"""ReCoE's scoring: exact match with aliases, and whether an edit turned the old right answer into the new one.

The paper says "exact match" and publishes no code; so the normalisation is ours: `text.normalise`, numbers in words or
digits alike, and one way to write a list. Section 3.1 of arXiv 2401.17585.
"""

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from emend.evals.metrics.text import normalise
from emend.memory.probe import Answer, Probe

OUTPUTS = ("pre_edit", "correct_flip")
ALIASES_TAG = "original_aliases"
"""The probe's tag that holds the original answer's aliases, one per line (the answer itself is the probe's rival)."""

_NUMBER = re.compile(r"(?P<sign>minus |negative |[-\u2212] ?)?(?P<size>.+)")
_DIGITS = re.compile(r"\d+|\d{1,3}(?:,\d{3})+")
_BETWEEN = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+")
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def number(text: str) -> int | None:
    """The whole number that the text is, in digits or in English words below a thousand; None when it is none.

    >>> number("minus twenty-one"), number("1,204"), number("two moons")
    (-21, 1204, None)
    """
    found = _NUMBER.fullmatch(text.strip().casefold())
    if found is None:
        return None
    size = found["size"].strip()
    digits = _DIGITS.fullmatch(size)
    value = int(size.replace(",", "")) if digits else _spelled().get(" ".join(size.replace("-", " ").split()))
    return -value if found["sign"] and value is not None else value


@lru_cache(maxsize=65536)
def canonical(text: str) -> str:
    """What is compared: a number as digits with its sign, a list as its items in order, else the normalised text.

    >>> canonical("Negative three."), canonical("The Alps; Ural, and Jura"), canonical("Yes.")
    ('-3', 'alps, ural, jura', 'yes')
    """
    said = normalise(text)
    if (value := number(said)) is not None:
        return str(value)
    return ", ".join(item for part in _BETWEEN.split(said) if (item := normalise(part)))


def matches(reply: str, answers: Iterable[str]) -> bool:
    """Whether the reply is one of the answers; an empty reply is none."""
    said = canonical(reply)
    return bool(said) and any(said == canonical(answer) for answer in answers)


def shared_forms(answers: Iterable[str], others: Iterable[str]) -> set[str]:
    """The canonical forms that stand for both answers, such as "3" for -3 and for 3: a reply cannot tell them apart."""
    return {canonical(answer) for answer in answers} & {canonical(answer) for answer in others}


def originals(probe: Probe) -> tuple[str, ...]:
    """The original answer and its aliases."""
    aliases = str(probe.tags.get(ALIASES_TAG, "")).splitlines()
    return (probe.rival, *aliases) if probe.rival is not None else tuple(aliases)


def correct_flip(probe: Probe, answer: Answer, before: Answer | None) -> tuple[dict[str, float], dict[str, str]]:
    """`pre_edit`, the unedited model gave the original answer; `correct_flip`, the edited one gives the new answer.

    As in the paper, `correct_flip` is taken over the probes that the unedited model answered right; of the others it is
    unscored with the reason. Where a form stands for both answers no flip can be seen, so it is unscored too.

    Returns:
        Values, and the reasons for those that are missing.
    """
    if before is None or before.text is None:
        why = "the unedited model was not asked" if before is None else "the unedited model was not asked for text"
        return {}, dict.fromkeys(OUTPUTS, why)
    right = matches(before.text, originals(probe))
    values = {"pre_edit": float(right)}
    if not right:
        return values, {"correct_flip": "the unedited model did not give the original answer"}
    if answer.text is None:
        return values, {"correct_flip": "the model was not asked for text"}
    if shared := shared_forms(probe.gold, originals(probe)):
        return values, {"correct_flip": f"'{min(shared)}' stands for both the original and the new answer"}
    return values | {"correct_flip": float(matches(answer.text, probe.gold))}, {}


@cache
def _spelled() -> dict[str, int]:
    below = {word: value for value, word in enumerate(_SMALL)}
    for place, ten in enumerate(_TENS, 2):
        below |= {ten: place * 10} | {f"{ten} {_SMALL[one]}": place * 10 + one for one in range(1, 10)}
    words = dict(below)
    for hundreds in range(1, 10):
        start = f"{_SMALL[hundreds]} hundred"
        words[start] = hundreds * 100
        for word, value in below.items():
            if value:
                words |= dict.fromkeys((f"{start} {word}", f"{start} and {word}"), hundreds * 100 + value)
    return words
