"""Focusing of a query on its question: sentences before the last one are dropped."""

import re
from collections.abc import Callable

from emend.memory.retrieval.base import Corpus, Hit, Retriever
from emend.memory.retrieval.hybrid import Hybrid
from emend.memory.text_pieces import CLOSERS, SENTENCE_ENDS

_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+\s++"
    rf"|[{SENTENCE_ENDS}]++[{CLOSERS}]*+\s*+|\n\s*+"
)
_BREAKS = re.compile(r"[\s(\[\"'“‘«]")
# Maximum length of a last word that is checked for being an abbreviation; those before names and
# numbers are short.
_LONGEST = 32
_CUE = re.compile(
    r"\W*(?:(?:short |final |your )?answer|a|response|reply|答案?|回答)\s*[:：]?\W*", re.I
)
_INSTRUCTION = re.compile(
    r"\W*(?:please\s+)?(?:answer|reply|respond|be (?:brief|concise|short)"
    r"|(?:give|write|state) (?:me )?(?:only|just|your|the)|in (?:one|a few) (?:word|sentence)s?"
    r"|(?:let's )?think (?:step|carefully)|explain (?:your|why))\b"
    r"|\W*请?[^。？?]{0,12}(?:回答|作答|简短)",
    re.I,
)
_ASKS = re.compile(r"[?？؟⸮][\"'”’»)\]]*\Z")
_INITIALS = re.compile(r"[^\W\d_](\.[^\W\d_])*")
_BEFORE_NAMES = frozenset(
    "capt col dr e.g feat fr ft gen gov hon i.e lt mr mrs ms mt prof rep rev sen sgt st vs mme "
    "mlle".split()
)
_BEFORE_NUMBERS = frozenset("ca ch ed fig no nos op p pp pt vol".split())
_ENDS_NAMES = frozenset({"a.d", "a.f.c", "a.m", "b.c", "d.c", "f.c", "i", "p.m"})
_POINTS_BACK = re.compile(
    r"\W*+(?:(?:he|she|it|they|his|her|its|their|this|that|these|those)\b|[他她它这這那]|\Z)", re.I
)


def sentences(text: str) -> list[str]:
    """Split a text into sentences and fragments; abbreviations, initials and `No. 5` do not end
    one.
    """
    parts, start = [], 0
    for end in _END.finditer(text):
        if _ends(text[start : end.start()], end.group(), text[end.end() : end.end() + 1]):
            parts.append(text[start : end.end()].strip())
            start = end.end()
    return [sentence for sentence in [*parts, text[start:].strip()] if sentence]


def _ends(before: str, mark: str, after: str) -> bool:
    if not mark.startswith(".") or mark.startswith(".."):
        return not mark.startswith(("!", "?", ".", "…")) or not after.islower()
    word = _BREAKS.split(before[-_LONGEST:])[-1].lower()
    if after.islower() or word in _BEFORE_NAMES or (word in _BEFORE_NUMBERS and after.isdigit()):
        return False
    return word in _ENDS_NAMES or not _INITIALS.fullmatch(word)


def focused(query: str) -> str:
    """Return the last sentence or fragment, preceded by earlier ones as long as it begins with a
    pronoun.
    """
    parts = sentences(query)
    if len(parts) < 2:
        return query
    parts = _without_cues(parts)
    at = len(parts) - 1
    while at > 0 and _POINTS_BACK.match(parts[at]):
        at -= 1
    return " ".join(parts[at:])


def _without_cues(parts: list[str]) -> list[str]:
    """Drop a cue (`Answer:`) at the end, or an instruction after a question."""
    end = len(parts)
    while end > 1 and _CUE.fullmatch(parts[end - 1]):
        end -= 1
    at = end
    while at > 1 and _INSTRUCTION.match(parts[at - 1]) and not _ASKS.search(parts[at - 1]):
        at -= 1
    return parts[: at if _ASKS.search(parts[at - 1]) else end]


class Focus:
    """Another strategy, applied to the focused query.

    Args:
        corpus: the entries to search.
        inner: the factory of the strategy that searches.
    """

    def __init__(self, corpus: Corpus, inner: Callable[[Corpus], Retriever] = Hybrid) -> None:
        self._inner = inner(corpus)

    def search(self, query: str, k: int) -> list[Hit]:
        """The inner strategy's hits for the last sentence of the query."""
        return self._inner.search(focused(query), k)
