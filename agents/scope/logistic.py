"""A logistic regression whose weights are held to a prior, for thousands of examples and hundreds of features."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

ROUNDS, CG_ROUNDS = 30, 60
CLOSE = 1e-3
"""A step, a relative error, or a gain in log-likelihood over all examples, that is small enough to stop at."""


def sigmoid(scores: Any) -> Floats:
    """Log-odds as probabilities."""
    return np.asarray(1 / (1 + np.exp(-np.clip(scores, -30, 30))), np.float32)


def fit(
    features: Floats, labels: Floats, prior: NDArray[np.float64], ridge: float = 1.0, start: Floats | None = None
) -> Floats:
    """Weights of a logistic regression by Newton's method, held to a prior.

    Args:
        features: shape (pairs, features).
        labels: 1 in scope, 0 out of it; shape (pairs,).
        prior: what the weights are held to; shape (features,).
        ridge: how strongly: half of it times the squared distance is added to the loss.
        start: weights to begin with, instead of the prior; the end does not depend on them, the loss being convex.
    """
    weights = prior.copy() if start is None else start.astype(np.float64)

    def loss(at: NDArray[np.float64]) -> float:
        odds = (features @ at.astype(np.float32)).astype(np.float64)
        return float(np.sum(np.logaddexp(0, odds) - labels * odds) + ridge / 2 * np.sum((at - prior) ** 2))

    now = loss(weights)
    for _ in range(ROUNDS):
        told = sigmoid(features @ weights.astype(np.float32))
        slope = (features.T @ (told - labels)).astype(np.float64) + ridge * (weights - prior)
        step = _solve(features, told * (1 - told), ridge, slope)
        while (after := loss(weights - step)) > now and np.abs(step).max() > CLOSE:
            step /= 2  # a full step may overshoot far from the end
        if after > now - CLOSE * max(1.0, now * CLOSE):
            break
        weights, now = weights - step, after
    return weights.astype(np.float32)


def _solve(features: Floats, spread: Floats, ridge: float, slope: NDArray[np.float64]) -> NDArray[np.float64]:
    """Newton's step, by conjugate gradients: the matrix of all products is never made."""
    diagonal = ((features**2).T @ spread).astype(np.float64) + ridge
    step, left = np.zeros_like(slope), slope.copy()
    way = left / diagonal
    size = left @ way
    enough = CLOSE**2 * size
    for _ in range(CG_ROUNDS):
        if size <= enough:
            break
        bent = (features.T @ (spread * (features @ way.astype(np.float32)))).astype(np.float64) + ridge * way
        length = size / (way @ bent)
        step, left = step + length * way, left - length * bent
        ahead = left / diagonal
        before, size = size, left @ ahead
        way = ahead + size / before * way
    return step
