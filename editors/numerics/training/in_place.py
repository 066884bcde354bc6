"""Training of a whole model in its own weights: no second copy of them, of their gradients, or of wide averages.

Blocks' activations are computed again in the backward pass, and each tensor moves as soon as its gradient is there.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.passes import light_passes, replaced_forward
from emend.editors.numerics.training.compact_adam import CompactAdam
from emend.editors.numerics.training.training_loop import TrainingRow, TrainingSettings, train_loop


def train_in_place(
    lm: CausalLM,
    names: Sequence[str],
    rows: Sequence[TrainingRow],
    settings: TrainingSettings,
    distance: float = 0.0,
    seed: int = 0,
) -> dict[str, Tensor]:
    """The deltas that `train` gives, up to the rounding of 8-bit averages; on the CPU.

    The weights are trained themselves, and restored bit for bit, whatever happens.

    Raises:
        ModelError: the training overflowed; names step and loss.
    """
    weights = {name: lm.model.get_parameter(name) for name in names}
    deltas: dict[str, Tensor] = {}
    with Originals(lm.folder, weights) as originals:
        with light_passes(lm.model), recomputed_blocks(lm.model):
            for weight in weights.values():
                weight.requires_grad_(True)
            step = StepsInBackward(weights, settings.lr, originals if distance > 0 else None, distance)
            train_loop(lm, lm.model, list(weights.values()), rows, settings, seed, step=step)
            del step  # its averages go before the deltas come
        for name, weight in weights.items():
            deltas[name] = weight.detach().cpu().float() - originals[name].float()
            originals.restore(name)
    return deltas


class Originals:
    """The weights as they are now, on the CPU; at the end of the `with` they are restored, bit for bit.

    A weight that stands in the model's folder as it is now is read there again; of the others a copy is held.
    """

    def __init__(self, folder: Path, weights: Mapping[str, nn.Parameter]) -> None:
        self._weights = dict(weights)
        files: list[Any] = [safe_open(file, "pt") for file in sorted(folder.glob("*.safetensors"))]
        self._sources = {name: file for file in files for name in file.keys() if name in weights}  # noqa: SIM118
        self._copies: dict[str, Tensor] = {}
        for name, weight in weights.items():
            if name not in self._sources or not _same_bits(self._sources[name].get_tensor(name), weight.detach().cpu()):
                self._copies[name] = weight.detach().to("cpu", copy=True)

    def __getitem__(self, name: str) -> Tensor:
        original: Tensor = self._copies[name] if name in self._copies else self._sources[name].get_tensor(name)
        return original

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self._weights):
            self.restore(name)

    @torch.no_grad()
    def restore(self, name: str) -> None:
        """Give a weight back its original, which is held no longer."""
        self._weights[name].copy_(self[name])
        del self._weights[name]
        self._copies.pop(name, None)


def _same_bits(tensor: Tensor, other: Tensor) -> bool:
    if (tensor.dtype, tensor.shape) != (other.dtype, other.shape):
        return False
    return torch.equal(tensor.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8))


class StepsInBackward:
    """Steps that are taken in the backward pass: gradients of the whole model never exist together."""

    def __init__(
        self, weights: Mapping[str, nn.Parameter], lr: float, originals: Originals | None, distance: float
    ) -> None:
        self._weights, self._adam = weights, CompactAdam(lr)
        self._originals, self._distance = originals, distance

    def __call__(self, loss: Tensor) -> None:
        """Go back through the loss, and move each weight by the gradient that it then has."""
        with ExitStack() as hooks:
            for name, weight in self._weights.items():
                move = partial(self._move, None if self._originals is None else self._originals[name])
                hooks.callback(weight.register_post_accumulate_grad_hook(move).remove)
            loss.backward(inputs=list(self._weights.values()))

    def _move(self, origin: Tensor | None, weight: Tensor) -> None:
        assert weight.grad is not None
        self._adam.step(weight, weight.grad, origin, self._distance)
        weight.grad = None


@contextmanager
def recomputed_blocks(model: nn.Module) -> Iterator[None]:
    """Blocks keep only what enters them for the backward pass, and compute the rest again there.

    The model stays in evaluation mode, in which transformers' own switch does nothing.
    """
    blocks = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    with replaced_forward({block: partial(checkpoint, block.forward, use_reentrant=False) for block in blocks}):
        yield
