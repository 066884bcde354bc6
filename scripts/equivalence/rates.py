"""Acceptance rates of replies at a threshold, and calibration of probabilities."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.metrics.equivalence.trees import Floats

Labels = NDArray[np.bool_]


def rates_by_set(probabilities: Floats, right: Labels, sets: Sequence[str], threshold: float) -> dict[str, float]:
    """Return accuracy and rate of wrongly accepted replies, by data set and over all replies."""
    accepted = probabilities >= threshold
    names = np.asarray(sets)
    inside = [names == name for name in dict.fromkeys(sets)]
    return {
        "mean accuracy": _mean([(accepted[rows] == right[rows]).mean() for rows in inside]),
        "mean wrong accepted": _mean([accepted[rows & ~right].mean() for rows in inside]),
        "accuracy": float((accepted == right).mean()),
        "wrong accepted": float(accepted[~right].mean()),
        "right lost": float(1 - accepted[right].mean()),
        "calibration error": calibration_error(probabilities, right),
    }


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


class Bin(NamedTuple):
    """One bin of a reliability diagram: size, mean probability, and fraction of right replies."""

    size: int
    probability: float
    right: float


def reliability(probabilities: Floats, right: Labels, bins: int = 10) -> Iterator[Bin]:
    """Yield the non-empty bins of a reliability diagram; all have equal width."""
    numbers = np.minimum((probabilities * bins).astype(int), bins - 1)
    for number in range(bins):
        inside = numbers == number
        if inside.any():
            mean = float(probabilities[inside].mean())
            yield Bin(int(inside.sum()), mean, float(right[inside].mean()))


def calibration_error(probabilities: Floats, right: Labels) -> float:
    """Return the expected calibration error over ten bins of equal width (Guo et al. 2017)."""
    gaps = [size * abs(probability - share) for size, probability, share in reliability(probabilities, right)]
    return float(sum(gaps) / len(right))
