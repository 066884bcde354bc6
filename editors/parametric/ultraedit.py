"""Lifelong editing without training (Gu et al. 2025, UltraEdit): gradients normalised over all turns, a closed form."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from emend.agents.local.offload import keep_loaded
from emend.editors.base import ApplyMore, EditorContext
from emend.editors.numerics.apply_delta import Deltas
from emend.editors.numerics.architectures import down_projection, input_first, resolve_layer
from emend.editors.numerics.low_rank import LowRankDelta
from emend.editors.numerics.oom_retry import retry_on_oom
from emend.editors.numerics.training.gradient_pairs import GradientPairs, gradient_pairs
from emend.editors.parametric.finetune import training_rows
from emend.editors.parametric.weight_editor import WeightEditor
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings


@dataclass(frozen=True)
class UltraEditSettings:
    """Settings of UltraEdit, named as in the published files where those have them."""

    lr: Annotated[float, Field(gt=0)]
    """Length of the step (eta)."""
    layers: Annotated[tuple[int, ...], Field(min_length=1)]
    """Layers that are written to; from 0, or from -1 at the end."""
    projections: Annotated[tuple[str, ...], Field(min_length=1)] = ("down_projection",)
    """Matrices of each layer's MLP: `down_projection`, or names of linear modules such as gate_proj and up_proj."""
    batch_size_once: Annotated[int, Field(ge=1)] = 10
    """Edits of one pass."""
    architecture: dict[str, str | bool] = field(default_factory=dict)
    """Module paths by name, for architectures that `editors.numerics.architectures` lacks."""


class RunningMoments:
    """Mean and standard deviation of features over all turns (Welford; Chan et al. 1983 for batches)."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean, self._squares = torch.zeros(size), torch.zeros(size)

    def update(self, features: Tensor) -> None:
        """Take further features in, shape (tokens, size)."""
        number = len(features)
        total = self.count + number
        delta = features.mean(0) - self.mean
        # The published code weighs a batch's unbiased variance by its number of tokens.
        spread = features.var(0, correction=min(1, number - 1))
        self._squares += number * spread + self.count * number * delta**2 / total
        self.mean += number * delta / total
        self.count = total

    def normalise(self, features: Tensor) -> Tensor:
        """Features of mean 0 and standard deviation 1, as far as all that was taken in goes."""
        tiny = torch.finfo(features.dtype).eps
        return (features - self.mean) / ((self._squares / (self.count - 1 + tiny)).sqrt() + tiny)


class UltraEdit(WeightEditor):
    """Takes the gradient of each edit at some matrices, normalises it, and solves for one update of each matrix."""

    name: ClassVar[str] = "ultraedit"
    schema: ClassVar[type[UltraEditSettings]] = UltraEditSettings
    settings: UltraEditSettings

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        layers = sorted({resolve_layer(self.lm.model, layer) for layer in self.settings.layers})
        self.modules = [path for layer in layers for path in self._paths_of(layer)]
        keep_loaded(self.lm.model, self.modules)
        self._moments: dict[tuple[int, int], RunningMoments] = {}
        self._in_sequence = False

    @property
    def target_modules(self) -> dict[str, Any]:
        """The matrices that are written to."""
        return {"matrices": self.modules}

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """The deltas by parameter name; the model is left as it is.

        Raises:
            BadData: an edit has neither target nor text.
        """
        rows = training_rows(self.lm, edits, self.context.wording)
        if not rows:
            return {}
        if not self._in_sequence:
            self._moments = {}
        size = self.settings.batch_size_once
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        with self.lm.lock:
            batches = [retry_on_oom(self.lm, partial(gradient_pairs, self.lm, self.modules, part)) for part in parts]
        pairs = [self._take_in([batch[place] for batch in batches]) for place in range(len(self.modules))]
        return {f"{path}.weight": self._delta(path, *each) for path, each in zip(self.modules, pairs, strict=True)}

    def _take_in(self, batches: Sequence[GradientPairs]) -> tuple[GradientPairs, RunningMoments]:
        """A module's pairs in one, and the moments of all matrices of its shape, with these."""
        shape = batches[0].inputs.shape[1], batches[0].gradients.shape[1]
        moments = self._moments.setdefault(shape, RunningMoments(sum(shape)))
        for batch in batches:
            moments.update(torch.cat(batch, dim=1))
        return GradientPairs(*map(torch.cat, zip(*batches, strict=True))), moments

    def _delta(self, path: str, pairs: GradientPairs, moments: RunningMoments) -> Tensor | LowRankDelta:
        """The update (H^T H + I)^-1 H^T V, with V = -eta |h|^2 g of the normalised h and g of each token.

        With fewer tokens than inputs it is H^T (H H^T + I)^-1 V, which inverts the smaller matrix.
        """
        hidden = pairs.inputs.double()
        keys, gradients = moments.normalise(torch.cat(pairs, dim=1)).split(
            [pairs.inputs.shape[1], pairs.gradients.shape[1]], dim=1
        )
        values = -self.settings.lr * (keys**2).sum(1, keepdim=True) * gradients
        if len(hidden) < hidden.shape[1]:
            inner = hidden @ hidden.T + torch.eye(len(hidden), dtype=hidden.dtype)
            return LowRankDelta(torch.linalg.solve(inner, values.double()).T, hidden)
        gram = hidden.T @ hidden + torch.eye(hidden.shape[1], dtype=hidden.dtype)
        update: Tensor = torch.linalg.solve(gram, hidden.T @ values.double()).float()
        return update if input_first(self.lm.model.get_submodule(path)) else update.T.contiguous()

    @contextmanager
    def sequence(self) -> Iterator[ApplyMore]:
        """Normalise over all calls of a sequence; a new sequence starts without any."""
        self._moments, self._in_sequence = {}, True
        try:
            with super().sequence() as apply_more:
                yield apply_more
        finally:
            self._moments, self._in_sequence = {}, False

    def _paths_of(self, layer: int) -> Iterator[str]:
        """The paths of a layer's matrices.

        Raises:
            BadSettings: the layer's MLP has no linear module of a name.
        """
        down = down_projection(self.lm.model, layer, self.settings.architecture)
        mlp = down.rpartition(".")[0]
        children = self.lm.model.get_submodule(mlp).named_children()
        known = [name for name, module in children if isinstance(module, nn.Linear | Conv1D)]
        for projection in self.settings.projections:
            name = down.rpartition(".")[2] if projection == "down_projection" else projection
            if name not in known:
                raise BadSettings(
                    f"editor '{self.name}': '{mlp}' has no linear module '{name}': --set {self.name}.projections takes "
                    f"{', '.join(known)}, or down_projection."
                )
            yield f"{mlp}.{name}"
