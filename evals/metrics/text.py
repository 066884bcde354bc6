"""Text answers against gold answers: exact match with aliases, and which of several choices a reply names."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from emend.memory.retrieval.tokens import whole

EDGES = " \t.,;:!?…、。，；：！？\"'`“”‘’«»「」『』*_()[]"
"""Taken off both ends; inner punctuation stays, because it tells names apart (`C++`, `AC/DC`, `U.S.`)."""

_ARTICLE = re.compile(r"^(?:a|an|the)\s+(?=\S)")
_NEGATION = re.compile(r"(?:\b(?:not|never|neither|nor|no|without|cannot)|n['’]t)\s+(?:\w+\s+){0,2}$")
_NEGATION_CJK = re.compile(r"(?:不是|并非|不|没有|非)\s*$")


def fold(text: str) -> str:
    """First non-empty line, NFKC, case-folded, white space collapsed, punctuation and quotes off both ends."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", line).casefold())
    return " ".join(folded.split()).strip(EDGES)


@lru_cache(maxsize=65536)
def normalise(text: str) -> str:
    """`fold`, and one leading English article off.

    Plainer than SQuAD's rule, which drops all punctuation and every article: that would make `C++` and `C`, or `The A`
    and nothing, the same.
    """
    return _ARTICLE.sub("", fold(text))


def exact_match(reply: str, golds: Iterable[str]) -> float:
    """1.0 when the normalised reply equals one of the gold answers (the right one or an alias), else 0.0."""
    said = normalise(reply)
    return float(bool(said) and any(said == normalise(gold) for gold in golds))


def parse_choice(reply: str, choices: Sequence[str]) -> tuple[str | None, str]:
    """The one choice that the reply's first line names, as (choice, ""), or (None, why it cannot be told).

    A choice counts when it stands as whole words (inside a longer choice that is also there it does not: `York` in
    `New York`). Unreadable are a reply that names none or several, and one that negates what it names (`not true`).
    """
    if not choices:
        return None, "the probe has no choices"
    said = fold(reply)
    if not said:
        return None, "empty reply"
    found: list[str] = []
    for choice in sorted(choices, key=lambda c: len(fold(c)), reverse=True):
        if not (name := fold(choice)) or not (hits := list(whole(name).finditer(said))):
            continue
        before = [said[: hit.start()] for hit in hits]
        if any(_NEGATION.search(text) or _NEGATION_CJK.search(text) for text in before):
            return None, f"reply negates '{choice}'"
        found.append(choice)
        said = whole(name).sub("\0", said)
    if len(found) == 1:
        return found[0], ""
    if not found:
        return None, "reply names none of the choices"
    return None, f"reply names several choices: {', '.join(sorted(found))}"


def parse_truth(reply: str) -> tuple[str | None, str]:
    """As `parse_choice` between "true" and "false", with `yes` and `no` read as these."""
    said = re.sub(r"\byes\b", "true", re.sub(r"\bno\b", "false", fold(reply)))
    return parse_choice(said, ("true", "false"))
