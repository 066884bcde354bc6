"""Training of boosted trees for answer equivalence, with cross-validated probabilities."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from emend.evals.metrics.equivalence.trees import BoostedTrees, Floats, tree_of
from scripts.equivalence.examples import FOLDS, Example

SETTINGS: dict[str, Any] = {
    "learning_rate": 0.05,
    "max_iter": 300,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 30,
    "l2_regularization": 5.0,
    "max_features": 0.4,
    "random_state": 0,
}
MADE_WEIGHT = 0.5
"""Weight of an example made by rules, relative to one labelled by humans."""


RISING = frozenset(
    "recall|recall in first|recall of all|likeness|least likeness|names|names in first|plain words|"
    "numbers|closest number|dates|polarity|hit|hit in core|gold's gain|soft recall|"
    "least soft recall|cosine with gold".split("|")
)
FALLING = frozenset("abstains|hedges|hit denied|other numbers|other dates|vague words".split("|"))
"""Features that may only raise (`RISING`) or only lower (`FALLING`) the probability."""


class Sample(NamedTuple):
    """Features of examples with their names, labels, folds and weights."""

    names: tuple[str, ...]
    table: Floats
    right: NDArray[np.bool_]
    folds: NDArray[np.int64]
    weights: Floats
    labelled: NDArray[np.bool_]
    """True for examples labelled by humans."""


def sample_of(examples: Sequence[Example], names: Sequence[str], table: Floats, labelled: Sequence[bool]) -> Sample:
    """Return the sample of examples and their features."""
    by_people = np.asarray(labelled, bool)
    return Sample(
        tuple(names),
        table,
        np.asarray([example.right for example in examples], bool),
        np.asarray([example.fold for example in examples]),
        np.where(by_people, 1.0, MADE_WEIGHT),
        by_people,
    )


def fit_trees(sample: Sample, rows: NDArray[np.bool_]) -> BoostedTrees:
    """Return uncalibrated trees fitted to the selected rows of a sample."""
    signs = [(name in RISING) - (name in FALLING) for name in sample.names]
    model = HistGradientBoostingClassifier(monotonic_cst=signs, **SETTINGS)
    model.fit(sample.table[rows], sample.right[rows], sample_weight=sample.weights[rows])
    trees = [_columns(predictors[0].nodes) for predictors in model._predictors]
    bias = float(np.ravel(model._baseline_prediction)[0])
    return BoostedTrees(sample.names, tuple(map(tree_of, trees)), bias)


def _columns(nodes: Any) -> dict[str, list[float]]:
    """Return the nodes of a scikit-learn tree as columns."""
    leaf = nodes["is_leaf"].astype(bool)
    return {
        "feature": np.where(leaf, -1, nodes["feature_idx"]).tolist(),
        "threshold": np.where(leaf, 0.0, nodes["num_threshold"]).round(6).tolist(),
        "left": nodes["left"].tolist(),
        "right": nodes["right"].tolist(),
        "value": np.where(leaf, nodes["value"], 0.0).round(6).tolist(),
    }


def left_out_log_odds(sample: Sample) -> Floats:
    """Return the log-odds of each row by trees fitted without the row's fold."""
    odds = np.zeros(len(sample.table))
    for fold in range(FOLDS):
        trees = fit_trees(sample, sample.folds != fold)
        inside = sample.folds == fold
        odds[inside] = trees.log_odds(sample.table[inside])
    return odds


def calibrate(odds: Floats, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Return slope and offset of a logistic calibration."""
    model = LogisticRegression(C=1e6).fit(odds[:, None], right)
    return float(model.coef_[0, 0]), float(model.intercept_[0])


def calibrated_left_out(odds: Floats, sample: Sample) -> Floats:
    """Return probabilities of the human-labelled rows, each calibrated on the other folds."""
    probabilities = np.zeros(int(sample.labelled.sum()))
    odds, right = odds[sample.labelled], sample.right[sample.labelled]
    folds = sample.folds[sample.labelled]
    for fold in range(FOLDS):
        slope, offset = calibrate(odds[folds != fold], right[folds != fold])
        inside = folds == fold
        probabilities[inside] = 1 / (1 + np.exp(-(slope * odds[inside] + offset)))
    return probabilities
