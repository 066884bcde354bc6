"""Edited copies of one matrix beside the original, and the choice among them by activation (Wang et al. 2024, WISE)."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear
from transformers.activations import ACT2FN


class Shard(NamedTuple):
    """An edited copy of the matrix as its difference, shape (outputs, inputs), float32.

    `least` is the least activation that one of its edits had when it was learnt; infinite without edits.
    """

    delta: Tensor
    least: float = math.inf


EARLIER = 0.6
"""Weight of what was merged before in WISE-Merge; new shards share the rest, as in the published code."""


class SideMemory(NamedTuple):
    """The shard that is edited now with the mask of its gradients, the complete ones, and the number of all edits.

    `merged` is WISE-Merge's one memory, in which complete shards end.
    """

    current: Shard
    mask: Tensor
    complete: tuple[Shard, ...] = ()
    edits: int = 0
    merged: Shard | None = None

    @property
    def shards(self) -> tuple[Shard, ...]:
        """All shards, the current one first."""
        return (self.current, *self.complete, *(() if self.merged is None else (self.merged,)))

    def deposit(self, save_freq: int, merge_freq: int, density: float, retrieve: bool = True) -> "SideMemory":
        """The memory after an edit: every `save_freq` edits a new shard begins, every `merge_freq` the last merge.

        A merged shard's edits are recognised by the least activation of any of them. Without `retrieve` all complete
        shards merge, with what was merged before.
        """
        edits = self.edits + 1
        if edits % save_freq:
            return self._replace(edits=edits)
        memory = self._complete()._replace(edits=edits)
        if edits % merge_freq:
            return memory
        if not retrieve:
            return memory._merge_all(density)
        number = merge_freq // save_freq
        merged = _merge(memory.complete[-number:], density)
        return memory._replace(complete=(*memory.complete[:-number], merged))

    def as_one(self, save_freq: int, density: float) -> "SideMemory":
        """The memory that WISE-Merge answers with: all shards merged, once one is complete the current one too.

        One threshold holds for all: that of the least activation of any edit.
        """
        memory = self
        if self.edits >= save_freq:
            memory = memory._complete() if math.isfinite(self.current.least) else memory
            memory = memory._merge_all(density) if memory.complete else memory
        least = min(shard.least for shard in memory.shards)
        merged = memory.merged and memory.merged._replace(least=least)
        return memory._replace(current=memory.current._replace(least=least), merged=merged)

    def _complete(self) -> "SideMemory":
        empty = Shard(torch.zeros_like(self.current.delta))
        return self._replace(current=empty, complete=(*self.complete, self.current))

    def _merge_all(self, density: float) -> "SideMemory":
        if self.merged is None:
            return self._replace(complete=(), merged=_merge(self.complete, density))
        weights = [(1 - EARLIER) / len(self.complete)] * len(self.complete)
        return self._replace(complete=(), merged=_merge((*self.complete, self.merged), density, [*weights, EARLIER]))

    def choose(self, activations: Tensor, act_ratio: float) -> Tensor:
        """The number of the shard that answers each row, -1 for the original matrix; shape (rows,).

        A shard must exceed its threshold and all before it, the current one even where that answers nothing.

        Args:
            activations: shape (shards, rows).
            act_ratio: a shard's threshold as a share of its least activation.
        """
        thresholds = torch.tensor([shard.least for shard in self.shards], device=activations.device) * act_ratio
        chosen = torch.where(activations[0] < thresholds[0], -1, 0)
        highest = activations[0]
        for number in range(1, len(activations)):
            better = (activations[number] > highest) & (activations[number] > thresholds[number])
            chosen, highest = chosen.where(~better, number), highest.where(~better, activations[number])
        return chosen


def activation(outputs: Tensor, delta: Tensor, inputs: Tensor, function: str, mask: Tensor) -> Tensor:
    """The difference that a shard makes, averaged over some tokens of each row (eq. 2), shape (rows,).

    It is the Euclidean norm of the difference of activations: as in the published code, the MLP's activation function
    is applied to what the matrix gives.

    Args:
        outputs: what the original matrix gives, shape (rows, width, outputs).
        delta: the shard's.
        inputs: what enters, shape (rows, width, inputs).
        function: name of the activation function in transformers.
        mask: the tokens, shape (rows, width), bool.
    """
    act = ACT2FN[function]
    outputs = outputs.float()
    norms: Tensor = (act(outputs + linear(inputs.float(), delta)) - act(outputs)).norm(dim=-1)
    return (norms * mask).sum(1) / mask.sum(1)


def margin_loss(inside: Tensor, outside: Tensor, margin: tuple[float, float, float]) -> Tensor:
    """The activation loss (eq. 4): edits must make a large difference, irrelevant texts a small one, far from theirs.

    Each of the three terms is averaged over the rows in which it is not zero.

    Args:
        inside: activations of an edit's prompts, shape (rows,).
        outside: activation of an irrelevant text, shape (1,).
        margin: upper bound outside (alpha), lower bound inside (beta), and least distance (gamma).
    """
    alpha, beta, gamma = margin
    terms = (outside - inside + gamma, outside - alpha, beta - inside)
    positive = [term[term > 0] for term in terms]
    return sum((term.mean() for term in positive if len(term)), start=inside.new_zeros(()))


def _merge(shards: Sequence[Shard], density: float, weights: Sequence[float] | None = None) -> Shard:
    merged = ties([shard.delta for shard in shards], density, weights)
    return Shard(merged, min(shard.least for shard in shards))


def ties(deltas: Sequence[Tensor], density: float, weights: Sequence[float] | None = None) -> Tensor:
    """One delta for several (Yadav et al. 2023, TIES): the largest elements of each, averaged where signs agree.

    Args:
        deltas: of one shape.
        density: share of the elements of each that are taken.
        weights: of the deltas, in the sum that gives the sign and in the average; None for equal ones.
    """
    shares = torch.tensor(weights or [1.0] * len(deltas), device=deltas[0].device)[:, None, None]
    trimmed = torch.stack([_largest(delta, density) for delta in deltas])
    sign = torch.where((shares * trimmed).sum(0) >= 0, 1.0, -1.0)
    agreeing = shares * (trimmed.sign() == sign)
    total = agreeing.sum(0)
    return (trimmed * agreeing).sum(0) / total.where(total > 0, 1.0)


def _largest(delta: Tensor, density: float) -> Tensor:
    """The delta with all but a share of its elements, the largest in size, set to zero."""
    count = max(1, int(density * delta.numel()))
    trimmed = torch.zeros_like(delta).reshape(-1)
    places = delta.abs().reshape(-1).topk(count).indices
    trimmed[places] = delta.reshape(-1)[places]
    return trimmed.reshape(delta.shape)
