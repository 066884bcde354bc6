"""MEMIT (Meng et al. 2023): mass editing by least squares over several layers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from emend.agents.local.causal_lm import CausalLM
from emend.editors.base import Answerer, ApplyMore, EditorContext
from emend.editors.numerics.architectures import Architecture
from emend.editors.numerics.covariance import KeyCovariance
from emend.editors.numerics.locate import Located, locate
from emend.editors.numerics.low_rank import LowRankDelta, capture_keys
from emend.editors.numerics.value_search import ValueResult
from emend.editors.parametric.locate_then_edit import LocateThenEdit, LocateThenEditSettings
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings


@dataclass(frozen=True)
class MemitSettings(LocateThenEditSettings):
    """MEMIT's settings; `layers` ascend, and values are searched for at the last of them."""

    mom2_update_weight: Annotated[float, Field(gt=0)] = 15000.0
    """Weight (lambda) of the covariance relative to one edit."""
    cache_keys: bool = False
    """In a sequence, also weigh the keys of earlier calls.

    `MEMIT_seq` in AlphaEdit's code does so; MEMIT's own code does not.
    """


class Memit(LocateThenEdit):
    """MEMIT editor: writes edits into several layers, each taking part of the residual."""

    name: ClassVar[str] = "memit"
    value_site: ClassVar[Literal["mlp", "block"]] = "block"
    schema: ClassVar[type[LocateThenEditSettings]] = MemitSettings
    settings: MemitSettings

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self._earlier: dict[int, Tensor] = {}
        """Keys (K_p) of a sequence's earlier calls by layer, shape (edits, inputs), float64."""
        self._with_latest: dict[int, Tensor] = {}
        """The earlier keys together with those of the edits that were solved last."""

    @contextmanager
    def sequence(self) -> Iterator[ApplyMore]:
        """Collect the keys of each call for later calls; a new sequence starts without keys."""
        with super().sequence() as apply_more:

            def collecting(edits: Sequence[Edit]) -> Answerer:
                self._with_latest = {}
                answerer = apply_more(edits)
                # only after success: failed edits must leave no keys
                self._earlier |= self._with_latest
                return answerer

            self._earlier = {}
            try:
                yield collecting
            finally:
                self._earlier, self._with_latest = {}, {}

    def earlier_keys(self, layer: int, keys: Tensor) -> Tensor:
        """Return the keys (K_p) of earlier calls, (edits, inputs), float64; record these keys."""
        earlier = self._earlier.get(layer, keys[:0].double())
        # A layer's keys do not depend on its own weights, and the layers below are already written,
        # so the model has the same keys once the edits are applied.
        self._with_latest[layer] = torch.cat([earlier, keys.double()])
        return earlier

    def check_layers(self) -> None:
        """Refuse layers not in ascending order, and several layers if a norm follows the MLP."""
        check_spread(self.name, self.settings.layers, self.layers, self.paths)

    def deltas(self, edits: Sequence[Edit], values: ValueResult) -> dict[str, LowRankDelta]:
        """Return the layers' updates (Algorithm 1), with keys and residual measured per layer."""
        targets = (values.value + values.change).cpu()
        located = [locate(self.lm, edit, self.prefixes, self.settings.fact_token) for edit in edits]

        def update(layer: int, left: int) -> LowRankDelta:
            keys, states = self._keys_and_states(located, layer, self.layers[-1])
            return self.layer_update(layer, keys, (targets - states).double() / left)

        return spread_deltas(self.lm, self.paths, self.layers, update)

    def layer_update(self, layer: int, keys: Tensor, residual: Tensor) -> LowRankDelta:
        """Return the least-squares update (eq. 14), see `least_squares_update`.

        If keys are cached, K_p K_p^T is added: earlier keys are extra columns of K with a residual
        of zero.
        """
        if self.settings.cache_keys:
            earlier = self.earlier_keys(layer, keys)
            keys = torch.cat([keys.double(), earlier])
            residual = torch.cat([residual, residual.new_zeros(len(earlier), residual.shape[1])])
        return least_squares_update(
            self.covariance, self.settings.mom2_update_weight, layer, keys, residual
        )

    def _keys_and_states(
        self, located: Sequence[Sequence[Located]], layer: int, last: int
    ) -> tuple[Tensor, Tensor]:
        """Return averaged keys (edits, inputs), and output states (edits, width) of `last`.

        The states are those of the bare prompts.
        """
        rows = [row for per_edit in located for row in per_edit]
        captured = capture_keys(self.lm, self.paths, rows, layer, last)
        keys, states = (
            tensor.reshape(len(located), len(self.prefixes), -1).cpu() for tensor in captured
        )
        if len(self.prefixes) == 1:
            return keys[:, 0], states[:, 0]
        # As in the published code, the bare prompt weighs as much as all contexts together.
        return (keys[:, 0] + keys[:, 1:].mean(1)) / 2, states[:, 0]


def spread_deltas(
    lm: CausalLM,
    paths: Architecture,
    layers: Sequence[int],
    update: Callable[[int, int], LowRankDelta],
) -> dict[str, LowRankDelta]:
    """Return the deltas by parameter name, each solved with the layers below already written.

    `update` returns a layer's delta, given the layer and the number of remaining layers that share
    the residual.
    """
    deltas: dict[str, LowRankDelta] = {}
    with ExitStack() as stack:
        for number, layer in enumerate(layers):
            path = paths.of_layer(layer, "down_projection")
            delta = deltas[f"{path}.weight"] = update(layer, len(layers) - number)
            if layer != layers[-1]:
                stack.enter_context(_written(lm.model.get_submodule(path), delta))
    return deltas


@contextmanager
def _written(module: nn.Module, delta: LowRankDelta) -> Iterator[None]:
    """Add the delta to the module's weight inside the `with`; restore it bit for bit at the end."""
    weight: Tensor = module.weight  # type: ignore[assignment]
    original = weight.detach().clone()
    try:
        delta.add_to(module)
        yield
    finally:
        with torch.no_grad():
            weight.copy_(original)


def check_spread(
    editor: str, named: Sequence[int], layers: Sequence[int], paths: Architecture
) -> None:
    """Refuse layers not in ascending order, and several layers if a norm follows the MLP.

    Args:
        editor: the editor's name, for the error.
        named: the layers as given in the settings.
        layers: the same layers, from 0.
        paths: module paths of the model.

    Raises:
        BadSettings: the method cannot write to these layers.
    """
    # a layer's residual is measured with the layers below it written
    if list(layers) != sorted(set(layers)):
        raise BadSettings(
            f"editor '{editor}' writes to each layer once, from the lowest upwards, not to layers "
            f"{list(named)} ({list(layers)} in this model): sort them."
        )
    if len(layers) > 1 and not paths.adds:  # a lower layer's share is unknown before the norm
        raise BadSettings(
            f"editor '{editor}' spreads values over layers {list(layers)}, but the norm between "
            "MLP and residual stream of this model prevents that: name one layer, --set "
            f"{editor}.layers=[{layers[-1]}]."
        )


def least_squares_update(
    covariance: KeyCovariance, weight: float, layer: int, keys: Tensor, residual: Tensor
) -> LowRankDelta:
    """Return the update R K^T (lambda C + K K^T)^-1 (Meng et al. 2023, eq. 14).

    By the Woodbury identity it equals R (lambda + K^T C^-1 K)^-1 K^T C^-1, in which the inverted
    matrix has only shape (keys, keys).

    Args:
        covariance: C by layer.
        weight: lambda.
        layer: the layer whose covariance is used.
        keys: K^T, shape (keys, inputs).
        residual: R^T, the outputs to be added, shape (keys, outputs), float64.
    """
    solved = covariance.solve(layer, keys.T)
    inner = keys.double() @ solved + weight * torch.eye(len(keys), dtype=torch.float64)
    return LowRankDelta(torch.linalg.solve(inner, residual).T, solved.T)
