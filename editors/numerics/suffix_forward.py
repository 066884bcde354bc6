"""A batch of prompts that is run again and again from one layer on, at the places that can still change.

Nothing before the subject's last token, and nothing below the edited layer, depends on what an edit adds there. So
the rest is computed once: the hidden states that enter the layer, and the keys and values of the tokens in front.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from emend.agents.local.causal_lm import CausalLM
from emend.editors.costing import passed
from emend.editors.numerics.architectures import ARCHITECTURES, Architecture, layers_with
from emend.editors.numerics.padding import padded
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

    A model that keeps more of the tokens in front than keys and values, such as the state of a recurrence, reads whole
    prompts each time.

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
        self._whole = not _keeps_keys_alone(lm.model)
        at = [len(strip.front) * self._whole for strip in strips]
        self._rows, self._at = torch.arange(len(at), device=lm.device), torch.tensor(at, device=lm.device)
        if self._whole:
            strips = [Strip((), strip.front + strip.rest) for strip in strips]
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
            states[self._rows, self._at] = states[self._rows, self._at] + change.to(states.dtype)
        else:
            states = self.changed(change)
        for number in range(self.layer + 1, self.depth):
            states = self._block(number, states)
        norm: Callable[[Tensor], Tensor] = self.lm.model.get_submodule(self.paths.norm)
        return norm(self._from_place(states))

    def _from_place(self, states: Tensor) -> Tensor:
        """Hidden states from the place that changes on, where whole prompts are read; what is behind is repeated."""
        if not self._whole:
            return states
        width = states.shape[1]
        places = self._at[:, None] + torch.arange(width, device=states.device)
        return states[self._rows[:, None], places.clamp(max=width - 1)]

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
            apart = states.reshape(rows, places, -1)  # some MLPs see rows and places as one dimension
            return apart[self._rows, self._at].to(torch.float32, copy=True)

        def called(number: int) -> Callable[..., None]:
            return lambda _, args, kwargs: self._calls.update({number: (args, kwargs)})

        def ended(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            seen["key"], seen["value"] = first(inputs[0]), first(output)

        def left(_: nn.Module, __: tuple[Tensor, ...], output: Tensor | tuple[Tensor, ...]) -> None:
            self._after = _first(output)
            seen["state"] = first(self._after)

        blocks = {n: model.get_submodule(paths.of_layer(n, "block")) for n in range(self.layer, self.depth)}
        down = model.get_submodule(paths.of_layer(self.layer, "down_projection"))
        with ExitStack() as hooks:
            for number, block in blocks.items():
                hooks.enter_context(block.register_forward_pre_hook(called(number), with_kwargs=True))
            hooks.enter_context(blocks[self.layer].register_forward_hook(left))
            hooks.enter_context(down.register_forward_hook(ended))
            yield seen

    @contextmanager
    def _added(self, change: Tensor) -> Iterator[None]:
        def add(_: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> Tensor:
            changed = output.clone()
            rows = changed.view(len(change), -1, output.shape[-1])  # which some MLPs see as one with the places
            rows[self._rows, self._at] = rows[self._rows, self._at] + change.to(output.dtype)
            return changed

        path = self.paths.of_layer(self.layer, "down_projection")
        with self.lm.model.get_submodule(path).register_forward_hook(add):
            yield

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
    """Refuses a model whose logits are not what norm and head give, or whose blocks are not as the paths say.

    The blocks of a model outside the table are looked at from the first that has a down-projection on.

    Raises:
        BadSettings: the logits differ, so the paths are wrong or the model does more to them; its blocks give something
            else, or fail, when they are run once more; or `adds` is not true.
    """
    ids = torch.tensor([lm.encode(SAMPLE)], device=lm.device)
    normed: list[Tensor] = []
    norm = lm.model.get_submodule(paths.norm)
    with torch.no_grad(), norm.register_forward_hook(lambda _, __, output: normed.append(output)):
        whole = lm.model(input_ids=ids, use_cache=False).logits[0].float()
        head: Any = lm.model.get_submodule(paths.head)
        fits = normed[-1].shape[-1] == head.weight.shape[-1]
        ours = logits_of(lm, paths, normed[-1][0]) if fits else torch.zeros(0)
    if whole.shape != ours.shape or not _close(whole, ours, torch.finfo(lm.model.dtype).eps):
        raise BadSettings(
            f"logits of model type '{lm.model.config.model_type}' are not what '{paths.norm}' and '{paths.head}' give: "
            "correct norm and head in [architecture]; a model that does more to its logits cannot be edited so."
        )
    if paths != ARCHITECTURES.get(lm.model.config.model_type):  # those of the table are known to be as they say
        layer = layers_with(lm.model, "down_projection", paths.down_projection)[0]
        _check_tail(lm, paths, layer, whole)
        if paths.adds:
            _check_adds(lm, paths, layer)


def _close(whole: Tensor, ours: Tensor, step: float) -> bool:
    """Whether logits are the same but for rounding, `step` being the distance of numbers near 1 in their format."""
    size = float(whole.abs().max())
    return torch.allclose(whole, ours, rtol=max(1e-3, 2 * step), atol=max(1e-3, 2 * step * size))


def _check_tail(lm: CausalLM, paths: Architecture, layer: int, whole: Tensor) -> None:
    """Refuses a model whose blocks cannot be run apart from it: seen by a change that is none."""
    ids = lm.encode(SAMPLE)
    half, failed = len(ids) // 2, ""
    try:
        with torch.no_grad():
            tail = Tail(lm, paths, [Strip(ids[:half], ids[half:])], layer)
            ours = logits_of(lm, paths, tail.run(torch.zeros_like(tail.seen.value))[0])[: len(ids) - half]
    except Exception as error:  # noqa: BLE001  the blocks of an unknown model may raise anything
        failed = (str(error).strip() or type(error).__name__).partition("\n")[0].rstrip(".")
    else:
        if not _close(whole[half:], ours, torch.finfo(lm.model.dtype).eps):
            failed = "its logits are others"
    if failed:
        raise BadSettings(
            f"the blocks '{paths.block}' of model type '{lm.model.config.model_type}' cannot be run apart from it, "
            f"from layer {layer} on: {failed}. Correct block in [architecture], or take ft or lora."
        )


def _check_adds(lm: CausalLM, paths: Architecture, layer: int = 0) -> None:
    """Refuses a model that does something to the MLP's output before it is added: seen at that layer's block."""
    with torch.no_grad():
        tail = Tail(lm, paths, [Strip((), lm.encode(SAMPLE))], layer)
        state = tail.seen.state
        drawn = torch.randn(state.shape, generator=torch.Generator().manual_seed(0)).to(state.device)
        change = drawn * state.norm() / drawn.norm()  # of the state's size, so that rounding does not hide it
        moved = tail.changed(change)[:, 0].float() - state
    if not (moved - change).norm() <= 0.05 * change.norm():  # nor where it is no number
        raise BadSettings(
            f"what '{paths.down_projection}' gives does not reach the residual stream as it is: a norm or a factor is "
            f"behind it in model type '{lm.model.config.model_type}'. Add adds = false to [architecture]."
        )


def _keeps_keys_alone(model: Any) -> bool:
    """Whether what a model keeps of the tokens in front is keys and values of every layer, which can be put together.

    Recurrences, convolutions and linear attention keep states that have taken padding in, and change as they are read.
    """
    if "past_key_values" not in signature(model.base_model.forward).parameters:
        return False
    kinds = {type(layer) for layer in DynamicCache(config=model.config).layers}
    return kinds <= {DynamicLayer, DynamicSlidingWindowLayer}


def _on(lm: CausalLM, ids: Tensor, mask: Tensor, own: Tensor, before: Tensor | int = 0) -> dict[str, Any]:
    """What the model is called with; `own` is the mask of the ids alone, `before` the number of tokens in front."""
    places = (own.cumsum(1) - 1).clamp(min=0) + before
    fed = {"input_ids": ids, "attention_mask": mask, "position_ids": places}
    return {name: tensor.to(lm.device) for name, tensor in fed.items()}


def _first(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    return output[0] if isinstance(output, tuple) else output
