"""Check of a judge's verdict of equivalence: the reply must contain the specifics of a gold
answer.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from emend.agents.judging.specifics import LEAST, best_coverage, coverage
from emend.memory.retrieval.tokens import words
from emend.memory.typography import fold_text

VAGUE = "the reply lacks the specifics of the gold answer"
NOT_QUOTED = "the quoted words do not stand in the reply"
EMPTY_QUOTE = "the quoted words give no specific of the gold answer"
_OMISSION = re.compile(r"\.{3}|…|\[\.\.\.\]|\n")


class Compared(NamedTuple):
    """A reply to a question, and the gold answers (the correct one and its aliases) to compare it
    with.
    """

    question: str
    golds: tuple[str, ...]
    reply: str


def find_doubt(compared: Compared, quote: str = "") -> str:
    """Return why the words of a reply do not support that it means a gold answer; "" if they do.

    Args:
        compared: the question, the gold answers and the reply.
        quote: the words of the reply quoted by a judge; if empty, only the reply is checked.
    """
    question, golds, reply = compared
    if best_coverage(question, golds, reply).share < LEAST:
        return VAGUE
    if not quote.strip():
        return ""
    standing = " ".join(standing_pieces(quote, reply))
    if not standing and not _is_reworded(quote, reply):
        return NOT_QUOTED
    standing = standing or quote
    return "" if best_coverage(question, golds, standing).share > 0 else EMPTY_QUOTE


def _is_reworded(quote: str, reply: str) -> bool:
    """Return whether the reply has all content of a quotation in another order or form, as small
    models quote.
    """
    covered = coverage("", quote, reply)
    return bool(covered.present) and not covered.absent


def standing_pieces(quote: str, reply: str) -> Iterator[str]:
    """Yield the pieces of a quotation, separated by `...` or line breaks, that occur in the reply.

    Typography, case and punctuation are ignored; the words must be contiguous and in order.

    >>> [*standing_pieces("in the “City” of light ... Rome", "It is in the city of Light.")]
    ['in the “City” of light']
    """
    spoken = f" {' '.join(words(fold_text(reply)))} "
    for piece in _OMISSION.split(quote):
        quoted = " ".join(words(fold_text(piece)))
        if quoted and f" {quoted} " in spoken:
            yield piece.strip()
