"""Side memory of WISE (Wang et al. 2024): edited copies of one matrix, chosen by activation."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear
from transformers.activations import ACT2FN


class Shard(NamedTuple):
    """An edited copy of the matrix, stored as its difference, shape (outputs, inputs), float32.

    `least` is the minimum activation of its edits at the time they were learnt; infinite without
    edits.
    """

    delta: Tensor
    least: float = math.inf


# Weight of the previously merged shard in WISE-Merge, as in the published code; new shards share
# the rest.
EARLIER = 0.6


class SideMemory(NamedTuple):
    """The current shard with its gradient mask, the complete shards, and the number of all edits.

    `merged` is the one memory into which WISE-Merge merges complete shards.
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

    def deposit(
        self, save_freq: int, merge_freq: int, density: float, retrieve: bool = True
    ) -> "SideMemory":
        """Return the memory after one more edit.

        A new shard begins every `save_freq` edits; the latest shards are merged every `merge_freq`
        edits. The threshold of a merged shard is the minimum activation of any of its edits.
        Without `retrieve`, all complete shards are merged, together with the previously merged one.
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
        """Return the memory used for answering by WISE-Merge, with all shards merged.

        The current shard is merged too once another one is complete. All shards get the same
        threshold, the minimum activation of any edit.
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
        return self._replace(
            complete=(), merged=_merge((*self.complete, self.merged), density, [*weights, EARLIER])
        )

    def choose(self, activations: Tensor, act_ratio: float) -> Tensor:
        """Return the number of each row's shard, -1 for the original matrix, shape (rows,).

        A shard must exceed its threshold and the activations of all earlier shards, including the
        current one, even if that is below its threshold.

        Args:
            activations: shape (shards, rows).
            act_ratio: a shard's threshold relative to its minimum activation.
        """
        thresholds = (
            torch.tensor([shard.least for shard in self.shards], device=activations.device)
            * act_ratio
        )
        chosen = torch.where(activations[0] < thresholds[0], -1, 0)
        highest = activations[0]
        for number in range(1, len(activations)):
            better = (activations[number] > highest) & (activations[number] > thresholds[number])
            chosen, highest = (
                chosen.where(~better, number),
                highest.where(~better, activations[number]),
            )
        return chosen


def activation(
    outputs: Tensor, delta: Tensor, inputs: Tensor, function: str, mask: Tensor
) -> Tensor:
    """Return a shard's activation (eq. 2), averaged over some tokens of each row, shape (rows,).

    It is the Euclidean norm of the difference that the shard makes after the MLP's activation
    function, which is applied to the matrix's output as in the published code.

    Args:
        outputs: outputs of the original matrix, shape (rows, width, outputs).
        delta: the shard's difference from the original matrix.
        inputs: inputs of the matrix, shape (rows, width, inputs).
        function: name of the activation function in transformers.
        mask: the tokens to average over, shape (rows, width), bool.
    """
    act = ACT2FN[function]
    outputs = outputs.float()
    norms: Tensor = (act(outputs + linear(inputs.float(), delta)) - act(outputs)).norm(dim=-1)
    return (norms * mask).sum(1) / mask.sum(1)


def margin_loss(inside: Tensor, outside: Tensor, margin: tuple[float, float, float]) -> Tensor:
    """Return the activation loss (eq. 4), which separates edits from irrelevant texts by a margin.

    Each of the three terms is averaged over the rows in which it is positive.

    Args:
        inside: activations of an edit's prompts, shape (rows,).
        outside: activation of an irrelevant text, shape (1,).
        margin: upper bound outside (alpha), lower bound inside (beta), and minimum distance
            (gamma).
    """
    alpha, beta, gamma = margin
    terms = (outside - inside + gamma, outside - alpha, beta - inside)
    positive = [term[term > 0] for term in terms]
    return sum((term.mean() for term in positive if len(term)), start=inside.new_zeros(()))


def _merge(
    shards: Sequence[Shard], density: float, weights: Sequence[float] | None = None
) -> Shard:
    merged = ties([shard.delta for shard in shards], density, weights)
    return Shard(merged, min(shard.least for shard in shards))


def ties(
    deltas: Sequence[Tensor], density: float, weights: Sequence[float] | None = None
) -> Tensor:
    """Merge deltas by TIES (Yadav et al. 2023): average the largest elements whose signs agree.

    Args:
        deltas: tensors of one shape.
        density: fraction of the elements of each delta that are merged.
        weights: weights of the deltas in the sign vote and in the average; None for equal weights.
    """
    shares = torch.tensor(weights or [1.0] * len(deltas), device=deltas[0].device)[:, None, None]
    trimmed = torch.stack([_largest(delta, density) for delta in deltas])
    sign = torch.where((shares * trimmed).sum(0) >= 0, 1.0, -1.0)
    agreeing = shares * (trimmed.sign() == sign)
    total = agreeing.sum(0)
    return (trimmed * agreeing).sum(0) / total.where(total > 0, 1.0)


def _largest(delta: Tensor, density: float) -> Tensor:
    """Return the delta with only the given fraction of elements, the largest in magnitude."""
    count = max(1, int(density * delta.numel()))
    trimmed = torch.zeros_like(delta).reshape(-1)
    places = delta.abs().reshape(-1).topk(count).indices
    trimmed[places] = delta.reshape(-1)[places]
    return trimmed.reshape(delta.shape)
