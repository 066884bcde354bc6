"""UltraEdit (Gu et al. 2025): lifelong editing in closed form with normalised gradients."""

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
    """Settings of UltraEdit, named as in the published files if possible."""

    lr: Annotated[float, Field(gt=0)]
    """Step size (eta)."""
    layers: Annotated[tuple[int, ...], Field(min_length=1)]
    """Layers to edit; from 0, or from -1 at the end."""
    projections: Annotated[tuple[str, ...], Field(min_length=1)] = ("down_projection",)
    """Matrices of each layer's MLP: `down_projection`, or names such as gate_proj and up_proj."""
    batch_size_once: Annotated[int, Field(ge=1)] = 10
    """Number of edits in one pass."""
    architecture: dict[str, str | bool] = field(default_factory=dict)
    """Module paths by name, for architectures that `editors.numerics.architectures` lacks."""


class RunningMoments:
    """Running mean and standard deviation of features (Welford; Chan et al. 1983 for batches)."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean, self._squares = torch.zeros(size), torch.zeros(size)

    def update(self, features: Tensor) -> None:
        """Update the moments with features of shape (tokens, size)."""
        number = len(features)
        total = self.count + number
        delta = features.mean(0) - self.mean
        # The published code weights a batch's unbiased variance by its number of tokens.
        spread = features.var(0, correction=min(1, number - 1))
        self._squares += number * spread + self.count * number * delta**2 / total
        self.mean += number * delta / total
        self.count = total

    def normalise(self, features: Tensor) -> Tensor:
        """Return the features, standardised with the running mean and standard deviation."""
        tiny = torch.finfo(features.dtype).eps
        return (features - self.mean) / ((self._squares / (self.count - 1 + tiny)).sqrt() + tiny)


class UltraEdit(WeightEditor):
    """UltraEdit editor: solves for one update per matrix from the edits' normalised gradients."""

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
        """The edited matrices."""
        return {"matrices": self.modules}

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """Return the deltas by parameter name; the model is not changed.

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
            batches = [
                retry_on_oom(self.lm, partial(gradient_pairs, self.lm, self.modules, part))
                for part in parts
            ]
        pairs = []
        for of_module in zip(*batches, strict=True):
            pairs.append(self._take_in(of_module))
        return {
            f"{path}.weight": self._delta(path, *each)
            for path, each in zip(self.modules, pairs, strict=True)
        }

    def _take_in(self, batches: Sequence[GradientPairs]) -> tuple[GradientPairs, RunningMoments]:
        """Return a module's pairs in one, and the updated moments of all matrices of its shape."""
        shape = batches[0].inputs.shape[1], batches[0].gradients.shape[1]
        moments = self._moments.setdefault(shape, RunningMoments(sum(shape)))
        for batch in batches:
            moments.update(torch.cat(batch, dim=1))
        return GradientPairs(*map(torch.cat, zip(*batches, strict=True))), moments

    def _delta(
        self, path: str, pairs: GradientPairs, moments: RunningMoments
    ) -> Tensor | LowRankDelta:
        """Return the update (H^T H + I)^-1 H^T V.

        V is -eta |h|^2 g for each token's normalised h and g.

        With fewer tokens than inputs it equals H^T (H H^T + I)^-1 V, which inverts the smaller
        matrix.
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
        """Normalise over all calls of a sequence; a new sequence starts with empty moments."""
        self._moments, self._in_sequence = {}, True
        try:
            with super().sequence() as apply_more:
                yield apply_more
        finally:
            self._moments, self._in_sequence = {}, False

    def _paths_of(self, layer: int) -> Iterator[str]:
        """Yield the paths of a layer's edited matrices.

        Raises:
            BadSettings: the layer's MLP lacks a linear module of that name.
        """
        down = down_projection(self.lm.model, layer, self.settings.architecture)
        mlp = down.rpartition(".")[0]
        children = self.lm.model.get_submodule(mlp).named_children()
        known = [name for name, module in children if isinstance(module, nn.Linear | Conv1D)]
        for projection in self.settings.projections:
            name = down.rpartition(".")[2] if projection == "down_projection" else projection
            if name not in known:
                raise BadSettings(
                    f"editor '{self.name}': '{mlp}' has no linear module '{name}': --set "
                    f"{self.name}.projections takes {', '.join(known)}, or down_projection."
                )
            yield f"{mlp}.{name}"
