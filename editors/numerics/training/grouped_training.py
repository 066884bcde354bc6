"""Training of down-projections on several groups of rows at once, with separate copies per group.

The inputs of the lowest trained block do not depend on the training, so they are computed once. The
blocks above and the head process the rows of all groups as one batch; only the trained matrices
process each group separately.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from emend.agents.local.batching import pack
from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import Architecture, input_first
from emend.editors.numerics.passes import light_passes, replaced_forward
from emend.editors.numerics.suffix_forward import PromptSplit, SuffixForward, compute_logits
from emend.editors.numerics.training.training_loop import (
    TrainingRow,
    TrainingSettings,
    adam,
    mean_losses,
    optimizer_step,
    overflow_error,
    training_batch,
)
from emend.memory.errors import ModelError


class _Part:
    """Rows of some groups as one batch, sorted by group."""

    def __init__(
        self,
        lm: CausalLM,
        paths: Architecture,
        lowest: int,
        rows: Sequence[tuple[int, TrainingRow]],
    ) -> None:
        self.batch = training_batch(lm, [row for _, row in rows])
        scored = torch.stack([self.batch.lines, self.batch.places]).unique(
            dim=1, return_inverse=True
        )
        (self.lines, self.places), self.which = scored
        self.numbers = [number for number, _ in rows]
        """The group of each row, ascending."""
        width = self.batch.inputs["input_ids"].shape[1]
        self.sizes = [width * rows for rows in Counter(self.numbers).values()]
        """Number of positions of each group, padding included."""
        self.scored = list(Counter(self.numbers[line] for line in self.lines.tolist()).values())
        """Number of positions of each group whose logits are needed."""
        self.suffix = SuffixForward(
            lm, paths, [PromptSplit((), row.input_ids) for _, row in rows], lowest
        )


class GroupedTrainer:
    """Trainer of copies of some layers' down-projections, one set for each group of rows.

    The loss of a group is the mean over its rows of the mean negative log-probability of their
    target tokens. A group whose rows are all below `stop_loss` leaves the batch. `distance` is the
    maximum change of an element, 0 for no bound.
    """

    def __init__(
        self,
        lm: CausalLM,
        paths: Architecture,
        layers: Sequence[int],
        groups: Sequence[Sequence[TrainingRow]],
        settings: TrainingSettings,
        distance: float = 0.0,
    ) -> None:
        self.lm, self.paths, self.lowest, self.groups = lm, paths, min(layers), groups
        self.settings, self.distance = settings, distance
        matrices = [paths.of_layer(layer, "down_projection") for layer in layers]
        self.modules: dict[str, Any] = {path: lm.model.get_submodule(path) for path in matrices}
        self.origin = {
            f"{path}.{name}": parameter.detach().float()
            for path, module in self.modules.items()
            for name, parameter in module.named_parameters()
        }
        self.copies = [
            {name: tensor.clone().requires_grad_() for name, tensor in self.origin.items()}
            for _ in groups
        ]

    def run(self) -> list[dict[str, Tensor]]:
        """Train and return each group's deltas, float32; the model is not changed.

        Raises:
            ModelError: the training of a group overflowed; names step and loss.
        """
        optimizer = adam([leaf for copy in self.copies for leaf in copy.values()], self.settings.lr)
        with self.lm.lock, light_passes(self.lm.model), torch.enable_grad():
            parts = self._parts(range(len(self.groups)))
            for number in range(self.settings.num_steps):
                optimizer.zero_grad()
                losses = self._backward(parts)
                finite = all(isfinite(loss) for of_group in losses.values() for loss in of_group)
                learning = [
                    n for n, of_group in losses.items() if max(of_group) >= self.settings.stop_loss
                ]
                if finite and not learning:
                    break
                if finite and len(learning) < len(losses):
                    for leaf in (
                        leaf for n in losses.keys() - learning for leaf in self.copies[n].values()
                    ):
                        leaf.grad = None
                    parts = self._parts(learning)
                if not finite or not optimizer_step(optimizer.step):
                    raise self._overflow(number, losses)
                self._constrain(learning)
        deltas = [self._delta(copy) for copy in self.copies]
        if not all(
            bool(delta.isfinite().all()) for by_name in deltas for delta in by_name.values()
        ):
            raise self._overflow(number, losses)
        return deltas

    def _delta(self, copy: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the difference between a group's copies and the model's matrices."""
        return {name: (leaf - self.origin[name]).detach() for name, leaf in copy.items()}

    def _parts(self, groups: Iterable[int]) -> list[_Part]:
        rows = [(n, row) for n in groups for row in self.groups[n]]
        budget = min(self.settings.batch_tokens, self.lm.batch_tokens)
        parts = []
        for positions in pack([len(row.input_ids) for _, row in rows], budget):
            of_batch = [rows[position] for position in sorted(positions)]
            parts.append(_Part(self.lm, self.paths, self.lowest, of_batch))
        return parts

    def _backward(self, parts: Sequence[_Part]) -> dict[int, list[float]]:
        """Set the gradients of the copies and return the losses of each group's rows."""
        losses: dict[int, list[float]] = {}
        for part in parts:
            leaves = [leaf for n in dict.fromkeys(part.numbers) for leaf in self.copies[n].values()]
            forwards = {
                module: partial(self._forward, part, path, module)
                for path, module in self.modules.items()
            }
            with replaced_forward(forwards):  # also for the backward pass, which may rerun blocks
                states = part.suffix.run_again(part.lines, part.places)
                logits = compute_logits(self.lm, self.paths, states)[part.which]
                of_rows = mean_losses(logits, part.batch)
                shares = torch.tensor(
                    [1 / len(self.groups[n]) for n in part.numbers], device=of_rows.device
                )
                (of_rows @ shares).backward(inputs=leaves)
            for n, loss in zip(part.numbers, of_rows.tolist(), strict=True):
                losses.setdefault(n, []).append(loss)
        return losses

    def _forward(self, part: _Part, path: str, module: nn.Module, states: Tensor) -> Tensor:
        """Return a matrix's output, computed for each group's rows with the group's copy."""
        flat = states.reshape(-1, states.shape[-1])
        outputs: list[Tensor] = []
        sizes = part.sizes if len(flat) == sum(part.sizes) else part.scored
        for n, piece in zip(dict.fromkeys(part.numbers), flat.split(sizes), strict=True):
            weight, bias = (self.copies[n].get(f"{path}.{name}") for name in ("weight", "bias"))
            assert weight is not None
            weight = (weight.T if input_first(module) else weight).to(piece.dtype)
            outputs.append(linear(piece, weight, bias if bias is None else bias.to(piece.dtype)))
        return torch.cat(outputs).view(*states.shape[:-1], -1)

    @torch.no_grad()
    def _constrain(self, groups: Iterable[int]) -> None:
        if self.distance > 0:
            for name, tensor in self.origin.items():
                for n in groups:
                    self.copies[n][name].clamp_(tensor - self.distance, tensor + self.distance)

    def _overflow(self, number: int, losses: dict[int, list[float]]) -> ModelError:
        every = torch.tensor([loss for of_group in losses.values() for loss in of_group])
        return overflow_error(number, every, self.settings.lr)
