"""Changing a model's weights for a while: deltas on, and the original tensors back bit for bit."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from emend.memory.errors import BadSettings

Deltas = Mapping[str, Tensor]
"""Parameter name to what is added to it: same shape, float32 or wider."""

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
    writing = lock or nullcontext()
    parameters = dict(model.named_parameters())
    kept = {name: parameters[name].detach().clone() for name in deltas}
    _claim(model)
    try:
        with writing, torch.no_grad():
            for name, delta in deltas.items():
                parameters[name].copy_(kept[name].to(delta.dtype) + delta.to(kept[name].device))
        yield
    finally:
        with writing, torch.no_grad():
            for name, original in kept.items():
                parameters[name].copy_(original)
        _release(model)


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
