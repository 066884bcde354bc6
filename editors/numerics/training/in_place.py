"""Training of a whole model in its own weights, without copies of weights, gradients or averages.

Activations within blocks are recomputed in the backward pass, and each tensor is updated as soon as
its gradient is available.
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
    """Train weights in place; return deltas as `train` does, up to 8-bit rounding, on the CPU.

    The weights are restored bit for bit, even after an exception.

    Raises:
        ModelError: the training overflowed; names step and loss.
    """
    weights = {name: lm.model.get_parameter(name) for name in names}
    deltas: dict[str, Tensor] = {}
    with Originals(lm.folder, weights) as originals:
        with light_passes(lm.model), recomputed_blocks(lm.model):
            for weight in weights.values():
                weight.requires_grad_(True)
            step = StepsInBackward(
                weights, settings.lr, originals if distance > 0 else None, distance
            )
            train_loop(lm, lm.model, list(weights.values()), rows, settings, seed, step=step)
            del step  # frees the averages before the deltas are allocated
        for name, weight in weights.items():
            deltas[name] = weight.detach().cpu().float() - originals[name].float()
            originals.restore(name)
    return deltas


class Originals:
    """The current weights on the CPU, restored bit for bit at the end of the `with`.

    Weights that equal those in the model's folder are read from there again; the others are copied.
    """

    def __init__(self, folder: Path, weights: Mapping[str, nn.Parameter]) -> None:
        self._weights = dict(weights)
        files: list[Any] = [safe_open(file, "pt") for file in sorted(folder.glob("*.safetensors"))]
        self._sources = {
            name: file
            for file in files
            for name in file.keys()  # noqa: SIM118
            if name in weights
        }
        self._copies: dict[str, Tensor] = {}
        for name, weight in weights.items():
            if name not in self._sources or not _same_bits(
                self._sources[name].get_tensor(name), weight.detach().cpu()
            ):
                self._copies[name] = weight.detach().to("cpu", copy=True)

    def __getitem__(self, name: str) -> Tensor:
        original: Tensor = (
            self._copies[name] if name in self._copies else self._sources[name].get_tensor(name)
        )
        return original

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self._weights):
            self.restore(name)

    @torch.no_grad()
    def restore(self, name: str) -> None:
        """Restore a weight and free its copy."""
        self._weights[name].copy_(self[name])
        del self._weights[name]
        self._copies.pop(name, None)


def _same_bits(tensor: Tensor, other: Tensor) -> bool:
    if (tensor.dtype, tensor.shape) != (other.dtype, other.shape):
        return False
    return torch.equal(
        tensor.contiguous().view(-1).view(torch.uint8),
        other.contiguous().view(-1).view(torch.uint8),
    )


class StepsInBackward:
    """Optimiser steps in the backward pass, so that not all gradients exist at once."""

    def __init__(
        self,
        weights: Mapping[str, nn.Parameter],
        lr: float,
        originals: Originals | None,
        distance: float,
    ) -> None:
        self._weights, self._adam = weights, CompactAdam(lr)
        self._originals, self._distance = originals, distance

    def __call__(self, loss: Tensor) -> None:
        """Backpropagate the loss, and update each weight as soon as its gradient is complete."""
        with ExitStack() as hooks:
            for name, weight in self._weights.items():
                move = partial(
                    self._move, None if self._originals is None else self._originals[name]
                )
                hooks.callback(weight.register_post_accumulate_grad_hook(move).remove)
            loss.backward(inputs=list(self._weights.values()))

    def _move(self, origin: Tensor | None, weight: Tensor) -> None:
        assert weight.grad is not None
        self._adam.step(weight, weight.grad, origin, self._distance)
        weight.grad = None


@contextmanager
def recomputed_blocks(model: nn.Module) -> Iterator[None]:
    """Recompute the activations within blocks in the backward pass, inside the `with`.

    The model stays in evaluation mode, in which the gradient checkpointing of transformers is
    inactive.
    """
    blocks = [
        module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)
    ]
    with replaced_forward(
        {block: partial(checkpoint, block.forward, use_reentrant=False) for block in blocks}
    ):
        yield
