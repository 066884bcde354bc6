"""Temporary weight changes: deltas are added, and the original tensors restored bit for bit."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any, Self
from weakref import WeakSet

import torch
from torch import Tensor, nn

from emend.editors.numerics.low_rank import WITHOUT_DOUBLES, LowRankDelta
from emend.memory.errors import BadSettings

# Deltas by parameter name: a tensor of the parameter's shape, float32 or wider, or a low-rank
# product.
Deltas = Mapping[str, Tensor | LowRankDelta]

_edited: WeakSet[nn.Module] = WeakSet()
_guard = Lock()


@contextmanager
def applied(
    model: nn.Module, deltas: Deltas, lock: AbstractContextManager[Any] | None = None
) -> Iterator[None]:
    """Add the deltas to the weights inside the `with`, and restore the originals bit for bit.

    The originals are copied back, since subtracting a delta is not exact. Sums are computed in the
    delta's precision and rounded once. `lock` is held only while weights are written.

    Raises:
        BadSettings: another edit is applied to this model; the two would restore each other's
            weights.
    """
    if not deltas:
        yield
        return
    with DeltaStack(model, lock) as stack:
        stack.add(deltas)
        yield


def is_edited(model: nn.Module) -> bool:
    """Return True while a `DeltaStack` of this model is open."""
    with _guard:
        return model in _edited


class DeltaStack:
    """Deltas added one after another inside a `with`, which restores the originals at its end.

    Only one copy of each changed tensor is kept, independent of the number of deltas.

    Raises:
        BadSettings: on entering, another edit is applied to this model.
    """

    def __init__(self, model: nn.Module, lock: AbstractContextManager[Any] | None = None) -> None:
        self._model = model
        self._writing = lock or nullcontext()
        self._parameters = dict(model.named_parameters())
        self._originals: dict[str, Tensor] = {}

    def __enter__(self) -> Self:
        with _guard:
            if self._model in _edited:
                raise BadSettings(
                    "another edit is applied to this model's weights: leave its 'with' first, or "
                    "run one unit at a time."
                )
            _edited.add(self._model)
        return self

    def add(self, deltas: Deltas) -> None:
        """Add deltas to the current weights; if one of them does not fit, none is added."""
        tensors = {name: self._parameters[name].detach() for name in deltas}
        for name, delta in deltas.items():
            if isinstance(delta, LowRankDelta):
                shape = delta.shape_in(self._module(name))
            else:
                shape = tuple(delta.shape)
            if shape != tuple(tensors[name].shape):
                raise RuntimeError(f"delta of '{name}': {shape} for {tuple(tensors[name].shape)}.")
        with self._writing, torch.no_grad():
            before = {
                name: tensor.clone() for name, tensor in tensors.items() if name in self._originals
            }
            self._originals |= {
                n: tensor.clone() for n, tensor in tensors.items() if n not in self._originals
            }
            try:
                for name, delta in deltas.items():
                    if isinstance(delta, LowRankDelta):
                        delta.add_to(self._module(name))
                    else:
                        tensors[name].copy_(summed(tensors[name], delta))
            except BaseException:  # memory may run out between two deltas
                for name, tensor in tensors.items():
                    tensor.copy_(before.get(name, self._originals[name]))
                raise

    def _module(self, name: str) -> nn.Module:
        return self._model.get_submodule(name.removesuffix(".weight"))

    def __exit__(self, *error: object) -> None:
        try:
            with self._writing, torch.no_grad():
                for name, original in self._originals.items():
                    self._parameters[name].copy_(original)
        finally:
            with _guard:
                _edited.discard(self._model)


def summed(weight: Tensor, delta: Tensor) -> Tensor:
    """Return weight plus delta, in the delta's precision if the device supports it."""
    if delta.dtype == torch.float64 and weight.device.type in WITHOUT_DOUBLES:
        return (weight.cpu().double() + delta.cpu()).to(weight.dtype)
    return weight.to(delta.dtype) + delta.to(weight.device)
