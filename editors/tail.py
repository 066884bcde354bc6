"""A batch of prompts that is run again and again from one layer on, at the places that can still change.

Nothing before the subject's last token, and nothing below the edited layer, depends on what an edit adds there. So
the rest is computed once: the hidden states that enter the layer, and the keys and values of the tokens in front.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from emend.agents.causal_lm import CausalLM
from emend.editors.architectures import ARCHITECTURES, Architecture
from emend.editors.costing import passed
from emend.editors.padding import padded
from emend.memory.errors import BadSettings

SAMPLE = "The capital of France is Paris."
"""What a model is looked at with before it is edited."""


class Strip(NamedTuple):
    """One prompt: the tokens in front of the place that changes, and those from it on."""

    front: tuple[int, ...]
    rest: tuple[int, ...]


class Seen(NamedTuple):
    """What passed at the place that changes, unedited: shape (rows, width) each."""

    key: Tensor
    """Into the layer's down-projection."""
    value: Tensor
    """Out of it."""
    state: Tensor
    """Out of the block."""


class _Front(DynamicLayer):
    """Keys and values in front, to which what follows is joined without being kept, so that a pass can be repeated."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lazy_initialization(keys, values)
        self.keys: Tensor = keys
        self.values: Tensor = values

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Front and new together."""
        return torch.cat([self.keys, key_states], dim=-2), torch.cat([self.values, value_states], dim=-2)


class Tail:
    """The blocks above `layer`, ready to be run from given hidden states.

    Args:
        lm: the model, whose weights must not change while this lives.
        paths: its module paths.
        strips: the prompts; the place that changes is the first of `rest`.
        layer: the edited layer, from 0.
    """

    def __init__(self, lm: CausalLM, paths: Architecture, strips: Sequence[Strip], layer: int) -> None:
        self.lm, self.paths, self.layer = lm, paths, layer
        config: Any = lm.model.config
        self.depth: int = config.get_text_config().num_hidden_layers
        self.front = max(len(strip.front) for strip in strips)
        self._tokens = sum(len(strip.rest) for strip in strips)
        self._calls: dict[int, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        with torch.no_grad():
            self.seen = self._capture(strips)

    def run(self, change: Tensor) -> Tensor:
        """Hidden states after the last norm, shape (rows, places, width), once `change` (rows, width) is added.

        `change` is added to what the layer's down-projection gives at the first place of each row.
        """
        passed(self._tokens)
        if self.paths.adds:  # then adding it to the block's output is the same sum, and saves running the block
            states = self._after.clone()
            states[:, 0] = states[:, 0] + change.to(states.dtype)
        else:
            states = self.changed(change)
        for number in range(self.layer + 1, self.depth):
            states = self._block(number, states)
        norm: Callable[[Tensor], Tensor] = self.lm.model.get_submodule(self.paths.norm)
        return norm(states)

    def changed(self, change: Tensor) -> Tensor:
        """Out of the edited layer's block, run once more with `change` added behind its down-projection."""
        with self._added(change):
            return self._block(self.layer, self._before)

    def _capture(self, strips: Sequence[Strip]) -> Seen:
        """One pass over everything, which keeps how each block above was called."""
        fed = self._fed(strips)
        if self.front:
            fed["past_key_values"] = self._in_front(strips)
        with self._watching(*fed["input_ids"].shape) as first:
            self.lm.model.base_model(**fed, use_cache=bool(self.front))
        self._before = self._calls[self.layer][0][0]
        return Seen(**first)

    def _in_front(self, strips: Sequence[Strip]) -> Cache:
        """Keys and values of the tokens in front, padded on the left, so that they end where the rest begins."""
        ids, mask = padded([strip.front for strip in strips], self.lm.tokenizer.pad_token_id, left=True)
        cache = DynamicCache()  # without the configuration, layers with a sliding window keep everything as well
        self.lm.model.base_model(**_on(self.lm, ids, mask, mask), past_key_values=cache, use_cache=True)
        kept: list[Any] = cache.layers
        return Cache(layers=[_Front(layer.keys, layer.values) for layer in kept])

    def _fed(self, strips: Sequence[Strip]) -> dict[str, Any]:
        pad = self.lm.tokenizer.pad_token_id
        ids, mask = padded([strip.rest for strip in strips], pad, left=False)
        if not self.front:
            return _on(self.lm, ids, mask, mask)
        _, before = padded([strip.front for strip in strips], pad, left=True)
        return _on(self.lm, ids, torch.cat([before, mask], dim=1), mask, before.sum(1, keepdim=True))

    @contextmanager
    def _watching(self, rows: int, places: int) -> Iterator[dict[str, Tensor]]:
        """Keeps how the blocks are called and what leaves the first; lends what passes at the first places."""
        seen: dict[str, Tensor] = {}
        model, paths = self.lm.model, self.paths

        def first(states: Tensor) -> Tensor:
            """Copied, since some blocks go on to add to the MLP's output in place."""
            at = states.reshape(rows, places, -1)[:, 0]  # some MLPs see rows and places as one dimension
            return at.to(torch.float32, copy=True)

        def called(number: int) -> Callable[..., None]:
            return lambda _, args, kwargs: self._calls.update({number: (args, kwargs)})

        def ended(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            seen["key"], seen["value"] = first(inputs[0]), first(output)

        def left(_: nn.Module, __: tuple[Tensor, ...], output: Tensor | tuple[Tensor, ...]) -> None:
            self._after = _first(output)
            seen["state"] = first(self._after)

        blocks = [model.get_submodule(paths.of_layer(n, "block")) for n in range(self.layer, self.depth)]
        handles = [
            block.register_forward_pre_hook(called(self.layer + n), with_kwargs=True) for n, block in enumerate(blocks)
        ]
        handles.append(blocks[0].register_forward_hook(left))
        handles.append(model.get_submodule(paths.of_layer(self.layer, "down_projection")).register_forward_hook(ended))
        try:
            yield seen
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def _added(self, change: Tensor) -> Iterator[None]:
        def add(_: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> Tensor:
            changed = output.clone()
            rows = changed.view(len(change), -1, output.shape[-1])  # which some MLPs see as one with the places
            rows[:, 0] = rows[:, 0] + change.to(output.dtype)
            return changed

        path = self.paths.of_layer(self.layer, "down_projection")
        handle = self.lm.model.get_submodule(path).register_forward_hook(add)
        try:
            yield
        finally:
            handle.remove()

    def _block(self, number: int, states: Tensor) -> Tensor:
        args, kwargs = self._calls[number]
        block = self.lm.model.get_submodule(self.paths.of_layer(number, "block"))
        return _first(block(states, *args[1:], **kwargs))


def logits_of(lm: CausalLM, paths: Architecture, states: Tensor) -> Tensor:
    """Logits (rows, vocabulary), float32, of hidden states (rows, width) that have passed the last norm."""
    head: Callable[[Tensor], Tensor] = lm.model.get_submodule(paths.head)
    config: Any = lm.model.config.get_text_config()
    logits = head(states)  # scaled and capped in the model's own format, since the model rounds there
    scale = getattr(config, "logit_scale", None)
    cap = getattr(config, "final_logit_softcapping", None)
    logits = logits if scale is None else logits * scale
    return (logits if cap is None else cap * torch.tanh(logits / cap)).float()


def check_logits(lm: CausalLM, paths: Architecture) -> None:
    """Refuses a model whose logits are not what norm and head give, or to whose residual stream a layer adds otherwise.

    Raises:
        BadSettings: they differ, so the paths are wrong or the model does more to its logits; or `adds` is not true.
    """
    ids = torch.tensor([lm.encode(SAMPLE)], device=lm.device)
    normed: list[Tensor] = []
    handle = lm.model.get_submodule(paths.norm).register_forward_hook(lambda _, __, output: normed.append(output))
    try:
        with torch.no_grad():
            whole = lm.model(input_ids=ids, use_cache=False).logits[0].float()
            head: Any = lm.model.get_submodule(paths.head)
            fits = normed[-1].shape[-1] == head.weight.shape[-1]
            ours = logits_of(lm, paths, normed[-1][0]) if fits else torch.zeros(0)
    finally:
        handle.remove()
    if whole.shape != ours.shape or not _close(whole, ours, torch.finfo(lm.model.dtype).eps):
        raise BadSettings(
            f"logits of model type '{lm.model.config.model_type}' are not what '{paths.norm}' and '{paths.head}' give: "
            "correct norm and head in [architecture]; a model that does more to its logits cannot be edited so."
        )
    if paths.adds and paths != ARCHITECTURES.get(lm.model.config.model_type):  # those of the table are known to
        _check_adds(lm, paths)


def _close(whole: Tensor, ours: Tensor, step: float) -> bool:
    """Whether logits are the same but for rounding, `step` being the distance of numbers near 1 in their format."""
    size = float(whole.abs().max())
    return torch.allclose(whole, ours, rtol=max(1e-3, 2 * step), atol=max(1e-3, 2 * step * size))


def _check_adds(lm: CausalLM, paths: Architecture) -> None:
    """Refuses a model that does something to the MLP's output before it is added: seen at the first layer's block."""
    with torch.no_grad():
        tail = Tail(lm, paths, [Strip((), lm.encode(SAMPLE))], 0)
        state = tail.seen.state
        drawn = torch.randn(state.shape, generator=torch.Generator().manual_seed(0)).to(state.device)
        change = drawn * state.norm() / drawn.norm()  # of the state's size, so that rounding does not hide it
        moved = tail.changed(change)[:, 0].float() - state
    if not (moved - change).norm() <= 0.05 * change.norm():  # nor where it is no number
        raise BadSettings(
            f"what '{paths.down_projection}' gives does not reach the residual stream as it is: a norm or a factor is "
            f"behind it in model type '{lm.model.config.model_type}'. Add adds = false to [architecture]."
        )


def _on(lm: CausalLM, ids: Tensor, mask: Tensor, own: Tensor, before: Tensor | int = 0) -> dict[str, Any]:
    """What the model is called with; `own` is the mask of the ids alone, `before` the number of tokens in front."""
    places = (own.cumsum(1) - 1).clamp(min=0) + before
    fed = {"input_ids": ids, "attention_mask": mask, "position_ids": places}
    return {name: tensor.to(lm.device) for name, tensor in fed.items()}


def _first(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    return output[0] if isinstance(output, tuple) else output
