"""Rank-one model editing (Meng et al. 2022, ROME), and R-ROME (Gupta et al. 2024)."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from emend.editors.numerics.architectures import input_first
from emend.editors.numerics.low_rank import CHUNK_ELEMENTS, LowRankDelta
from emend.editors.numerics.value_search import ValueResult
from emend.editors.parametric.locate_then_edit import LocateThenEdit
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings


class Rome(LocateThenEdit):
    """ROME editor: one key, value and outer product per edit (Meng et al. 2022, sec. 3.1, eq. 2).

    All edits are written into one layer. The direction is C^-1 k* with the key averaged over
    contexts; the length is such that the bare prompt's key gives the value. The values of a batch
    of edits are optimised together on the unedited model and then written one after another, each
    so that its key gives its value at that moment.
    """

    name: ClassVar[str] = "rome"
    value_site: ClassVar[Literal["mlp", "block"]] = "mlp"
    same_key: ClassVar[bool] = False
    """True if the averaged key also determines the length (R-ROME)."""

    def check_layers(self) -> None:
        """Refuse more than one layer."""
        if len(self.layers) != 1:
            raise BadSettings(
                f"editor '{self.name}' writes to one layer, not to layers "
                f"{list(self.layers)}: name one."
            )

    def deltas(self, edits: Sequence[Edit], values: ValueResult) -> dict[str, LowRankDelta]:
        """Return an outer product per edit: W' = W + Lambda (C^-1 k*)^T.

        Lambda is (v* - W k) / ((C^-1 k*)^T k).
        """
        (layer,) = self.layers
        bare, mean = values.keys.unbind(1)
        directions = self.covariance.solve(layer, mean.T).T
        directions = directions / directions.norm(dim=1, keepdim=True)
        path = self.paths.of_layer(layer, "down_projection")
        keys = mean if self.same_key else bare
        outputs = compute_outputs(self.lm.model.get_submodule(path), keys)
        lefts: list[Tensor] = []
        rights: list[Tensor] = []
        for n, target in enumerate((values.value + values.change).cpu().double()):
            output = outputs[n]
            for earlier, direction in zip(lefts, rights, strict=True):
                output = output + earlier * (direction @ keys[n])
            lefts.append((target - output) / (keys[n] @ directions[n]))
            rights.append(directions[n])
        return {f"{path}.weight": LowRankDelta(torch.stack(lefts, dim=1), torch.stack(rights))}


class RRome(Rome):
    """R-ROME editor: ROME with the averaged key throughout, which keeps long sequences stable."""

    name: ClassVar[str] = "r_rome"
    same_key: ClassVar[bool] = True


def compute_outputs(module: Any, keys: Tensor) -> Tensor:
    """Return W k + b of each key, shape (edits, outputs), float64 on the CPU.

    It is computed on the weights' device, in chunks.
    """
    weight = module.weight.detach().T if input_first(module) else module.weight.detach()
    bias: Tensor | None = getattr(module, "bias", None)
    home = weight.device if weight.is_cuda else torch.device("cpu")
    keys = keys.to(home, torch.float64)
    parts: list[Tensor] = []
    for rows in weight.split(max(1, CHUNK_ELEMENTS // weight.shape[1])):
        piece = rows.to(home, torch.float64)
        parts.append(torch.stack([piece @ key for key in keys]))
    outputs = torch.cat(parts, dim=1).cpu()
    return outputs if bias is None else outputs + bias.detach().cpu().double()
