"""Factorisations of a key covariance: Cholesky factor (ROME, MEMIT) and null space (AlphaEdit)."""

from collections.abc import Callable

import torch
from torch import Tensor

# exported at runtime, but missing from torch's type stubs
LinAlgError: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]
# A ridge, relative to the diagonal's mean, that compensates for sums in single precision; needing
# it does not mean that there was too little text.
ROUNDING = 1e-8


def on_device(device: torch.device, compute: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Compute a result on a GPU if `device` is one and has the memory, otherwise on the CPU.

    The result is on the CPU.
    """
    if device.type == "cuda":
        try:
            return compute(*(tensor.to(device) for tensor in tensors)).cpu()
        except torch.OutOfMemoryError:
            pass  # the moved tensors are freed with the exception
    return compute(*(tensor.cpu() for tensor in tensors))


def cholesky(matrix: Tensor) -> tuple[Tensor, float]:
    """Return the Cholesky factor, and the ridge relative to the diagonal's mean.

    The covariance of too few tokens is singular and needs a ridge.

    Raises:
        LinAlgError: the largest ridge is not sufficient either.
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
    """Return the eigenvectors with eigenvalues less than `below`, as columns."""
    values, vectors = torch.linalg.eigh(matrix)
    inside: Tensor = vectors[:, values < below]
    return inside
