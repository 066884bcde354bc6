"""Keys and low-rank deltas: the numerics shared by ROME, MEMIT and AlphaEdit."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import Architecture, input_first
from emend.editors.numerics.locate import Located
from emend.editors.numerics.passes import first_output, padded
from emend.memory.embeddings.threads import one_thread

# Devices without float64.
WITHOUT_DOUBLES = ("mps",)
# Elements of a weight that are converted to float64 at a time when a low-rank delta is added.
CHUNK_ELEMENTS = 1 << 18


class LowRankDelta(NamedTuple):
    """A low-rank delta as the product of `left` (outputs, n) and `right` (n, inputs)."""

    left: Tensor
    right: Tensor

    @torch.no_grad()
    def add_to(self, module: nn.Module) -> None:
        """Add the delta to the module's weight in float64, in chunks, rounding once."""
        weight: Tensor = module.weight  # type: ignore[assignment]
        home = torch.device("cpu") if weight.device.type in WITHOUT_DOUBLES else weight.device
        left, right = (factor.to(home, torch.float64) for factor in self)
        if input_first(module):
            left, right = right.T, left.T
        rows = max(1, CHUNK_ELEMENTS // weight.shape[1])
        with one_thread():  # on a busy machine threads would wait for each other at every chunk
            for start in range(0, len(weight), rows):
                piece = weight[start : start + rows]
                piece.copy_(piece.to(home, torch.float64).addmm_(left[start : start + rows], right))

    def shape_in(self, module: nn.Module) -> tuple[int, ...]:
        """Return the delta's shape in the layout of the module's weight."""
        shape = len(self.left), self.right.shape[1]
        return shape[::-1] if input_first(module) else shape


class _LastModuleDone(Exception):
    """Signal that ends a forward pass after the last module that is read."""


def capture_keys(
    lm: CausalLM, paths: Architecture, rows: Sequence[Located], layer: int, last: int
) -> tuple[Tensor, Tensor]:
    """Return keys of `layer` and output states of block `last`, at each row's subject.

    Shapes are (rows, inputs) and (rows, width), float32. Rows are cut after the subject, since
    later tokens have no effect there. Published code calls this `compute_ks`.
    """
    keys: list[Tensor] = []
    states: list[Tensor] = []
    order = sorted(range(len(rows)), key=lambda n: rows[n].subject)
    size = max(1, lm.batch_tokens // (rows[order[-1]].subject + 1))
    for start in range(0, len(order), size):
        part = [rows[n].ids[: rows[n].subject + 1] for n in order[start : start + size]]
        captured, state, mask = activations(lm, paths, part, [layer], last)
        ends = torch.arange(len(part), device=lm.device), mask.sum(1) - 1
        keys.append(captured[layer].reshape(*mask.shape, -1)[ends].float())
        states.append(state.reshape(*mask.shape, -1)[ends].float())
    back = torch.tensor(sorted(range(len(order)), key=order.__getitem__))
    return torch.cat(keys)[back], torch.cat(states)[back]


def activations(
    lm: CausalLM,
    paths: Architecture,
    rows: Sequence[tuple[int, ...]],
    layers: Sequence[int],
    block: int | None = None,
) -> tuple[dict[int, Tensor], Tensor, Tensor]:
    """Return keys by layer, the output states of a block, and the mask of the padded rows.

    The pass ends after the last module that is read. Some MLPs merge rows and positions into one
    dimension.
    """
    ids, mask = (tensor.to(lm.device) for tensor in padded(rows, lm.tokenizer.pad_token_id))
    keys: dict[int, Tensor] = {}
    states = [torch.zeros(0)]

    def on_keys(layer: int, inputs: tuple[Tensor, ...]) -> None:
        keys[layer] = inputs[0]
        if block is None and layer == max(layers):
            raise _LastModuleDone

    def on_state(_: nn.Module, __: Any, output: Tensor | tuple[Tensor, ...]) -> None:
        states[0] = first_output(output)
        raise _LastModuleDone

    with ExitStack() as hooks, suppress(_LastModuleDone), torch.no_grad():
        for layer in layers:
            down = lm.model.get_submodule(paths.of_layer(layer, "down_projection"))
            hook = down.register_forward_pre_hook(
                lambda _, inputs, layer=layer: on_keys(layer, inputs)
            )
            hooks.enter_context(hook)
        if block is not None:
            module = lm.model.get_submodule(paths.of_layer(block, "block"))
            hooks.enter_context(module.register_forward_hook(on_state))
        lm.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    return keys, states[0], mask
