"""DocTER's scores of whole blocks of pairs, put together as its code does, from `metrics.likelihood`."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from emend.evals.metrics.scores import NNM_EPS, magnitude, original_magnitude, original_success, success

Pair = tuple[float, float]
"""Joint natural-log probabilities of (original target, altered target)."""


def edit_success(pairs: Iterable[Pair], original: bool = False) -> float | None:
    """ES (query), PS (paraphrases), CES (cross-lingual queries): share with altered > original; None if empty."""
    beats = original_success if original else success
    return _mean(beats(new, old) for old, new in pairs)


def edit_magnitude(pairs: Iterable[Pair], original: bool = False) -> float | None:
    """NEM (query), NPM (paraphrases), CEM (cross-lingual queries): mean magnitude of altered over original."""
    by = original_magnitude if original else magnitude
    return _mean(by(new, old) for old, new in pairs)


def neighborhood_success(pairs: Iterable[Pair], original: bool = False) -> float | None:
    """NS: share of unrelated prompts with original > altered; None if empty."""
    beats = original_success if original else success
    return _mean(beats(old, new) for old, new in pairs)


def neighborhood_magnitude(pairs: Iterable[Pair], original: bool = False) -> float | None:
    """NNM: mean magnitude of original over altered; with `original` the code's eps of 1e-8 is in."""
    if original:
        return _mean(original_magnitude(old, new, NNM_EPS) for old, new in pairs)
    return _mean(magnitude(old, new) for old, new in pairs)


def accuracy(answers: Iterable[tuple[float, float, bool]]) -> float | None:
    """Acc: share of yes/no questions answered right, from (score of "true", score of "false", whether true is right).

    Scores are next-token log-probabilities or logits; equal ones are the code's UNK, which is never right.
    """
    return _mean(success(yes, no) if truth else success(no, yes) for yes, no, truth in answers)


PAIR_SCORES: Mapping[str, tuple[str, Callable[[Iterable[Pair], bool], float | None]]] = {
    "ES": ("edit_success", edit_success),
    "NEM": ("edit_success", edit_magnitude),
    "PS": ("paraphrase", edit_success),
    "NPM": ("paraphrase", edit_magnitude),
    "NS": ("locality", neighborhood_success),
    "NNM": ("locality", neighborhood_magnitude),
    "CES": ("cross_lingual", edit_success),
    "CEM": ("cross_lingual", edit_magnitude),
}
"""Score name -> (block of pairs it is taken over, function)."""


def docter_scores(blocks: Mapping[str, Sequence[Pair]], original: bool = False) -> dict[str, float | None]:
    """All pair scores as fractions, micro-averaged over the pairs of their block; None for an absent or empty block."""
    return {name: score(blocks.get(block, ()), original) for name, (block, score) in PAIR_SCORES.items()}


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.fsum(found) / len(found) if found else None
