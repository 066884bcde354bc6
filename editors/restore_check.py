"""Check that an editor restored the model; otherwise later probes would run on an edited one."""

from typing import Any

from emend.memory.errors import BadSettings

SAMPLES = 256
"""Values compared per tensor, spread over it: an edit writes to whole rows or columns at least."""
NAMED = 3


class RestoreCheck:
    """Compares a model with its state when this object was created.

    It compares the names and shapes of all parameters and buffers, some values of each, bit for bit, and the number of
    forward hooks. That takes milliseconds; comparing all weights would take longer than many an edit.

    Args:
        model: a chat model; one without local weights (`lm`) always passes.
    """

    def __init__(self, model: Any) -> None:
        inner = getattr(getattr(model, "lm", None), "model", None)
        self._model = inner if hasattr(inner, "named_parameters") else None  # a plug-in's `lm` may be anything
        self._before = self._state()

    def check(self, editor: str) -> None:
        """Compare again.

        Raises:
            BadSettings: something differs; names it, and the editor.
        """
        now = self._state()
        changed = [name for name in self._before | now if self._before.get(name) != now.get(name)]
        if changed:
            others = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
            raise BadSettings(
                f"editor '{editor}' did not put the model back when its edits ended: "
                f"{', '.join(changed[:NAMED])}{others} differ from before. The records so far are valid; the run ends "
                "here. Undo the edit at the end of edit() and sequence(), whatever happens inside "
                "(apply_delta.applied does); then continue with emend resume."
            )

    def _state(self) -> dict[str, tuple[Any, ...]]:
        """Shape, number format and sampled values by tensor, and the number of hooks by module."""
        if self._model is None:
            return {}
        state: dict[str, tuple[Any, ...]] = {}
        for name, tensor in [*self._model.named_parameters(), *self._model.named_buffers()]:
            state[name] = (tuple(tensor.shape), str(tensor.dtype), _sample(tensor))
        for name, module in self._model.named_modules():
            if hooks := len(module._forward_hooks) + len(module._forward_pre_hooks):
                state[f"hooks of {name or 'the model'}"] = (hooks,)
        return state


def _sample(tensor: Any) -> bytes:
    """The bytes of some values, from the first to the last."""
    import torch

    if tensor.is_meta or not tensor.numel():  # a weight that is offloaded to disk
        return b""
    flat = tensor.detach().reshape(-1)
    step = max(1, (flat.numel() - 1) // (SAMPLES - 1))
    values = torch.cat([flat[::step], flat[-1:]])
    return values.view(torch.uint8).cpu().numpy().tobytes()
