"""Null-space constrained editing (Fang et al. 2025, AlphaEdit): updates that leave usual keys alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from emend.editors.base import Answerer, Grow, Materials
from emend.editors.numerics.key_sums import key_size
from emend.editors.numerics.low_rank import Factors
from emend.editors.parametric.locate_then_edit import WritingSettings
from emend.editors.parametric.memit import Memit
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings


@dataclass(frozen=True)
class AlphaEditSettings(WritingSettings):
    """AlphaEdit's settings."""

    null_below: Annotated[float, Field(gt=0)] = 2e-2
    """Eigenvalues of the statistics below this span what may be changed."""
    ridge: Annotated[float, Field(gt=0)] = 10.0
    """Weight of the update's own size (L2)."""


class AlphaEdit(Memit):
    """As `Memit`, projected onto the null space of the statistics; keys of a sequence's earlier edits are kept too."""

    name: ClassVar[str] = "alphaedit"
    schema: ClassVar[type[WritingSettings]] = AlphaEditSettings
    settings: AlphaEditSettings  # type: ignore[assignment]

    def __init__(self, materials: Materials) -> None:
        super().__init__(materials)
        self._earlier: dict[int, Tensor] = {}
        self._solved: dict[int, Tensor] = {}

    def prepare(self) -> None:
        """Finds the null spaces; there is no need of an inverse."""
        if self.moments.folder is not None:
            for layer in self.layers:
                self.moments.null_space(layer, key_size(self.lm, self.paths, layer), self.settings.null_below)

    @contextmanager
    def sequence(self) -> Iterator[Grow]:
        """Each call also holds fast the keys of the calls before; a new sequence begins without any."""
        self._earlier = {}
        try:
            with super().sequence() as grow:
                yield self._remembering(grow)
        finally:
            self._earlier, self._solved = {}, {}

    def _remembering(self, grow: Grow) -> Grow:
        def told(edits: Sequence[Edit]) -> Answerer:
            self._solved = {}
            answerer = grow(edits)
            self._earlier = self._earlier | self._solved
            return answerer

        return told

    def spread(self, layer: int, keys: Tensor, left: Tensor) -> Factors:
        """R K^T P [(K K^T + K' K'^T) P + L2]^-1, solved in as many unknowns as there are keys.

        Args:
            layer: whose statistics count.
            keys: shape (edits, inputs).
            left: what is left to reach, shape (edits, outputs), float64.
        """
        basis = self._basis(layer, keys.shape[1])
        inside = keys.double() @ basis
        earlier = self._earlier.get(layer)
        # A layer's keys do not depend on its own weights, and those below are written by now: these keys are the ones
        # that the model has once the edits stand. Kept here, so that nothing can fail when they do.
        self._solved[layer] = keys.double() if earlier is None else torch.cat([earlier, keys.double()])
        everything = inside if earlier is None else torch.cat([inside, earlier @ basis])
        # (A^T A + L2)^-1 K = [K - A^T (A A^T + L2)^-1 A K] / L2 with A the rows of all keys inside the null space
        inner = everything @ everything.T + self.settings.ridge * torch.eye(len(everything), dtype=torch.float64)
        solved = (inside - (torch.linalg.solve(inner, everything @ inside.T)).T @ everything) / self.settings.ridge
        return Factors(left.T, solved @ basis.T)

    def _basis(self, layer: int, size: int) -> Tensor:
        """What may be changed in a layer, shape (inputs, rank).

        Raises:
            BadSettings: nothing may, so that an edit would change nothing.
        """
        below = self.settings.null_below
        basis = self.moments.null_space(layer, size, below)
        if not basis.shape[1]:
            least = float(torch.linalg.eigvalsh(self.moments.moment(layer, size))[0])
            raise BadSettings(
                f"editor 'alphaedit' may change nothing in layer {layer}: no eigenvalue of its statistics "
                f"('{self.settings.statistics}') is below alphaedit.null_below={below:g}, the least is {least:.3g}. "
                "Set alphaedit.null_below above it, or name other statistics."
            )
        return basis
