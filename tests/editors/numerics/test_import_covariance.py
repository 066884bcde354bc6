"""Published covariances, as the code of ROME writes them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from emend.editors.numerics.import_covariance import layers_of_names, read_npz
from emend.memory.errors import BadData, BadSettings

KEYS = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
SUMS = KEYS.T @ KEYS


def written(folder: Path, **changed) -> Path:
    """A file of one layer with other arrays."""
    file = folder / "transformer.h.17.mlp.c_proj_float32_mom2_100000.npz"
    arrays = {"mom2.mom2": SUMS, "mom2.count": np.asarray(50), "mom2.constructor": np.asarray("SecondMoment()")}
    np.savez(file, **{name: array for name, array in (arrays | changed).items() if array is not None})
    return file


def test_the_mean_of_products_is_read(tmp_path):
    moment, tokens = read_npz(written(tmp_path), 6)
    assert tokens == 50 and torch.allclose(moment, torch.from_numpy(SUMS / 50)) and moment.dtype == torch.float32
    hostile = written(tmp_path, **{"mom2.constructor": np.asarray([object()])})
    assert torch.equal(read_npz(hostile, 6).moment, moment), "the constructor is not looked at"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"mom2.mom2": np.eye(5)}, r"shape \(5, 5\), but the keys of this model's layer have 6"),
        ({"mom2.mom2": np.eye(6, dtype=np.int64)}, "int64"),
        ({"mom2.mom2": None}, "not a covariance as ROME's code writes it"),
        ({"mom2.count": None}, "not a covariance as ROME's code writes it"),
        ({"mom2.count": np.asarray([object()])}, "not a covariance as ROME's code writes it"),
        ({"mom2.count": np.asarray([5, 6])}, "not a covariance as ROME's code writes it"),
        ({"mom2.count": np.zeros(1000)}, "no single number"),
        ({"mom2.count": np.asarray(0)}, "0 keys"),
        ({"mom2.mom2": SUMS + np.triu(np.ones((6, 6)))}, "not symmetric"),
        ({"mom2.mom2": -SUMS}, "negative"),
        ({"mom2.mom2": SUMS * np.nan}, "largest number nan"),
    ],
)
def test_what_is_no_covariance_is_refused(tmp_path, changed, problem):
    with pytest.raises(BadData, match=problem):
        read_npz(written(tmp_path, **changed), 6)


def test_layers_are_named_by_files_or_asked_for():
    names = ["model.layers.4.mlp.down_proj_float32_mom2_100000.npz", "transformer.h.17.mlp.c_proj.npz"]
    assert layers_of_names([Path(name) for name in names]) == [4, 17]
    with pytest.raises(BadSettings, match="'stats.npz' has no layer number"):
        layers_of_names([Path("stats.npz")])
