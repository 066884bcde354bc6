"""Rank-one model editing (Meng et al. 2022), and the form that keeps its keys alike (Gupta et al. 2024, R-ROME)."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from emend.editors.numerics.architectures import input_first
from emend.editors.numerics.locate import locate
from emend.editors.numerics.low_rank import Factors, passing
from emend.editors.numerics.value_search import Found
from emend.editors.parametric.locate_then_edit import SubjectLast
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings


class Rome(SubjectLast):
    """One key, one value, one outer product per edit, on one layer.

    The direction is C^-1 k with the key averaged over contexts; the length is such that the bare prompt's key gives
    the value. Values of all edits given together are searched for on the model as it stands, in one optimisation, and
    then written one after another, each so that its own key gives its own value at that moment.
    """

    name: ClassVar[str] = "rome"
    at: ClassVar[Literal["mlp", "block"]] = "mlp"
    same_key: ClassVar[bool] = False
    """Whether the averaged key also decides the length, as R-ROME has it."""

    def check_layers(self) -> None:
        """Refuses more than one."""
        if len(self.layers) != 1:
            raise BadSettings(f"editor '{self.name}' writes to one layer, seen layers: {list(self.layers)}: name one.")

    def factors(self, edits: Sequence[Edit], found: Found) -> dict[str, Factors]:
        """One outer product per edit, as columns of `left` and rows of `right`."""
        (layer,) = self.layers
        bare, mean = self._keys(edits, layer)
        directions = self.moments.solve(layer, mean.T).T
        directions = directions / directions.norm(dim=1, keepdim=True)
        path = self.paths.of_layer(layer, "down_projection")
        weight, bias = matrix_of(self.lm.model.get_submodule(path))
        keys = mean if self.same_key else bare
        lefts: list[Tensor] = []
        for n, target in enumerate((found.value + found.change).cpu().double()):
            now = weight @ keys[n] + bias
            for left, direction in zip(lefts, directions, strict=False):
                now = now + left * (direction @ keys[n])
            lefts.append((target - now) / (keys[n] @ directions[n]))
        return {path: Factors(torch.stack(lefts, dim=1), directions)}

    def _keys(self, edits: Sequence[Edit], layer: int) -> tuple[Tensor, Tensor]:
        """The key in each edit's bare prompt, and the mean over all contexts; shape (edits, inputs) each."""
        rows = [row for edit in edits for row in locate(self.lm, edit, self.prefixes)]
        keys = passing(self.lm, self.paths, rows, layer, layer).keys.cpu().double()
        each = keys.reshape(len(edits), len(self.prefixes), -1)
        return each[:, 0], each.mean(1)


class RRome(Rome):
    """As `Rome`, with the averaged key in both places, so that a sequence of edits does not break the model."""

    name: ClassVar[str] = "r_rome"
    same_key: ClassVar[bool] = True


def matrix_of(module: Any) -> tuple[Tensor, Tensor]:
    """Weight of shape (outputs, inputs) and bias of shape (outputs,), float64 on the CPU."""
    weight: Tensor = module.weight.detach().cpu().double()
    weight = weight.T if input_first(module) else weight
    bias: Tensor | None = getattr(module, "bias", None)
    return weight, torch.zeros(len(weight), dtype=torch.float64) if bias is None else bias.detach().cpu().double()
