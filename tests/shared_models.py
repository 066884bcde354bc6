"""Models that are made once for many tests, and looked after: a test that leaves one changed fails by itself."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import torch


class SharedModels:
    """Makes each model once, and finds out whether it is still what it was.

    A model is a `CausalLM`, or a chat model that has one as its `lm`.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[Any, dict[str, Any]]] = {}

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The model of this name, made if there is none."""
        if key not in self._made:
            model = make()
            self._made[key] = model, {name: _copied(value) for name, value in _seen(model).items()}
        return self._made[key][0]

    def __iter__(self) -> Iterator[Any]:
        return (model for model, _ in self._made.values())

    def check(self) -> None:
        """Fails for the test that has just run if it left a model changed; those after it get a new one."""
        for key, (model, before) in list(self._made.items()):
            now = _seen(model)
            changed = [name for name in before | now if not _same(before.get(name), now.get(name))]
            if changed:
                del self._made[key]
            assert not changed, f"this test left the shared model {key} changed: {changed[:3]}; give it one of its own."


def _seen(model: Any) -> dict[str, Any]:
    """All weights by name, and the number of hooks of each module."""
    state: dict[str, Any] = {}
    for name, module in getattr(model, "lm", model).model.named_modules():
        state[f"hooks of {name or 'the model'}"] = len(module._forward_hooks) + len(module._forward_pre_hooks)
        for key, value in (*module._parameters.items(), *module._buffers.items()):
            state[f"{name}.{key}"] = value
    return state


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _same(before: Any, now: Any) -> bool:
    if isinstance(before, torch.Tensor) and isinstance(now, torch.Tensor):
        return before.dtype == now.dtype and torch.equal(before, now)
    return bool(before == now)
