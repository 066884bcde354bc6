"""EMMET (Gupta et al. 2024): mass editing with ROME's equality constraint for a batch of edits."""

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
    """Ridge on the diagonal of the edits' matrix; with 0 edits of distinct keys are exact."""


class Emmet(Memit):
    """EMMET editor: gives each key its value, where `memit` weighs values against usual keys."""

    name: ClassVar[str] = "emmet"
    schema: ClassVar[type[LocateThenEditSettings]] = EmmetSettings
    settings: EmmetSettings  # type: ignore[assignment]

    def layer_update(self, layer: int, keys: Tensor, residual: Tensor) -> LowRankDelta:
        """Return the update R (K^T C^-1 K + lambda)^-1 K^T C^-1 (eq. 11), C being weighted.

        Args:
            layer: the layer whose covariance is used.
            keys: K^T, shape (edits, inputs).
            residual: R^T, the outputs to be added, shape (edits, outputs), float64.
        """
        solved = self.covariance.solve(layer, keys.T) / self.settings.mom2_update_weight
        inner = keys.double() @ solved + self.settings.emmet_lambda * torch.eye(
            len(keys), dtype=torch.float64
        )
        if self.settings.emmet_lambda:
            return LowRankDelta(torch.linalg.solve(inner, residual).T, solved.T)
        # Edits of one subject may share a key, which makes the matrix singular; they get the mean
        # of their values.
        return LowRankDelta((torch.linalg.pinv(inner, hermitian=True) @ residual).T, solved.T)
