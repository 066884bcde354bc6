"""Check that an editor restored the model, since later probes must not run on an edited one."""

from typing import Any

from emend.memory.errors import BadSettings

# Values compared per tensor, evenly spaced: an edit changes at least whole rows or columns.
SAMPLES = 256
NAMED = 3


class RestoreCheck:
    """Comparison of a model with its state at the creation of this object.

    Names and shapes of all parameters and buffers, a sample of each tensor's values (bit for bit)
    and the number of forward hooks are compared. This takes milliseconds; comparing all weights
    would take longer than many edits.

    Args:
        model: a chat model; a model without local weights (no `lm`) always passes.
    """

    def __init__(self, model: Any) -> None:
        inner = getattr(getattr(model, "lm", None), "model", None)
        # the `lm` of a plug-in's model may be of any type
        self._model = inner if hasattr(inner, "named_parameters") else None
        self._before = self._state()

    def check(self, editor: str) -> None:
        """Compare the model with its earlier state.

        Raises:
            BadSettings: something differs; the message names it and the editor.
        """
        now = self._state()
        changed = [name for name in self._before | now if self._before.get(name) != now.get(name)]
        if changed:
            others = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
            raise BadSettings(
                f"editor '{editor}' did not put the model back when its edits ended: "
                f"{', '.join(changed[:NAMED])}{others} differ from before. The records so far are "
                "valid; the run stops here. Undo the edit at the end of edit() and sequence(), "
                "also after an exception (as apply_delta.applied does); then continue with emend "
                "resume."
            )

    def _state(self) -> dict[str, tuple[Any, ...]]:
        """Return shape, dtype and sampled values by tensor name, and hook counts by module name."""
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
    """Return the bytes of evenly spaced values, including the first and the last."""
    import torch

    if tensor.is_meta or not tensor.numel():  # offloaded to disk, or empty
        return b""
    flat = tensor.detach().reshape(-1)
    step = max(1, (flat.numel() - 1) // (SAMPLES - 1))
    values = torch.cat([flat[::step], flat[-1:]])
    return values.view(torch.uint8).cpu().numpy().tobytes()
