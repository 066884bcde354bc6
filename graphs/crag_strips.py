"""Knowledge refinement of CRAG: cut passages into strips, and join the relevant strips.

This follows section 4.4 of Yan et al. (2024) and the authors' code. A passage of fewer than ten
words is one strip in every mode; the authors' code fails on it. As in their code, the mode
`excerption` appends a short sentence to the one before without a space.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from emend.memory.retrieval.tokens import words

Mode = Literal["fixed_num", "excerption", "selection"]
# Number of strips to keep, by mode.
TOP: dict[Mode, int] = {"fixed_num": 6, "excerption": 6, "selection": 3}
WINDOW, TAIL = 50, 10
PIECE_WORDS, GROUP = 5, 3
# A strip of fewer words than `SHORT` gets the `WORST` score without being evaluated.
SHORT, WORST = 4, -1.0
BETWEEN = "; "


class Recomposed(NamedTuple):
    """Joined text of the kept strips, and the indices of all strips and of the kept ones.

    Both tuples of indices are in descending order of score.
    """

    text: str
    order: tuple[int, ...]
    chosen: tuple[int, ...]


def decompose(passage: str, mode: Mode) -> list[str]:
    """Return the strips of a passage: by mode, windows of 50 words, groups of three sentences, or
    the whole passage.
    """
    if mode == "selection" or not passage.strip():
        return [passage]
    return _windows(passage) if mode == "fixed_num" else _excerpts(passage)


def _windows(passage: str) -> list[str]:
    """Return strips of 50 words, split at single spaces; a last strip of fewer than ten words is
    merged with the one before.
    """
    tokens = passage.split(" ")
    strips = [tokens[start : start + WINDOW] for start in range(0, len(tokens), WINDOW)]
    if len(strips) > 1 and len(strips[-1]) < TAIL:
        strips[-2:] = [strips[-2] + strips[-1]]
    return [" ".join(strip) for strip in strips]


def _excerpts(passage: str) -> list[str]:
    """Return strips of three sentences, without repeated sentences; a sentence of at most five
    words is appended to the one before.
    """
    pieces = dict.fromkeys(
        piece for part in passage.split("?") for piece in part.split(". ") if piece
    )
    glued: list[str] = []
    for piece in pieces:
        if glued and len(piece.split()) <= PIECE_WORDS:
            glued[-1] += piece
        else:
            glued.append(piece)
    return [" ".join(glued[start : start + GROUP]) for start in range(0, len(glued), GROUP)]


def too_short(strip: str) -> bool:
    """Return whether a strip has too few words to be scored; each Chinese or Japanese character
    counts as a word.
    """
    return len(words(strip)) < SHORT


def recompose(
    strips: Sequence[str],
    scores: Sequence[float],
    top: int,
    floor: float = float("-inf"),
    last: Sequence[bool] | None = None,
    least: float = float("inf"),
) -> Recomposed:
    """Join the best strips, in descending order of score.

    Args:
        strips: strips of all passages.
        scores: the evaluator's score of each strip.
        top: maximum number of strips to keep.
        floor: minimum score of a kept strip; -0.5 in the paper, none in the authors' code.
        last: flags of strips to rank last regardless of their score; by default, as published,
            those that are too short.
        least: minimum score at which the best strip is kept although no strip reaches the floor.
    """
    behind = [too_short(strip) for strip in strips] if last is None else last
    ranks = [WORST if short else score for short, score in zip(behind, scores, strict=True)]
    order = sorted(range(len(strips)), key=lambda place: -ranks[place])
    chosen = tuple(place for place in order[:top] if scores[place] >= floor)
    if not chosen and order and ranks[order[0]] >= least:
        chosen = (order[0],)
    return Recomposed(BETWEEN.join(strips[place] for place in chosen), tuple(order), chosen)
