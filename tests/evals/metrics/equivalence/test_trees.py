"""Boosted trees as JSON."""

import json

import numpy as np
import pytest

from emend.evals.metrics.equivalence.trees import read_weights

STUMP = {
    "feature": [1, -1, -1],
    "threshold": [0.5, 0.0, 0.0],
    "left": [1, 0, 0],
    "right": [2, 0, 0],
    "value": [0.0, -2.0, 3.0],
}


def test_trees_of_a_file_add_the_log_odds_of_their_leaves(tmp_path):
    entries = {"features": ["a", "b"], "bias": 0.5, "slope": 2.0, "offset": 1.0, "name": "toy"}
    path = tmp_path / "weights.json"
    path.write_text(json.dumps(entries | {"trees": [STUMP, STUMP]}))
    trees, rest = read_weights(path)
    table = np.asarray([[9.0, 0.5], [9.0, 0.6]])
    assert trees.log_odds(table).tolist() == [-3.5, 6.5]
    assert trees.probabilities(table) == pytest.approx([1 / (1 + np.exp(6)), 1 / (1 + np.exp(-14))])
    assert rest == {"name": "toy"}
