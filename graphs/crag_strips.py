"""CRAG's knowledge refinement (Yan et al. 2024, section 4.4): passages are cut into strips, the relevant ones joined.

As the authors' code has it, except that a passage of under ten words is one strip in every mode (the code stops there),
and that pieces of `excerption` are glued with nothing between them, as there.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from emend.memory.retrieval.bm25 import words

Mode = Literal["fixed_num", "excerption", "selection"]
MODES: tuple[Mode, ...] = ("fixed_num", "excerption", "selection")
TOP = {"fixed_num": 6, "excerption": 6, "selection": 3}
"""How many strips are kept, by mode."""
WINDOW, TAIL = 50, 10
PIECE, GROUP = 5, 3
SHORT, WORST = 4, -1.0
"""A strip of fewer words scores worst without being asked about."""
BETWEEN = "; "


class Recomposed(NamedTuple):
    """The kept strips joined, the places of all from the best on, and the places of those that were kept."""

    text: str
    order: tuple[int, ...]
    kept: tuple[int, ...]


def decompose(passage: str, mode: Mode) -> list[str]:
    """The strips of a passage: windows of 50 words, groups of three sentences, or the passage whole."""
    if mode == "selection" or not passage.strip():
        return [passage]
    return _windows(passage) if mode == "fixed_num" else _excerpts(passage)


def _windows(passage: str) -> list[str]:
    """50 words each, split at single spaces; a tail of under ten words belongs to the strip before it."""
    told = passage.split(" ")
    strips = [told[start : start + WINDOW] for start in range(0, len(told), WINDOW)]
    if len(strips) > 1 and len(strips[-1]) < TAIL:
        strips[-2:] = [strips[-2] + strips[-1]]
    return [" ".join(strip) for strip in strips]


def _excerpts(passage: str) -> list[str]:
    """Sentences without repeats, short ones glued to the one before, three of them a strip."""
    pieces: list[str] = []
    for asked in passage.split("?"):
        for piece in asked.split(". "):
            if piece and piece not in pieces:
                pieces.append(piece)
    glued: list[str] = []
    for piece in pieces:
        if glued and len(piece.split()) <= PIECE:
            glued[-1] += piece
        else:
            glued.append(piece)
    return [" ".join(glued[start : start + GROUP]) for start in range(0, len(glued), GROUP)]


def too_short(strip: str) -> bool:
    """Whether a strip has too few words to be scored; each Chinese or Japanese character counts as one."""
    return len(words(strip)) < SHORT


def recompose(
    strips: Sequence[str],
    scores: Sequence[float],
    top: int,
    floor: float = float("-inf"),
    last: Sequence[bool] | None = None,
    least: float = float("inf"),
) -> Recomposed:
    """The best strips in the order of their scores, equal ones in theirs; at most `top`, none under `floor`.

    Args:
        strips: of all passages.
        scores: of the evaluator, one each.
        top: how many are kept.
        floor: the least score that a strip was given itself; the paper names -0.5, the code has none.
        last: which strips come last whatever their score; as published those that are too short.
        least: from here on the best strip is kept where no strip reaches the floor.
    """
    behind = [too_short(strip) for strip in strips] if last is None else last
    told = [WORST if short else score for short, score in zip(behind, scores, strict=True)]
    order = sorted(range(len(strips)), key=lambda place: -told[place])
    kept = tuple(place for place in order[:top] if scores[place] >= floor)
    if not kept and order and told[order[0]] >= least:
        kept = (order[0],)
    return Recomposed(BETWEEN.join(strips[place] for place in kept), tuple(order), kept)
