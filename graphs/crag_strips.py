"""CRAG's knowledge refinement (Yan et al. 2024, section 4.4): passages are cut into strips, the relevant ones joined.

This follows the authors' code, except that a passage of under ten words is one strip in every mode (the code stops
there). As in the code, pieces of `excerption` are joined with nothing between them.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from emend.memory.retrieval.tokens import words

Mode = Literal["fixed_num", "excerption", "selection"]
TOP: dict[Mode, int] = {"fixed_num": 6, "excerption": 6, "selection": 3}
"""Number of strips that are kept, by mode."""
WINDOW, TAIL = 50, 10
PIECE_WORDS, GROUP = 5, 3
SHORT, WORST = 4, -1.0
"""A strip of fewer words than `SHORT` gets the `WORST` score without being evaluated."""
BETWEEN = "; "


class Recomposed(NamedTuple):
    """The kept strips joined, the indices of all strips from the best on, and the indices of those that were kept."""

    text: str
    order: tuple[int, ...]
    chosen: tuple[int, ...]


def decompose(passage: str, mode: Mode) -> list[str]:
    """The strips of a passage: windows of 50 words, groups of three sentences, or the passage whole."""
    if mode == "selection" or not passage.strip():
        return [passage]
    return _windows(passage) if mode == "fixed_num" else _excerpts(passage)


def _windows(passage: str) -> list[str]:
    """Strips of 50 words, split at single spaces; a tail of under ten words belongs to the strip before it."""
    tokens = passage.split(" ")
    strips = [tokens[start : start + WINDOW] for start in range(0, len(tokens), WINDOW)]
    if len(strips) > 1 and len(strips[-1]) < TAIL:
        strips[-2:] = [strips[-2] + strips[-1]]
    return [" ".join(strip) for strip in strips]


def _excerpts(passage: str) -> list[str]:
    """Strips of three sentences; repeats are left out, and short sentences joined to the one before."""
    pieces = dict.fromkeys(piece for part in passage.split("?") for piece in part.split(". ") if piece)
    glued: list[str] = []
    for piece in pieces:
        if glued and len(piece.split()) <= PIECE_WORDS:
            glued[-1] += piece
        else:
            glued.append(piece)
    return [" ".join(glued[start : start + GROUP]) for start in range(0, len(glued), GROUP)]


def too_short(strip: str) -> bool:
    """Return whether a strip has too few words to be scored; each Chinese or Japanese character counts as a word."""
    return len(words(strip)) < SHORT


def recompose(
    strips: Sequence[str],
    scores: Sequence[float],
    top: int,
    floor: float = float("-inf"),
    last: Sequence[bool] | None = None,
    least: float = float("inf"),
) -> Recomposed:
    """Join the best strips in the order of their scores; at most `top`, none under `floor`.

    Args:
        strips: the strips of all passages.
        scores: the evaluator's score of each strip.
        top: maximum number of strips.
        floor: minimum score of a strip; the paper names -0.5, the code has none.
        last: which strips come last whatever their score; as published those that are too short.
        least: if no strip reaches the floor, the best one is kept from this score on.
    """
    behind = [too_short(strip) for strip in strips] if last is None else last
    ranks = [WORST if short else score for short, score in zip(behind, scores, strict=True)]
    order = sorted(range(len(strips)), key=lambda place: -ranks[place])
    chosen = tuple(place for place in order[:top] if scores[place] >= floor)
    if not chosen and order and ranks[order[0]] >= least:
        chosen = (order[0],)
    return Recomposed(BETWEEN.join(strips[place] for place in chosen), tuple(order), chosen)
