"""Success and magnitude from log-probabilities, as DocTER's scoring code defines them, in log space.

ES, PS, CES and NEM, NPM, CEM compare the new target with the old one (is the edit said?); NS and NNM compare the old
one with the new one under unrelated prompts (is the rest left alone?). The definition is that of DocTER's scoring code
(H-shw/DocTER-Data-and-Code, eval_base/). Two things are ours: the ratio is taken on log-probabilities and not on
logarithms of products that may have underflowed, and the 1e-8 that the code adds in NNM is left out, because it makes
the ratio unbounded where both probabilities are nearly 1. `original=True` gives the code's own numbers, its exceptions
included.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

Pair = tuple[float, float]
"""Joint natural-log probabilities of (original target, altered target)."""

NNM_EPS = 1e-8


def success(gold: float, rival: float) -> float:
    """1.0 when `gold` is strictly more probable than `rival` (natural-log probabilities); a tie fails."""
    return float(gold > rival)


def magnitude(gold: float, rival: float) -> float:
    """By how much `gold` beats `rival`, as a share of the larger surprise.

    (gold - rival) / -min(gold, rival) on natural-log probabilities, in [-1, 1]: 1 when gold is certain and rival is
    not, 0 on a tie (both certain included), -1 when rival is certain and gold is not.
    """
    if gold == rival:
        return 0.0
    if math.isinf(min(gold, rival)):
        return 1.0 if gold > rival else -1.0
    return (gold - rival) / -min(gold, rival)


def original_success(gold: float, rival: float) -> float:
    """As `success`, compared as the code does, after exp(): two underflowed probabilities are a tie."""
    return float(math.exp(gold) > math.exp(rival))


def original_magnitude(gold: float, rival: float, eps: float = 0.0) -> float:
    """As `magnitude`, computed as the code does, from exp() and log() in float64.

    Its three exceptions give 0 and keep the pair in the denominator: either probability underflows to 0 (logarithm of
    zero) or both are 1 (division by zero). `eps` is added to log(gold), which the code does for NNM alone.
    """
    try:
        log_gold, log_rival = math.log(math.exp(gold)) + eps, math.log(math.exp(rival))
        return -(log_gold - log_rival) / min(log_gold, log_rival)
    except (ValueError, ZeroDivisionError):
        return 0.0


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
