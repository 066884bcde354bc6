"""Rank-one model editing (Meng et al. 2022, ROME), and R-ROME (Gupta et al. 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from emend.editors.numerics.architectures import input_first
from emend.editors.numerics.contexts import BARE
from emend.editors.numerics.locate import locate
from emend.editors.numerics.low_rank import CHUNK_ELEMENTS, LowRankDelta
from emend.editors.numerics.value_search import ValueResult, search_values
from emend.editors.parametric.first_token import is_first_token, key_moment
from emend.editors.parametric.locate_then_edit import LocateThenEdit, LocateThenEditSettings
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings


@dataclass(frozen=True)
class RomeSettings(LocateThenEditSettings):
    """ROME's settings."""

    separate_first_token: bool = True
    """Where a subject is the very first token, without a begin token in front, whose key is unlike all others: write
    the value at that key and at the mean key behind the prefixes, apart from the keys of other first tokens. `false`
    is the published rule there too, which can break the model. No other edit is concerned."""


class Rome(LocateThenEdit):
    """A key k*, a value v* and an outer product per edit, in one layer (Meng et al. 2022, section 3.1, eq. 2).

    The direction is C^-1 k* with the key averaged over contexts; the length is such that the bare prompt's key gives
    the value. The values of edits given together are optimised in one batch on the model as it is, and then written
    one after another, each so that its own key gives its own value at that moment.
    """

    name: ClassVar[str] = "rome"
    value_site: ClassVar[Literal["mlp", "block"]] = "mlp"
    schema: ClassVar[type[LocateThenEditSettings]] = RomeSettings
    settings: RomeSettings
    same_key: ClassVar[bool] = False
    """True where the averaged key also decides the length (R-ROME)."""

    def check_layers(self) -> None:
        """Refuse more than one layer."""
        if len(self.layers) != 1:
            raise BadSettings(f"editor '{self.name}' writes to one layer, seen layers: {list(self.layers)}: name one.")

    def deltas(self, edits: Sequence[Edit], values: ValueResult) -> dict[str, LowRankDelta]:
        """An outer product per edit: W' = W + Lambda (C^-1 k*)^T with Lambda = (v* - W k) / ((C^-1 k*)^T k)."""
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
            if self.settings.separate_first_token and is_first_token(locate(self.lm, edits[n], BARE)[0]):
                left, right = self._first_token_update(edits[n], lefts, rights)
                lefts, rights = [*lefts, *left], [*rights, *right]
                continue
            output = outputs[n]
            for earlier, direction in zip(lefts, rights, strict=True):
                output = output + earlier * (direction @ keys[n])
            lefts.append((target - output) / (keys[n] @ directions[n]))
            rights.append(directions[n])
        return {f"{path}.weight": LowRankDelta(torch.stack(lefts, dim=1), torch.stack(rights))}

    def _first_token_update(
        self, edit: Edit, lefts: Sequence[Tensor], rights: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """R (K^T C^-1 K)^-1 and C^-1 K as rows, for the bare prompt's key and the mean of those behind prefixes.

        Each key has its own change in R, searched for in its own prompts: one change for both would be learned behind
        the prefixes alone. C is the moment of first tokens' keys: with the usual one, these keys would all get the
        value. Earlier updates are taken off R, as in `deltas`.
        """
        (layer,) = self.layers
        kinds = [prefixes for prefixes in (self.prefixes[:1], self.prefixes[1:]) if prefixes]
        values = [search_values(self.lm, self.paths, [edit], kind, layer, "mlp", self.settings) for kind in kinds]
        keys = torch.cat([value.keys[:, 1] for value in values])
        changes = torch.cat([value.change for value in values]).cpu().double()
        solved = torch.linalg.solve(key_moment(self.lm, self.paths, layer, self.prefixes), keys.T).T
        if lefts:
            changes = changes - keys @ torch.stack(list(rights)).T @ torch.stack(list(lefts))
        return torch.linalg.solve(keys @ solved.T, changes), solved


class RRome(Rome):
    """ROME with the averaged key in both places, so that a sequence of edits does not break the model."""

    name: ClassVar[str] = "r_rome"
    same_key: ClassVar[bool] = True


def compute_outputs(module: Any, keys: Tensor) -> Tensor:
    """W k + b of each key, shape (edits, outputs), float64 on the CPU; computed where the weights are, in pieces."""
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
