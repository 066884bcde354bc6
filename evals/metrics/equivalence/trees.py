"""Boosted decision trees stored as JSON and evaluated with numpy."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tree:
    """A decision tree as arrays with one entry per node, the root first.

    Attributes:
        feature: the column that a node compares; -1 for a leaf.
        threshold: the maximum value that goes left.
        left: index of the left child.
        right: index of the right child.
        value: the log-odds added by a leaf.
    """

    feature: NDArray[np.int64]
    threshold: Floats
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: Floats

    def __call__(self, table: Floats) -> Floats:
        """Return the log-odds added by the tree, shape (rows,)."""
        nodes = np.zeros(len(table), np.int64)
        rows = np.arange(len(table))
        while (inner := self.feature[nodes] >= 0).any():
            here = nodes[inner]
            values = table[rows[inner], self.feature[here]]
            goes_left = values <= self.threshold[here]
            nodes[inner] = np.where(goes_left, self.left[here], self.right[here])
        return self.value[nodes]


@dataclass(frozen=True)
class BoostedTrees:
    """A sum of trees with calibrated probabilities.

    Attributes:
        features: names of the columns.
        trees: the trees.
        bias: log-odds before the trees.
        slope: factor on the log-odds in calibration.
        offset: log-odds added in calibration.
    """

    features: tuple[str, ...]
    trees: tuple[Tree, ...]
    bias: float
    slope: float = 1.0
    offset: float = 0.0

    def log_odds(self, table: Floats) -> Floats:
        """Return log-odds before calibration, shape (rows,)."""
        total = np.full(len(table), self.bias)
        for tree in self.trees:
            total += tree(table)
        return total

    def probabilities(self, table: Floats) -> Floats:
        """Return calibrated probabilities, shape (rows,)."""
        odds = np.clip(self.slope * self.log_odds(table) + self.offset, -30, 30)
        return np.asarray(1 / (1 + np.exp(-odds)), np.float64)


def tree_of(columns: Mapping[str, list[float]]) -> Tree:
    """Return a tree from its JSON columns."""
    whole = {name: np.asarray(columns[name], np.int64) for name in ("feature", "left", "right")}
    return Tree(
        whole["feature"],
        np.asarray(columns["threshold"], np.float64),
        whole["left"],
        whole["right"],
        np.asarray(columns["value"], np.float64),
    )


def read_weights(path: Path) -> tuple[BoostedTrees, dict[str, Any]]:
    """Return the trees in a weights file, and its other entries."""
    entries: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    trees = tuple(tree_of(columns) for columns in entries.pop("trees"))
    features = tuple(entries.pop("features"))
    numbers = {name: float(entries.pop(name)) for name in ("bias", "slope", "offset")}
    return BoostedTrees(features, trees, **numbers), entries
