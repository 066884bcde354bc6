"""What editors make of a second moment: its Cholesky factor, to solve with, or its null space, to write in."""

import torch
from torch import Tensor

LinAlgError: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]  # is there, if unlisted
ROUNDING = 1e-8
"""A ridge, in shares of the diagonal's mean, that makes up for sums in single precision; it tells nothing of a text."""


def cholesky(moment: Tensor) -> tuple[Tensor, float]:
    """The Cholesky factor; a moment of too few tokens has no inverse and gets a little, returned too, on its diagonal.

    The little is told in shares of the diagonal's mean.

    Raises:
        LinAlgError: that does not give it one either.
    """
    size = moment.diagonal().mean()
    factor: Tensor
    for ridge in (0.0, ROUNDING, 1e-6, 1e-4):
        factor, failed = torch.linalg.cholesky_ex(moment + ridge * size * torch.eye(len(moment), dtype=torch.float64))
        if not failed and factor.diagonal().min() > 1e-6 * size.sqrt():
            return factor, ridge
    raise LinAlgError("there is no inverse")


def null_space(moment: Tensor, below: float) -> Tensor:
    """Its eigenvectors with eigenvalues under `below`, as columns."""
    values, vectors = torch.linalg.eigh(moment)
    inside: Tensor = vectors[:, values < below]
    return inside
