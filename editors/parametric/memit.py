"""Mass editing of a memory (Meng et al. 2023): many values spread over several layers, each by least squares."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from emend.editors.numerics.apply_delta import summed
from emend.editors.numerics.locate import Located, locate
from emend.editors.numerics.low_rank import Factors, passing
from emend.editors.numerics.value_search import Found
from emend.editors.parametric.locate_then_edit import SubjectLast, WritingSettings
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings


@dataclass(frozen=True)
class MemitSettings(WritingSettings):
    """MEMIT's settings; `layers` go upwards, and values are searched for at the last of them."""

    weight: Annotated[float, Field(gt=0)] = 15000.0
    """How much the statistics count against one edit (lambda)."""


class Memit(SubjectLast):
    """Writes all edits given together into several layers, each taking its share of what is left to reach."""

    name: ClassVar[str] = "memit"
    at: ClassVar[Literal["mlp", "block"]] = "block"
    schema: ClassVar[type[WritingSettings]] = MemitSettings
    settings: MemitSettings

    def check_layers(self) -> None:
        """Refuses layers that do not go upwards, and several where what each has to add cannot be told."""
        if list(self.layers) != sorted(set(self.layers)):  # what a layer lacks is measured with those below it written
            raise BadSettings(
                f"editor '{self.name}' writes from the lowest layer upwards, to each once, seen layers: "
                f"{list(self.settings.layers)} of a model in which they are {list(self.layers)}: sort them."
            )
        if len(self.layers) > 1 and not self.paths.adds:  # what a lower layer lacks cannot be told before the norm
            raise BadSettings(
                f"editor '{self.name}' spreads values over layers {list(self.layers)}, which a norm between MLP and "
                f"residual stream keeps it from here: name one, --set {self.name}.layers=[{self.layers[-1]}]."
            )

    def factors(self, edits: Sequence[Edit], found: Found) -> dict[str, Factors]:
        """One product per layer; keys and what is left are measured anew after each layer."""
        last = self.layers[-1]
        wanted = (found.value + found.change).cpu()
        located = [locate(self.lm, edit, self.prefixes) for edit in edits]
        told: dict[str, Factors] = {}
        with ExitStack() as stack:
            for number, layer in enumerate(self.layers):
                keys, states = self._measured(located, layer, last)
                left = (wanted - states).double() / (len(self.layers) - number)
                path = self.paths.of_layer(layer, "down_projection")
                told[path] = self.spread(layer, keys, left)
                if layer != last:
                    stack.enter_context(written(self.lm.model.get_submodule(path), told[path]))
        return told

    def spread(self, layer: int, keys: Tensor, left: Tensor) -> Factors:
        """The least-squares update: R (lambda + K^T C^-1 K)^-1 K^T C^-1, which is R K^T (lambda C + K K^T)^-1.

        Args:
            layer: whose statistics count.
            keys: shape (edits, inputs).
            left: what is left to reach, shape (edits, outputs), float64.
        """
        solved = self.moments.solve(layer, keys.T)
        inner = keys.double() @ solved + self.settings.weight * torch.eye(len(keys), dtype=torch.float64)
        return Factors(torch.linalg.solve(inner, left).T, solved.T)

    def keys_at(self, edits: Sequence[Edit], layer: int) -> Tensor:
        """The averaged keys of a layer, as the model stands now; shape (edits, inputs), on the CPU."""
        located = [locate(self.lm, edit, self.prefixes) for edit in edits]
        return self._measured(located, layer, layer)[0]

    def _measured(self, located: Sequence[Sequence[Located]], layer: int, last: int) -> tuple[Tensor, Tensor]:
        """Averaged keys (edits, inputs) of a layer, and bare prompts' states (edits, width) out of the last one."""
        passed = passing(self.lm, self.paths, [row for each in located for row in each], layer, last)
        keys = passed.keys.reshape(len(located), len(self.prefixes), -1).cpu()
        states = passed.states.reshape(len(located), len(self.prefixes), -1)[:, 0].cpu()
        if len(self.prefixes) == 1:
            return keys[:, 0], states
        return (keys[:, 0] + keys[:, 1:].mean(1)) / 2, states  # the bare prompt weighs as much as all contexts together


@contextmanager
def written(module: nn.Module, factors: Factors) -> Iterator[None]:
    """Inside the `with` the delta is in the module's weight; on leaving it the original is back bit for bit."""
    weight: Tensor = module.weight  # type: ignore[assignment]
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.copy_(summed(kept, factors.dense(module)))
        yield
    finally:
        with torch.no_grad():
            weight.copy_(kept)
