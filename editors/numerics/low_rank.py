"""Keys in, low-rank deltas out: the numerics that ROME, MEMIT and AlphaEdit share."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import Architecture, input_first
from emend.editors.numerics.locate import Located
from emend.editors.numerics.padding import padded


class LowRankDelta(NamedTuple):
    """A delta of low rank as the product of two thin matrices, `left` (outputs, n) and `right` (n, inputs)."""

    left: Tensor
    right: Tensor

    def dense(self, module: nn.Module) -> Tensor:
        """The delta in the shape of the module's weight, float64."""
        product = self.left.double() @ self.right.double()
        return product.T if input_first(module) else product

    def shape_in(self, module: nn.Module) -> tuple[int, ...]:
        """The shape of the delta in the module's weight."""
        shape = len(self.left), self.right.shape[1]
        return shape[::-1] if input_first(module) else shape


class KeysAndStates(NamedTuple):
    """Activations at the subject's last token: keys into a down-projection, states out of a block."""

    keys: Tensor
    """Shape (rows, inputs), float32."""
    states: Tensor
    """Shape (rows, width), float32."""


def capture_keys(lm: CausalLM, paths: Architecture, rows: Sequence[Located], layer: int, last: int) -> KeysAndStates:
    """Keys into `layer`'s down-projection and states out of block `last`, at the subject of each row.

    The rows end with the subject's last token, since nothing after it can change what is read there, and the pass ends
    with block `last`. Published code calls this `compute_ks`.
    """
    keys: list[Tensor] = []
    states: list[Tensor] = []
    order = sorted(range(len(rows)), key=lambda n: rows[n].subject)
    size = max(1, lm.batch_tokens // (rows[order[-1]].subject + 1))
    for start in range(0, len(order), size):
        part = [rows[n].ids[: rows[n].subject + 1] for n in order[start : start + size]]
        key, state = _last_token_activations(lm, paths, part, layer, last)
        keys.append(key)
        states.append(state)
    back = torch.tensor(sorted(range(len(order)), key=order.__getitem__))
    return KeysAndStates(torch.cat(keys)[back], torch.cat(states)[back])


def _last_token_activations(
    lm: CausalLM, paths: Architecture, part: list[tuple[int, ...]], layer: int, last: int
) -> tuple[Tensor, Tensor]:
    ids, mask = padded(part, lm.tokenizer.pad_token_id)
    ends = torch.arange(len(part), device=lm.device), torch.tensor([len(row) - 1 for row in part], device=lm.device)
    with torch.no_grad(), _hooks(lm.model, paths, layer, last) as captured:
        try:
            lm.model.base_model(input_ids=ids.to(lm.device), attention_mask=mask.to(lm.device), use_cache=False)
        except _LastBlockDone:
            pass
    key, state = (captured[name].reshape(*ids.shape, -1)[ends].float() for name in ("key", "state"))
    return key, state


class _LastBlockDone(Exception):
    """Ends a forward pass after the last block that is read."""


@contextmanager
def _hooks(model: nn.Module, paths: Architecture, layer: int, last: int) -> Iterator[dict[str, Tensor]]:
    captured: dict[str, Tensor] = {}

    def on_key(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        captured["key"] = inputs[0]

    def on_state(_: nn.Module, __: Any, output: Tensor | tuple[Tensor, ...]) -> None:
        captured["state"] = output[0] if isinstance(output, tuple) else output
        raise _LastBlockDone

    with ExitStack() as hooks:
        down = model.get_submodule(paths.of_layer(layer, "down_projection"))
        hooks.enter_context(down.register_forward_pre_hook(on_key))
        hooks.enter_context(model.get_submodule(paths.of_layer(last, "block")).register_forward_hook(on_state))
        yield captured
