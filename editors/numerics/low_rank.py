"""What the editors that write at the subject share: keys in, low-rank deltas out."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.apply_delta import Deltas
from emend.editors.numerics.architectures import Architecture, input_first
from emend.editors.numerics.locate import Located
from emend.editors.numerics.padding import padded


class Factors(NamedTuple):
    """A delta of low rank as the product of two thin matrices, `left` (outputs, n) and `right` (n, inputs)."""

    left: Tensor
    right: Tensor

    def dense(self, module: nn.Module) -> Tensor:
        """The delta in the shape of the module's weight, float64."""
        product = self.left.double() @ self.right.double()
        return product.T if input_first(module) else product


def dense(model: nn.Module, factors: Mapping[str, Factors]) -> Deltas:
    """Deltas by parameter name."""
    return {f"{path}.weight": told.dense(model.get_submodule(path)) for path, told in factors.items()}


class Passed(NamedTuple):
    """What passed the subjects' last tokens: keys into a layer's down-projection, states out of a block."""

    keys: Tensor
    """Shape (rows, inputs), float32."""
    states: Tensor
    """Shape (rows, width), float32."""


def passing(lm: CausalLM, paths: Architecture, rows: Sequence[Located], layer: int, until: int) -> Passed:
    """Keys at `layer` and states out of block `until`, at the subject of each row; the pass ends there.

    The rows end with the subject's last token, since nothing after it can change what passes there.
    """
    keys: list[Tensor] = []
    states: list[Tensor] = []
    order = sorted(range(len(rows)), key=lambda n: rows[n].subject)
    size = max(1, lm.batch_tokens // (rows[order[-1]].subject + 1))
    for start in range(0, len(order), size):
        part = [rows[n].ids[: rows[n].subject + 1] for n in order[start : start + size]]
        key, state = _pass(lm, paths, part, layer, until)
        keys.append(key)
        states.append(state)
    back = torch.tensor(sorted(range(len(order)), key=order.__getitem__))
    return Passed(torch.cat(keys)[back], torch.cat(states)[back])


def _pass(
    lm: CausalLM, paths: Architecture, part: list[tuple[int, ...]], layer: int, until: int
) -> tuple[Tensor, Tensor]:
    ids, mask = padded(part, lm.tokenizer.pad_token_id)
    where = torch.arange(len(part), device=lm.device), torch.tensor([len(row) - 1 for row in part], device=lm.device)
    with torch.no_grad(), _stopping(lm.model, paths, layer, until) as seen:
        try:
            lm.model.base_model(input_ids=ids.to(lm.device), attention_mask=mask.to(lm.device), use_cache=False)
        except _Reached:
            pass
    key, state = (seen[name].reshape(*ids.shape, -1)[where].float() for name in ("key", "state"))
    return key, state


class _Reached(Exception):
    """Ends a pass after the last block that is looked at."""


@contextmanager
def _stopping(model: nn.Module, paths: Architecture, layer: int, until: int) -> Iterator[dict[str, Tensor]]:
    seen: dict[str, Tensor] = {}

    def entered(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen["key"] = inputs[0]

    def left(_: nn.Module, __: Any, output: Tensor | tuple[Tensor, ...]) -> None:
        seen["state"] = output[0] if isinstance(output, tuple) else output
        raise _Reached

    with ExitStack() as hooks:
        down = model.get_submodule(paths.of_layer(layer, "down_projection"))
        hooks.enter_context(down.register_forward_pre_hook(entered))
        hooks.enter_context(model.get_submodule(paths.of_layer(until, "block")).register_forward_hook(left))
        yield seen
