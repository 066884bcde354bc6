"""AnyEdit (Jiang et al. 2025): autoregressive editing of long targets, with a value per window.

A window's change is searched for with those of earlier windows applied. All values are then written
by a base editor: block training as in `unke`, or least squares as in `memit`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from emend.agents.local.offload import keep_loaded
from emend.agents.local.prefixes import Ids
from emend.editors.numerics.apply_delta import Deltas
from emend.editors.numerics.architectures import check_width
from emend.editors.numerics.covariance import load_covariance
from emend.editors.numerics.low_rank import LowRankDelta, activations
from emend.editors.numerics.oom_retry import retry_on_oom
from emend.editors.numerics.training.window_search import LongTarget, WindowValue, split_windows
from emend.editors.parametric.documents.unke import Unke, UnkeSettings
from emend.editors.parametric.memit import check_spread, least_squares_update, spread_deltas
from emend.memory.errors import BadSettings


@dataclass(frozen=True, kw_only=True)
class AnyEditSettings(UnkeSettings):
    """Settings of AnyEdit, named as in the published hyper-parameter files if possible."""

    base: Literal["unke", "memit"] = "unke"
    """The editor that writes the values: `unke` (into a block) or `memit` (down-projections)."""
    layers: Annotated[tuple[int, ...], Field(min_length=1)]
    """The edited layers, ascending; only one with base `unke`. From 0, or from -1 at the end."""
    window_size: Annotated[int, Field(ge=1)] = 40
    """Number of tokens per window."""
    overlap: Annotated[int, Field(ge=0)] = 0
    """Number of a window's last tokens that the next one learns again; below `window_size`."""
    covariance: str = "collected"
    """Key covariance for `memit`: `collected`, a folder, `tinyworld`, or `identity` for none."""
    mom2_update_weight: Annotated[float, Field(gt=0)] = 15000.0
    """Weight of the covariance relative to one value, with base `memit`."""


class AnyEdit(Unke):
    """AnyEdit editor: gives the token before each window a value that generates the window."""

    name: ClassVar[str] = "anyedit"
    schema: ClassVar[type[UnkeSettings]] = AnyEditSettings
    settings: AnyEditSettings

    def prepare(self) -> None:
        """Load what the base editor needs: block and preserved texts, or matrices and covariance.

        Raises:
            BadSettings: windows that do not advance, several layers for base `unke`, or layers that
                are not in ascending order.
            MissingData: base `memit` has no covariance of these layers.
        """
        settings = self.settings
        if settings.overlap >= settings.window_size:
            raise BadSettings(
                f"{self.name}.overlap={settings.overlap} with windows of {settings.window_size} "
                f"tokens: set a smaller {self.name}.overlap, or a larger {self.name}.window_size."
            )
        if settings.base == "memit":
            self._prepare_memit()
            return
        if len(self.layers) > 1:
            raise BadSettings(
                f"{self.name}.layers={list(settings.layers)}, but base 'unke' trains one block: "
                f"set {self.name}.layers=[{settings.layers[-1]}], or {self.name}.base=memit."
            )
        super().prepare()

    def _prepare_memit(self) -> None:
        check_spread(self.name, self.settings.layers, self.layers, self.paths)
        check_width(self.lm.model, self.paths, self.layers)
        keep_loaded(
            self.lm.model, (self.paths.of_layer(layer, "down_projection") for layer in self.layers)
        )
        self.covariance = load_covariance(
            self.lm, self.paths, self.layers, self.settings.covariance
        )
        retry_on_oom(self.lm, partial(self.covariance.factorise, self.lm, self.paths, self.layers))

    @property
    def target_modules(self) -> dict[str, Any]:
        """The edited layers, and a digest of the preserved texts or the covariance's provenance."""
        if self.settings.base == "unke":
            return super().target_modules
        return {"layers": self.layers, "covariance": self.covariance.provenance(self.layers)}

    def windows(self, target: LongTarget) -> list[tuple[int, int]]:
        """Return first token and end of each window."""
        return split_windows(
            target.start, len(target.ids), self.settings.window_size, self.settings.overlap
        )

    def context_ids(self, target: LongTarget) -> Ids:
        """Return the tokens at which the layer's output is fixed: prompt and target."""
        return target.ids[: self.lm.window or None]

    def write(
        self, targets: Sequence[LongTarget], values: Sequence[Sequence[WindowValue]]
    ) -> Deltas:
        """Return the deltas with which the base editor writes the values."""
        if self.settings.base == "unke":
            return super().write(targets, values)
        texts = [self.context_ids(target) for target in targets]

        def update(layer: int, left: int) -> LowRankDelta:
            keys, residual = self._keys_and_residual(texts, values, layer)
            return least_squares_update(
                self.covariance, self.settings.mom2_update_weight, layer, keys, residual / left
            )

        return spread_deltas(self.lm, self.paths, self.layers, update)

    def _keys_and_residual(
        self, texts: Sequence[Ids], values: Sequence[Sequence[WindowValue]], layer: int
    ) -> tuple[Tensor, Tensor]:
        """Return a layer's keys at all tokens, and the residuals of the last layer's output.

        Residuals are zero except at the values' tokens.

        Shapes are (tokens, inputs) and (tokens, width), float64 on the CPU. In the published code
        the keys at other tokens are preserved in addition to the covariance.
        """
        keys: list[Tensor] = []
        residuals: list[Tensor] = []
        for ids, of_text in zip(texts, values, strict=True):
            captured, states, _ = activations(self.lm, self.paths, [ids], [layer], self.layers[-1])
            state = states.reshape(len(ids), -1).double()
            residual = torch.zeros_like(state)
            for value in of_text:
                residual[value.place] = (value.original + value.change).double() - state[
                    value.place
                ]
            keys.append(captured[layer].reshape(len(ids), -1).double().cpu())
            residuals.append(residual.cpu())
        return torch.cat(keys), torch.cat(residuals)
