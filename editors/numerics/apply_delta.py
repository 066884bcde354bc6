"""Changing a model's weights for a while: deltas on, and the original tensors back bit for bit."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any, Self
from weakref import WeakSet

import torch
from torch import Tensor, nn

from emend.memory.errors import BadSettings

Deltas = Mapping[str, Tensor]
"""Parameter name to what is added to it: same shape, float32 or wider."""
WITHOUT_DOUBLES = ("mps",)
"""Devices that have no float64."""

_edited: WeakSet[nn.Module] = WeakSet()
_guard = Lock()


@contextmanager
def applied(model: nn.Module, deltas: Deltas, lock: AbstractContextManager[Any] | None = None) -> Iterator[None]:
    """Inside the `with` the deltas are in the weights; on leaving it, even by an exception, the originals are back.

    The originals are kept and copied back, since subtracting a delta again is not exact. Sums are formed in the
    delta's precision and rounded once. `lock` is held while weights are written, not while the edit stands.

    Raises:
        BadSettings: another edit stands on this model; the two would restore each other's weights.
    """
    if not deltas:
        yield
        return
    with Stack(model, lock) as stack:
        stack.add(deltas)
        yield


class Stack:
    """Deltas put on one another inside a `with`; on leaving it, even by an exception, the original tensors are back.

    One copy of each changed tensor is kept, however many deltas come; otherwise as `applied`, which is a stack of one.

    Raises:
        BadSettings: on entering, when another edit stands on this model.
    """

    def __init__(self, model: nn.Module, lock: AbstractContextManager[Any] | None = None) -> None:
        self._model = model
        self._writing = lock or nullcontext()
        self._parameters = dict(model.named_parameters())
        self._kept: dict[str, Tensor] = {}

    def __enter__(self) -> Self:
        _claim(self._model)
        return self

    def add(self, deltas: Deltas) -> None:
        """Add to the weights as they are now; a delta that does not fit raises, and then none of them is added."""
        now = {name: self._parameters[name].detach() for name in deltas}
        for name, delta in deltas.items():
            if delta.shape != now[name].shape:
                raise RuntimeError(f"delta of '{name}': {tuple(delta.shape)} for {tuple(now[name].shape)}.")
        with self._writing, torch.no_grad():
            again = {name: tensor.clone() for name, tensor in now.items() if name in self._kept}
            self._kept |= {name: tensor.clone() for name, tensor in now.items() if name not in self._kept}
            try:
                for name, delta in deltas.items():
                    now[name].copy_(summed(now[name], delta))
            except BaseException:  # memory ran out between two of them
                for name, tensor in now.items():
                    tensor.copy_(again.get(name, self._kept[name]))
                raise

    def __exit__(self, *error: object) -> None:
        try:
            with self._writing, torch.no_grad():
                for name, original in self._kept.items():
                    self._parameters[name].copy_(original)
        finally:
            _release(self._model)


def summed(weight: Tensor, delta: Tensor) -> Tensor:
    """Weight and delta in the delta's precision, or rounded to the weight's where its device has no such numbers."""
    if delta.dtype == torch.float64 and weight.device.type in WITHOUT_DOUBLES:
        return (weight.cpu().double() + delta.cpu()).to(weight.dtype)
    return weight.to(delta.dtype) + delta.to(weight.device)


def _claim(model: nn.Module) -> None:
    with _guard:
        if model in _edited:
            raise BadSettings(
                "an edit stands on this model's weights already: leave its 'with' first, or run one unit at a time."
            )
        _edited.add(model)


def _release(model: nn.Module) -> None:
    with _guard:
        _edited.discard(model)
