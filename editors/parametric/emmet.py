"""Equality-constrained mass editing (Gupta et al. 2024, EMMET): ROME's constraint for a batch of edits."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from emend.editors.numerics.low_rank import LowRankDelta
from emend.editors.parametric.locate_then_edit import LocateThenEditSettings
from emend.editors.parametric.memit import Memit


@dataclass(frozen=True)
class EmmetSettings(LocateThenEditSettings):
    """EMMET's settings; `layers` ascend, and values are searched for at the last of them."""

    mom2_update_weight: Annotated[float, Field(gt=0)] = 1.0
    """Weight of the covariance."""
    emmet_lambda: Annotated[float, Field(ge=0)] = 0.1
    """Added to the diagonal of the edits' own matrix: 0 gives each edit exactly its value, if their keys differ."""


class Emmet(Memit):
    """Gives each key its value, where `memit` weighs values against usual keys."""

    name: ClassVar[str] = "emmet"
    schema: ClassVar[type[LocateThenEditSettings]] = EmmetSettings
    settings: EmmetSettings  # type: ignore[assignment]

    def layer_update(self, layer: int, keys: Tensor, residual: Tensor) -> LowRankDelta:
        """The update R (K^T C^-1 K + lambda)^-1 K^T C^-1 with C the weighted covariance (eq. 11).

        Args:
            layer: the layer whose covariance is used.
            keys: K^T, shape (edits, inputs).
            residual: R^T, what the layer has to add, shape (edits, outputs), float64.
        """
        solved = self.covariance.solve(layer, keys.T) / self.settings.mom2_update_weight
        inner = keys.double() @ solved + self.settings.emmet_lambda * torch.eye(len(keys), dtype=torch.float64)
        if self.settings.emmet_lambda:
            return LowRankDelta(torch.linalg.solve(inner, residual).T, solved.T)
        # Edits of one subject may share a key, so that the matrix is singular; they get the mean of their values.
        return LowRankDelta((torch.linalg.pinv(inner, hermitian=True) @ residual).T, solved.T)
