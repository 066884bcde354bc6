"""AlphaEdit (Fang et al. 2025): editing in the null space of usual keys."""

import logging
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from emend.editors.base import EditorContext
from emend.editors.numerics.factorise import on_device
from emend.editors.numerics.key_sums import key_size
from emend.editors.numerics.low_rank import LowRankDelta
from emend.editors.parametric.locate_then_edit import LocateThenEditSettings
from emend.editors.parametric.memit import Memit
from emend.memory.errors import BadSettings

# Fraction of the dimensions above which a null space protects nothing.
NEARLY_WHOLE = 0.95


@dataclass(frozen=True)
class AlphaEditSettings(LocateThenEditSettings):
    """AlphaEdit's settings."""

    nullspace_threshold: Annotated[float, Field(gt=0)] = 2e-2
    """Threshold of the covariance's eigenvalues; eigenvectors below it span the null space."""
    L2: Annotated[float, Field(gt=0)] = 10.0
    """Weight of the L2 penalty on the update."""


class AlphaEdit(Memit):
    """AlphaEdit editor: MEMIT projected onto the null space of the covariance.

    In a sequence, the keys of earlier edits are preserved too.
    """

    name: ClassVar[str] = "alphaedit"
    schema: ClassVar[type[LocateThenEditSettings]] = AlphaEditSettings
    settings: AlphaEditSettings  # type: ignore[assignment]

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self._warned = False

    def factorise(self) -> None:
        """Compute the null spaces; no inverse is needed."""
        if self.covariance.folder is not None:
            for layer in self.layers:
                size = key_size(self.lm, self.paths, layer)
                self.covariance.null_space(layer, size, self.settings.nullspace_threshold)

    def layer_update(self, layer: int, keys: Tensor, residual: Tensor) -> LowRankDelta:
        """Return the update R K^T P [(K K^T + K_p K_p^T) P + L2]^-1, with one unknown per key.

        Args:
            layer: the layer whose covariance gives the projection P.
            keys: K^T, shape (edits, inputs).
            residual: R^T, the outputs to be added, shape (edits, outputs), float64.
        """
        basis = self._basis(layer, keys.shape[1])
        tensors = basis, keys.double(), self.earlier_keys(layer, keys)
        return LowRankDelta(residual.T, on_device(self.lm.device, self._projected, *tensors))

    def _projected(self, basis: Tensor, keys: Tensor, earlier: Tensor) -> Tensor:
        """Return K^T P [(K K^T + K_p K_p^T) P + L2]^-1, shape (edits, inputs)."""
        inside = keys @ basis
        everything = torch.cat([inside, earlier @ basis])
        # (A^T A + L2)^-1 K = [K - A^T (A A^T + L2)^-1 A K] / L2, with the rows of A all keys in the
        # null space
        inner = everything @ everything.T + self.settings.L2 * torch.eye(
            len(everything), dtype=inside.dtype, device=inside.device
        )
        solved: Tensor = (
            inside - (torch.linalg.solve(inner, everything @ inside.T)).T @ everything
        ) / self.settings.L2
        return solved @ basis.T

    def _basis(self, layer: int, size: int) -> Tensor:
        """Return a basis of the null space of a layer's covariance, shape (inputs, rank).

        Raises:
            BadSettings: the null space is empty, so that an edit would change nothing.
        """
        threshold = self.settings.nullspace_threshold
        basis = self.covariance.null_space(layer, size, threshold)
        if not basis.shape[1]:
            least = float(torch.linalg.eigvalsh(self.covariance.matrix(layer, size))[0])
            raise BadSettings(
                f"editor 'alphaedit' can change nothing in layer {layer}: no eigenvalue of its "
                f"covariance ('{self.settings.covariance}') is below "
                f"alphaedit.nullspace_threshold={threshold:g}, the smallest is {least:.3g}. Set "
                "alphaedit.nullspace_threshold above it, or name another covariance."
            )
        if basis.shape[1] > NEARLY_WHOLE * size and not self._warned:
            self._warned = True
            logging.getLogger(__name__).warning(
                "alphaedit: in layer %d, %d of %d directions count as null space, so little is "
                "protected: set alphaedit.nullspace_threshold lower than %g, or collect the "
                "covariance over more text",
                layer,
                basis.shape[1],
                size,
                threshold,
            )
        return basis
