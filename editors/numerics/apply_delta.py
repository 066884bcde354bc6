"""Temporary changes of a model's weights: deltas are added, and the original tensors come back bit for bit."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any, Self
from weakref import WeakSet

import torch
from torch import Tensor, nn

from emend.editors.numerics.low_rank import WITHOUT_DOUBLES, LowRankDelta
from emend.memory.errors import BadSettings

Deltas = Mapping[str, Tensor | LowRankDelta]
"""Parameter name to what is added to it: a tensor of its shape, float32 or wider, or a product of thin matrices."""

_edited: WeakSet[nn.Module] = WeakSet()
_guard = Lock()


@contextmanager
def applied(model: nn.Module, deltas: Deltas, lock: AbstractContextManager[Any] | None = None) -> Iterator[None]:
    """Add the deltas to the weights inside the `with`, and restore the original tensors at its end, bit for bit.

    The originals are copied back, since subtracting a delta again is not exact. Sums are formed in the delta's
    precision and rounded once. `lock` is held while weights are written, not while the edit is applied.

    Raises:
        BadSettings: another edit is applied to this model; the two would restore each other's weights.
    """
    if not deltas:
        yield
        return
    with DeltaStack(model, lock) as stack:
        stack.add(deltas)
        yield


def is_edited(model: nn.Module) -> bool:
    """True while a `DeltaStack` of this model is open."""
    with _guard:
        return model in _edited


class DeltaStack:
    """Deltas added one after another inside a `with`, at whose end the original tensors are restored.

    One copy of each changed tensor is kept, however many deltas are added.

    Raises:
        BadSettings: on entering, when another edit is applied to this model.
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
                    "another edit is applied to this model's weights: leave its 'with' first, or run one unit at a "
                    "time."
                )
            _edited.add(self._model)
        return self

    def add(self, deltas: Deltas) -> None:
        """Add to the weights as they are now; a delta that does not fit raises, and then none of them is added."""
        tensors = {name: self._parameters[name].detach() for name in deltas}
        for name, delta in deltas.items():
            shape = delta.shape_in(self._module(name)) if isinstance(delta, LowRankDelta) else tuple(delta.shape)
            if shape != tuple(tensors[name].shape):
                raise RuntimeError(f"delta of '{name}': {shape} for {tuple(tensors[name].shape)}.")
        with self._writing, torch.no_grad():
            before = {name: tensor.clone() for name, tensor in tensors.items() if name in self._originals}
            self._originals |= {n: tensor.clone() for n, tensor in tensors.items() if n not in self._originals}
            try:
                for name, delta in deltas.items():
                    if isinstance(delta, LowRankDelta):
                        delta.add_to(self._module(name))
                    else:
                        tensors[name].copy_(summed(tensors[name], delta))
            except BaseException:  # memory may run out between two of them
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
    """Weight plus delta in the delta's precision; rounded to the weight's where the device has no float64."""
    if delta.dtype == torch.float64 and weight.device.type in WITHOUT_DOUBLES:
        return (weight.cpu().double() + delta.cpu()).to(weight.dtype)
    return weight.to(delta.dtype) + delta.to(weight.device)
