"""Logistic regression with a Gaussian prior around given weights, fitted by Newton's method from scipy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.float32]


def sigmoid(scores: Any) -> Floats:
    """Log-odds as probabilities."""
    return np.asarray(1 / (1 + np.exp(-np.clip(scores, -30, 30))), np.float32)


def fit(
    features: Floats, labels: Floats, prior: NDArray[np.float64], ridge: float = 1.0, start: Floats | None = None
) -> Floats:
    """Weights of a logistic regression, held to a prior (scikit-learn's can only be held to 0).

    Args:
        features: shape (pairs, features).
        labels: 1 in scope, 0 out of it; shape (pairs,).
        prior: the mean of the Gaussian prior; shape (features,).
        ridge: its strength: half of it times the squared distance is added to the loss.
        start: initial weights instead of the prior; the loss is convex, so the result does not depend on them.
    """
    labels = labels.astype(np.float64)

    def odds(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return (features @ weights.astype(np.float32)).astype(np.float64)

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores, away = odds(weights), weights - prior
        total = np.sum(np.logaddexp(0, scores) - labels * scores) + ridge / 2 * np.sum(away**2)
        return float(total), features.T @ (sigmoid(scores) - labels).astype(np.float32) + ridge * away

    def curvature(weights: NDArray[np.float64], direction: NDArray[np.float64]) -> NDArray[np.float64]:
        share = sigmoid(odds(weights))
        along = share * (1 - share) * (features @ direction.astype(np.float32))
        return np.asarray(features.T @ along + ridge * direction, np.float64)

    begin = prior if start is None else start.astype(np.float64)
    fitted = minimize(loss, begin, jac=True, hessp=curvature, method="Newton-CG", options={"xtol": 1e-5})
    return np.asarray(fitted.x, np.float32)
