"""Training of one block to change some of its outputs and preserve the others.

This is stage 2 of UnKE (Deng et al. 2024).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from emend.agents.local.batching import pack
from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.prefixes import Ids
from emend.editors.cost import add_tokens
from emend.editors.numerics.architectures import Architecture
from emend.editors.numerics.passes import light_passes
from emend.editors.numerics.suffix_forward import PromptSplit, SuffixForward
from emend.editors.numerics.training.training_loop import overflow_error


@dataclass(frozen=True, kw_only=True)
class BlockTrainingSettings:
    """Settings of a block's training, named as in the published hyper-parameter files."""

    lr: Annotated[float, Field(gt=0)]
    """AdamW's learning rate; its weight decay is 0.01, except for norms, which have none."""
    optim_num_step: Annotated[int, Field(ge=1)]
    """Number of AdamW steps."""


class BlockRow(NamedTuple):
    """Token ids of a text, and changes, shape (width,), of the block's output by position."""

    ids: Ids
    changes: tuple[tuple[int, Tensor], ...] = ()


class _Part:
    """Rows of one batch, with the block's input and its target output."""

    def __init__(
        self, lm: CausalLM, paths: Architecture, layer: int, rows: Sequence[BlockRow]
    ) -> None:
        self.suffix = SuffixForward(lm, paths, [PromptSplit((), row.ids) for row in rows], layer)
        self.tokens = sum(len(row.ids) for row in rows)
        self.goal = self.suffix.block_output().detach().float()
        lengths = torch.tensor([len(row.ids) for row in rows], device=lm.device)
        self.valid = torch.arange(self.goal.shape[1], device=lm.device) < lengths[:, None]
        for line, row in enumerate(rows):
            for place, change in row.changes:
                self.goal[line, place] += change

    def squared_error(self, weights: dict[str, Tensor]) -> Tensor:
        """Return the squared distance to the target output, summed over all tokens."""
        add_tokens(self.tokens)
        error = self.suffix.block_output(weights).float() - self.goal
        return (error[self.valid] ** 2).sum()


def train_block(
    lm: CausalLM,
    paths: Architecture,
    layer: int,
    groups: Sequence[Sequence[BlockRow]],
    settings: BlockTrainingSettings,
) -> dict[str, Tensor]:
    """Train a block and return the deltas of its parameters by name, float32.

    The model is not changed; its lock must be held. The loss is the sum over the groups, such as
    edits and preserved texts, of the mean squared error of the block's output. Unlike in the
    published code, the mean excludes padding.

    Raises:
        ModelError: the training overflowed; names step and loss.
    """
    path = paths.of_layer(layer, "block")
    block = lm.model.get_submodule(path)
    dtypes = {name: parameter.dtype for name, parameter in block.named_parameters()}
    origin = {name: parameter.detach().float() for name, parameter in block.named_parameters()}
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in origin.items()}
    optimizer = _optimizer(block, leaves, settings.lr)
    with light_passes(lm.model):
        with torch.no_grad():
            parts = [part for rows in groups for part in _parts(lm, paths, layer, rows)]
        for number in range(settings.optim_num_step):
            optimizer.zero_grad()
            loss = _backward(parts, leaves, dtypes)
            optimizer.step()
            if not bool(loss.isfinite()):
                raise overflow_error(number, loss, settings.lr)
    deltas = {f"{path}.{name}": (leaf - origin[name]).detach() for name, leaf in leaves.items()}
    if not all(bool(delta.isfinite().all()) for delta in deltas.values()):
        raise overflow_error(number, loss, settings.lr)
    return deltas


def _parts(
    lm: CausalLM, paths: Architecture, layer: int, rows: Sequence[BlockRow]
) -> list[tuple[_Part, float]]:
    """Return a group's batches with the weight of their squared errors in the group's mean."""
    packed = pack([len(row.ids) for row in rows], lm.batch_tokens)
    parts = []
    for positions in packed:
        of_batch = [rows[position] for position in positions]
        parts.append(_Part(lm, paths, layer, of_batch))
    tokens = sum(part.tokens for part in parts)
    return [(part, 1 / (tokens * part.goal.shape[-1])) for part in parts]


def _backward(
    parts: Sequence[tuple[_Part, float]], leaves: dict[str, Tensor], dtypes: dict[str, torch.dtype]
) -> Tensor:
    """Accumulate the gradients of the loss and return the loss."""
    total = torch.zeros(())
    with torch.enable_grad():
        for part, weight in parts:
            loss = weight * part.squared_error(
                {name: leaf.to(dtypes[name]) for name, leaf in leaves.items()}
            )
            loss.backward(inputs=list(leaves.values()))
            total = total + loss.detach().cpu()
    return total


def _optimizer(block: nn.Module, leaves: dict[str, Tensor], lr: float) -> torch.optim.AdamW:
    norms = {
        f"{path}.{name}"
        for path, module in block.named_modules()
        if "Norm" in type(module).__name__
        for name, _ in module.named_parameters(recurse=False)
    }
    decayed = [leaf for name, leaf in leaves.items() if name not in norms]
    others = [leaf for name, leaf in leaves.items() if name in norms]
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, weight_decay=0.01)
