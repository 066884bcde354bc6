"""Comparison of text answers with gold answers: exact match with aliases, and the choice that a reply names."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from emend.memory.retrieval.tokens import whole, words
from emend.memory.typography import fold_text

EDGES = " \t.,;:!?…、。，；：！？\"'`“”‘’«»「」『』*_()[]"
"""Characters stripped from both ends; inner punctuation stays, as it distinguishes names (`C++`, `AC/DC`, `U.S.`)."""

_ARTICLE = re.compile(r"^(?:a|an|the)\s+(?=\S)")
_NEGATION = re.compile(r"(?:\b(?:not|never|neither|nor|no|without|cannot)|n['’]t)\s+(?:\w+\s+){0,2}$")
_NEGATION_CJK = re.compile(r"(?:不是|并非|不|没有|非)\s*$")


def fold(text: str) -> str:
    """First non-empty line, its typography and case folded, punctuation and quotes off both ends."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return fold_text(line).strip(EDGES)


@lru_cache(maxsize=65536)
def normalise(text: str) -> str:
    """`fold`, and one leading English article off.

    Plainer than SQuAD's rule, which drops all punctuation and every article: that would make `C++` and `C`, or `The A`
    and nothing, the same.
    """
    return _ARTICLE.sub("", fold(text))


def exact_match(reply: str, golds: Iterable[str]) -> float:
    """1.0 when the normalised reply equals one of the gold answers (the right one or an alias), else 0.0."""
    answer = normalise(reply)
    return float(bool(answer) and any(answer == normalise(gold) for gold in golds))


def strict_match(reply: str, golds: Iterable[str]) -> float:
    """1.0 when the reply equals a gold answer character by character, in the same case, else 0.0.

    The rule of MeLLo's released code (Zhong et al. 2023): the reply is without white space around it, and with its
    final full stop. An alias is never looked for inside a longer reply.
    """
    return float(any(reply == gold for gold in golds))


def rouge_l(reply: str, gold: str) -> float:
    """F1 of the longest common subsequence of words, from 0 to 1 (Lin 2004, ROUGE-L), in any case, without stemming."""
    first, second = words(reply), words(gold)
    row = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for place, match in enumerate(second, 1):
            before, row[place] = row[place], before + 1 if word == match else max(row[place], row[place - 1])
    return 2 * row[-1] / max(1, len(first) + len(second))


def parse_choice(reply: str, choices: Sequence[str]) -> tuple[str | None, str]:
    """The one choice that the reply's first line names, as (choice, ""), or (None, the reason why it is undecidable).

    A choice counts as whole words, and not inside a longer choice that also occurs (`York` in `New York`). A reply
    that names none or several, or negates what it names (`not true`), is undecidable.
    """
    if not choices:
        return None, "the probe has no choices"
    rest = fold(reply)
    if not rest:
        return None, "empty reply"
    named: list[str] = []
    for choice in sorted(choices, key=lambda c: len(fold(c)), reverse=True):
        if not (name := fold(choice)) or not (hits := list(whole(name).finditer(rest))):
            continue
        before = [rest[: hit.start()] for hit in hits]
        if any(_NEGATION.search(text) or _NEGATION_CJK.search(text) for text in before):
            return None, f"reply negates '{choice}'"
        named.append(choice)
        rest = whole(name).sub("\0", rest)
    if len(named) == 1:
        return named[0], ""
    if not named:
        return None, "reply names none of the choices"
    return None, f"reply names several choices: {', '.join(sorted(named))}"


def parse_truth(reply: str) -> tuple[str | None, str]:
    """`parse_choice` between "true" and "false", with `yes` and `no` read as these."""
    line = re.sub(r"\byes\b", "true", re.sub(r"\bno\b", "false", fold(reply)))
    return parse_choice(line, ("true", "false"))
