"""Whether an editor left a model as it found it: whatever is asked afterwards is else asked of an edited model."""

from typing import Any

from emend.memory.errors import BadSettings

SAMPLES = 256
"""Values that are looked at of each tensor, spread over it: an edit writes to whole rows or columns at least."""
NAMED = 3


class Untouched:
    """Compares a model with what it was when this was made.

    It looks at the names and shapes of all parameters and buffers, at some values of each, bit for bit, and at the
    number of forward hooks. That takes milliseconds; comparing all weights would take longer than many an edit.

    Args:
        model: a chat model; one that has no local weights (`lm`) is never found changed.
    """

    def __init__(self, model: Any) -> None:
        inner = getattr(getattr(model, "lm", None), "model", None)
        self._model = inner if hasattr(inner, "named_parameters") else None  # a plug-in's `lm` may be anything
        self._before = self._seen()

    def check(self, editor: str) -> None:
        """Compare once more.

        Raises:
            BadSettings: something is not as it was; names it, and the editor.
        """
        now = self._seen()
        changed = [name for name in self._before | now if self._before.get(name) != now.get(name)]
        if changed:
            more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
            raise BadSettings(
                f"editor '{editor}' did not put the model back when its edits ended: "
                f"{', '.join(changed[:NAMED])}{more} differ from before. What is recorded was asked while they stood; "
                "nothing more is asked of this model. Undo the edit at the end of edit() and sequence(), whatever "
                "happens inside (editors.weights.applied does); then go on with emend resume."
            )

    def _seen(self) -> dict[str, tuple[Any, ...]]:
        """What is compared, by name."""
        if self._model is None:
            return {}
        found: dict[str, tuple[Any, ...]] = {}
        for name, tensor in [*self._model.named_parameters(), *self._model.named_buffers()]:
            found[name] = (tuple(tensor.shape), str(tensor.dtype), _values(tensor))
        hooks = {f"hooks of {name or 'the model'}": len(module._forward_hooks) + len(module._forward_pre_hooks)
                 for name, module in self._model.named_modules()}  # fmt: skip
        return found | {name: (count,) for name, count in hooks.items() if count}


def _values(tensor: Any) -> bytes:
    """The bits of some values, from the first to the last."""
    import torch

    if tensor.is_meta or not tensor.numel():  # a weight that is kept on disk until it is needed
        return b""
    flat = tensor.detach().reshape(-1)
    step = max(1, (flat.numel() - 1) // (SAMPLES - 1))
    some = torch.cat([flat[::step], flat[-1:]])
    return some.view(torch.uint8).cpu().numpy().tobytes()
