"""Factorisations of a key covariance: Cholesky factor (ROME, MEMIT) and null space (AlphaEdit)."""

from collections.abc import Callable

import torch
from torch import Tensor

LinAlgError: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]  # is there, if unlisted
ROUNDING = 1e-8
"""A ridge, in shares of the diagonal's mean, that compensates for sums in single precision; no sign of little text."""


def on_device(device: torch.device, compute: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """A result in float64, on the CPU; computed on a GPU where the device is one and has the memory."""
    if device.type == "cuda":
        try:
            return compute(*(tensor.to(device) for tensor in tensors)).cpu()
        except torch.OutOfMemoryError:
            pass  # what was moved is freed with the exception
    return compute(*(tensor.cpu() for tensor in tensors))


def cholesky(matrix: Tensor) -> tuple[Tensor, float]:
    """The Cholesky factor, and the ridge that was added to the diagonal, in shares of the diagonal's mean.

    A matrix of too few tokens is singular and needs a ridge.

    Raises:
        LinAlgError: the largest ridge does not suffice either.
    """
    size = matrix.diagonal().mean()
    factor: Tensor
    for ridge in (0.0, ROUNDING, 1e-6, 1e-4):
        identity = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
        factor, failed = torch.linalg.cholesky_ex(matrix + ridge * size * identity)
        if not failed and factor.diagonal().min() > 1e-6 * size.sqrt():
            return factor, ridge
    raise LinAlgError("it has no inverse")


def null_space(matrix: Tensor, below: float) -> Tensor:
    """The eigenvectors with eigenvalues under `below`, as columns."""
    values, vectors = torch.linalg.eigh(matrix)
    inside: Tensor = vectors[:, values < below]
    return inside
