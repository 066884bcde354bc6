"""Repeated forward passes from one layer on, with changes at one token, or changed weights.

An edit changes nothing before the subject's last token and nothing below the edited layer. So these
are computed once: the hidden states at the input of the layer, and the keys and values of the
tokens in front. In the block above the layer, the attention's projections read only the token that
changes; in the last block, the MLP reads only the positions whose output is needed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer
from transformers.pytorch_utils import Conv1D

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.kv_cache import cache_arguments, takes_cache
from emend.agents.local.offload import is_offloaded
from emend.editors.cost import add_tokens
from emend.editors.numerics.architectures import ARCHITECTURES, Architecture, layers_with
from emend.editors.numerics.passes import first_output, padded, replaced_forward
from emend.memory.errors import BadSettings

# Module paths needed here.
PARTS = ("block", "down_projection", "norm", "head")
# Prompt that checks a model's structure before it is edited.
SAMPLE = "The capital of France is Paris."


class PromptSplit(NamedTuple):
    """A prompt, split before the token at which a change is added."""

    front: tuple[int, ...]
    rest: tuple[int, ...]
    fixed: tuple[tuple[int, Tensor], ...] = ()
    """Changes, shape (width,), added permanently to tokens of `front`, with their positions."""


class _FrontLayer(DynamicLayer):
    """Fixed keys and values of the tokens in front, for repeated passes that add none to them."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lazy_initialization(keys, values)
        self.keys: Tensor = keys
        self.values: Tensor = values

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Return the fixed keys and values, followed by the new ones."""
        return torch.cat([self.keys, key_states], dim=-2), torch.cat(
            [self.values, value_states], dim=-2
        )


class SuffixForward:
    """The blocks from the edited layer on, run with a change at the first token of each `rest`.

    The weights below the layer must not change meanwhile; for `run`, no weight may. A model whose
    cache holds more than keys and values of the tokens in front, such as the state of a recurrence,
    reads whole prompts each time.

    Args:
        lm: the model.
        paths: its module paths.
        prompts: the prompts, padded into one batch.
        layer: the edited layer, from 0.
        every_place: the last block's MLP reads all positions, for a hook on it; otherwise only the
            positions whose output is needed.
    """

    def __init__(
        self,
        lm: CausalLM,
        paths: Architecture,
        prompts: Sequence[PromptSplit],
        layer: int,
        every_place: bool = False,
    ) -> None:
        self.lm, self.paths, self.layer = lm, paths, layer
        self._every_place = every_place
        config: Any = lm.model.config
        self.depth: int = config.get_text_config().num_hidden_layers
        self._offloaded = is_offloaded(lm.model)
        self._known = paths == ARCHITECTURES.get(config.model_type)
        self._whole = not _caches_only_keys_and_values(lm.model)
        places = [len(prompt.front) * self._whole for prompt in prompts]
        self._rows = torch.arange(len(places), device=lm.device)
        self._places = torch.tensor(places, device=lm.device)
        if self._whole:
            prompts = [
                PromptSplit((), prompt.front + prompt.rest, prompt.fixed) for prompt in prompts
            ]
        self.front = max(len(prompt.front) for prompt in prompts)
        self._fixed = [
            (row, place + self.front - len(prompt.front), change)
            for row, prompt in enumerate(prompts)
            for place, change in prompt.fixed
        ]
        """Row, column and value of each permanent change in a pass over the tokens in front."""
        self._tokens = sum(len(prompt.rest) for prompt in prompts)
        self._calls: dict[int, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self._outputs: list[str] = []
        """Paths of the output projections of the last block's attention."""
        self._projections: dict[nn.Module, Tensor] = {}
        """Outputs of the next block's query, key and value projections in the unedited model."""
        self.captured: dict[str, Tensor] = {}
        """Activations of the unedited model at the token that changes, shape (rows, width).

        They are `key` at the input of the layer's down-projection, `value` at its output and
        `state` at the block's output.
        """
        inputs = self._inputs(prompts)
        with torch.no_grad():
            caching: dict[str, Any] = {"use_cache": False}
            if self.front:
                caching = cache_arguments(lm.model, self._front_cache(prompts))
            with self._fixed_changes(self._whole), self._capturing(*inputs["input_ids"].shape):
                lm.model.base_model(**inputs, **caching)

    def run(self, change: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Return hidden states after the last norm, shape (n, width), with `change` added.

        `change`, shape (rows, width), is added to the output of the layer's down-projection at the
        first position of each row's `rest`. The n states are those at the distinct pairs of `rows`
        and `places`; positions count from the token that changes.
        """
        # in this case adding it to the block's output is equivalent, and saves running the block
        if self.paths.adds:
            states = self._after.clone()
            states[self._rows, self._places] = states[self._rows, self._places] + change.to(
                states.dtype
            )
        else:
            states = self._recomputed(self.edited_block, change)
        return self._ends(states, self.layer + 1, rows, places)

    def run_again(self, rows: Tensor, places: Tensor) -> Tensor:
        """Return hidden states like `run` without a change, under the current weights."""
        return self._ends(self._before, self.layer, rows, places)

    def _ends(self, states: Tensor, first: int, rows: Tensor, places: Tensor) -> Tensor:
        """Return hidden states after the last norm, from those that enter the block `first`."""
        add_tokens(self._tokens)
        places = places + self._places[rows]
        for number in range(first, self.depth):
            states = self._recomputed(partial(self._block_for, number, first, rows, places), states)
        norm: Callable[[Tensor], Tensor] = self.lm.model.get_submodule(self.paths.norm)
        return norm(states[rows, places])

    def _recomputed(self, run: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
        """Return the output, whose backward pass reloads offloaded weights."""
        if not self._offloaded or not torch.is_grad_enabled():
            return run(states)
        output: Tensor = checkpoint(run, states, use_reentrant=False, preserve_rng_state=False)
        return output

    def _block_for(
        self, number: int, first: int, rows: Tensor, places: Tensor, states: Tensor
    ) -> Tensor:
        """Return the output of a block; in the last block it is valid only at these positions."""
        with ExitStack() as stack:
            # the states at the other positions equal those of the unedited model
            if number == self.layer + 1 == first:
                for module, output in self._projections.items():
                    stack.enter_context(_only_at(module, self._rows, self._places, output))
            for module in self._last_modules if number == self.depth - 1 else ():
                stack.enter_context(_only_at(module, rows, places, torch.zeros_like(states)))
            return self._block(number, states)

    @cached_property
    def _last_modules(self) -> list[nn.Module]:
        """Modules after the last block's attention, if known to act position by position."""
        mlp = self.paths.of_layer(self.depth - 1, "down_projection").rpartition(".")[0]
        # The projection of an unknown model may belong to a recurrence.
        if not self._known or self._whole or self._every_place:
            return []
        paths = self._outputs + [mlp] * (mlp != self.paths.of_layer(self.depth - 1, "block"))
        return [self.lm.model.get_submodule(path) for path in paths]

    def _module(self, number: int, part: str) -> nn.Module:
        module: nn.Module = self.lm.model.get_submodule(self.paths.of_layer(number, part))
        return module

    def edited_block(self, change: Tensor) -> Tensor:
        """Return the edited block's output with `change` added after its down-projection."""
        place = self._rows, self._places
        with self._fixed_changes(self._whole), self._added("down_projection", *place, change):
            return self._block(self.layer, self._before)

    def block_output(self, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """Return the output of the edited layer's block, shape (rows, positions, width).

        `weights` replace the block's own, by name.
        """
        args, kwargs = self._calls[self.layer]
        block = self._module(self.layer, "block")
        return first_output(
            functional_call(block, dict(weights or {}), (self._before, *args), kwargs)
        )

    def _front_cache(self, prompts: Sequence[PromptSplit]) -> Cache:
        """Return keys and values of the tokens in front, left-padded to end before `rest`."""
        ids, mask = padded(
            [prompt.front for prompt in prompts], self.lm.tokenizer.pad_token_id, left=True
        )
        # without the configuration, layers with a sliding window keep all tokens too
        cache = DynamicCache()
        with self._fixed_changes(True):
            self.lm.model.base_model(
                **_inputs(self.lm, ids, mask, mask), **cache_arguments(self.lm.model, cache)
            )
        layers: list[Any] = cache.layers
        return Cache(layers=[_FrontLayer(layer.keys, layer.values) for layer in layers])

    def _inputs(self, prompts: Sequence[PromptSplit]) -> dict[str, Any]:
        pad = self.lm.tokenizer.pad_token_id
        ids, mask = padded([prompt.rest for prompt in prompts], pad, left=False)
        if not self.front:
            return _inputs(self.lm, ids, mask, mask)
        _, before = padded([prompt.front for prompt in prompts], pad, left=True)
        return _inputs(
            self.lm, ids, torch.cat([before, mask], dim=1), mask, before.sum(1, keepdim=True)
        )

    @contextmanager
    def _capturing(self, rows: int, places: int) -> Iterator[None]:
        """Keep the blocks' arguments, the edited block's output and the captured activations."""

        def at_place(states: Tensor) -> Tensor:
            # some MLPs merge rows and positions into one dimension
            states = states.reshape(rows, places, -1)
            # A copy, since some blocks add to the MLP's output in place later.
            return states[self._rows, self._places].to(torch.float32, copy=True)

        def on_call(number: int) -> Callable[..., None]:
            def keep(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                if number == self.layer:
                    self._before = args[0]
                self._calls[number] = args[1:], kwargs

            return keep

        def on_value(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            self.captured |= {"key": at_place(args[0]), "value": at_place(output)}

        def on_state(
            _: nn.Module, __: tuple[Tensor, ...], output: Tensor | tuple[Tensor, ...]
        ) -> None:
            self._after = first_output(output)
            self.captured["state"] = at_place(self._after)
            self._further = () if isinstance(output, Tensor) else output[1:]

        def skip(states: Tensor, *_: Any, **__: Any) -> Tensor | tuple[Tensor, ...]:
            return (states, *self._further) if self._further else states

        blocks = {number: self._module(number, "block") for number in range(self.layer, self.depth)}
        with ExitStack() as hooks:
            for number, block in blocks.items():
                hooks.enter_context(
                    block.register_forward_pre_hook(on_call(number), with_kwargs=True)
                )
            hooks.enter_context(blocks[self.layer].register_forward_hook(on_state))
            hooks.enter_context(
                self._module(self.layer, "down_projection").register_forward_hook(on_value)
            )
            if self._known and not self._whole:  # above, only the arguments are needed
                hooks.enter_context(
                    replaced_forward({blocks[n]: skip for n in range(self.layer + 2, self.depth)})
                )
                hooks.enter_context(self._capturing_projections())
            yield

    @contextmanager
    def _capturing_projections(self) -> Iterator[None]:
        """Keep the inputs and outputs of the next block's attention projections."""
        calls: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        above = self.layer + 1
        if above == self.depth:
            yield
            return
        attention = self.paths.of_layer(above, "query").rpartition(".")[0]
        modules = self.lm.model.get_submodule(attention).named_modules()
        linear = {
            path: module for path, module in modules if isinstance(module, nn.Linear | Conv1D)
        }

        def keep(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            calls[module] = args[0], output

        with ExitStack() as hooks:
            for module in linear.values():
                hooks.enter_context(module.register_forward_hook(keep))
            yield
        read, _ = calls[self._module(above, "query")]
        self._projections = {
            module: output for module, (states, output) in calls.items() if states is read
        }
        last = self.paths.of_layer(self.depth - 1, "query").rpartition(".")[0]
        self._outputs = [
            f"{last}.{path}" for path, module in linear.items() if module not in self._projections
        ]

    def _fixed_changes(self, front_is_read: bool) -> AbstractContextManager[Any]:
        """Add the permanent changes inside the `with`, for a pass over the tokens in front."""
        if not (front_is_read and self._fixed):
            return nullcontext()
        rows, columns, changes = zip(*self._fixed, strict=True)
        return self._added(
            "block" if self.paths.adds else "down_projection", rows, columns, torch.stack(changes)
        )

    def _added(
        self, part: str, rows: Any, places: Any, changes: Tensor
    ) -> AbstractContextManager[Any]:
        """Add changes, shape (n, width), to the output of a module of the edited layer."""

        def add(_: nn.Module, __: tuple[Tensor, ...], output: Any) -> Any:
            changed = first_output(output).clone()
            # some MLPs merge rows and positions into one dimension
            by_row = changed.view(len(self._rows), -1, changed.shape[-1])
            by_row[rows, places] = by_row[rows, places] + changes.to(changed.dtype)
            return changed if isinstance(output, Tensor) else (changed, *output[1:])

        return self._module(self.layer, part).register_forward_hook(add)

    def _block(self, number: int, states: Tensor) -> Tensor:
        args, kwargs = self._calls[number]
        return first_output(self._module(number, "block")(states, *args, **kwargs))


@contextmanager
def _only_at(module: nn.Module, rows: Tensor, places: Tensor, others: Tensor) -> Iterator[None]:
    """Run a position-wise module at some positions only, with `others` as output elsewhere."""

    def gather(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (args[0][rows, places][None], *args[1:])

    def scatter(_: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return others.index_put((rows, places), output[0])

    with module.register_forward_pre_hook(gather), module.register_forward_hook(scatter):
        yield


def compute_logits(lm: CausalLM, paths: Architecture, states: Tensor) -> Tensor:
    """Return float32 logits (rows, vocabulary) of normed hidden states (rows, width)."""
    head: Callable[[Tensor], Tensor] = lm.model.get_submodule(paths.head)
    config: Any = lm.model.config.get_text_config()
    # scaled and capped in the model's dtype, since the model rounds there
    logits = head(states)
    scale = getattr(config, "logit_scale", None)
    cap = getattr(config, "final_logit_softcapping", None)
    logits = logits if scale is None else logits * scale
    return (logits if cap is None else cap * torch.tanh(logits / cap)).float()


def check_logits(lm: CausalLM, paths: Architecture) -> None:
    """Refuse a model whose logits or blocks do not follow the module paths.

    The logits must be those of norm and head. For a model outside the table of architectures, the
    blocks from the first one with a down-projection on are checked too.

    Raises:
        BadSettings: the logits differ, so that the paths are wrong or the model transforms its
            logits further; the blocks fail or give another result when they are run separately; or
            `adds` is wrong.
    """
    ids = torch.tensor([lm.encode(SAMPLE)], device=lm.device)
    normed: list[Tensor] = []
    norm = lm.model.get_submodule(paths.norm)
    with torch.no_grad(), norm.register_forward_hook(lambda _, __, output: normed.append(output)):
        logits = lm.model(input_ids=ids, use_cache=False).logits[0].float()
        head: Any = lm.model.get_submodule(paths.head)
        fits = normed[-1].shape[-1] == head.weight.shape[-1]
        ours = compute_logits(lm, paths, normed[-1][0]) if fits else torch.zeros(0)
    if logits.shape != ours.shape or not _close(logits, ours, torch.finfo(lm.model.dtype).eps):
        raise BadSettings(
            f"logits of model type '{lm.model.config.model_type}' are not the output of "
            f"'{paths.norm}' and '{paths.head}': correct norm and head in [architecture]; a model "
            "that transforms its logits further is not supported."
        )
    # the architectures of the table are known to be right
    if paths != ARCHITECTURES.get(lm.model.config.model_type):
        layer = layers_with(lm.model, "down_projection", paths.down_projection)[0]
        _check_suffix(lm, paths, layer, logits)
        if paths.adds:
            _check_adds(lm, paths, layer)


def _close(logits: Tensor, ours: Tensor, eps: float) -> bool:
    """Return True if logits differ only by rounding; `eps` is their dtype's machine epsilon."""
    size = float(logits.abs().max())
    return torch.allclose(logits, ours, rtol=max(1e-3, 2 * eps), atol=max(1e-3, 2 * eps * size))


def _check_suffix(lm: CausalLM, paths: Architecture, layer: int, logits: Tensor) -> None:
    """Refuse a model whose logits differ when its blocks are run separately."""
    ids = lm.encode(SAMPLE)
    half, problem = len(ids) // 2, ""
    try:
        with torch.no_grad():
            suffix = SuffixForward(lm, paths, [PromptSplit(ids[:half], ids[half:])], layer)
            places = torch.arange(len(ids) - half, device=lm.device)
            states = suffix.run(
                torch.zeros_like(suffix.captured["value"]), torch.zeros_like(places), places
            )
            ours = compute_logits(lm, paths, states)
    except Exception as error:  # noqa: BLE001  the blocks of an unknown model may raise anything
        problem = (str(error).strip() or type(error).__name__).partition("\n")[0].rstrip(".")
    else:
        if not _close(logits[half:], ours, torch.finfo(lm.model.dtype).eps):
            problem = "its logits differ"
    if problem:
        raise BadSettings(
            f"the blocks '{paths.block}' of model type '{lm.model.config.model_type}' cannot be "
            f"run separately, from layer {layer} on: {problem}. Correct block in [architecture], "
            "or use ft or lora."
        )


def _check_adds(lm: CausalLM, paths: Architecture, layer: int = 0) -> None:
    """Refuse a model that transforms the MLP's output before adding it to the residual stream."""
    with torch.no_grad():
        suffix = SuffixForward(lm, paths, [PromptSplit((), lm.encode(SAMPLE))], layer)
        state = suffix.captured["state"]
        noise = torch.randn(state.shape, generator=torch.Generator().manual_seed(0)).to(
            state.device
        )
        # as large as the state, so that rounding does not hide it
        change = noise * state.norm() / noise.norm()
        moved = suffix.edited_block(change)[:, 0].float() - state
    if not (moved - change).norm() <= 0.05 * change.norm():  # also refuses NaN
        raise BadSettings(
            f"the output of '{paths.down_projection}' does not reach the residual stream "
            "unchanged: a norm or a factor follows it in model type "
            f"'{lm.model.config.model_type}'. Add adds = false to [architecture]."
        )


def _caches_only_keys_and_values(model: Any) -> bool:
    """Return True if the model's cache holds only keys and values, in every layer.

    These can be concatenated. Recurrences, convolutions and linear attention keep states that
    include padding and change with every token.
    """
    if not takes_cache(model):
        return False
    kinds = {type(layer) for layer in DynamicCache(config=model.config).layers}
    return kinds <= {DynamicLayer, DynamicSlidingWindowLayer}


def _inputs(
    lm: CausalLM, ids: Tensor, mask: Tensor, ids_mask: Tensor, before: Tensor | int = 0
) -> dict[str, Any]:
    """Return the model's arguments.

    `ids_mask` is the mask of `ids` alone, `before` the number of tokens in front.
    """
    places = (ids_mask.cumsum(1) - 1).clamp(min=0) + before
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": places}
    return {name: tensor.to(lm.device) for name, tensor in inputs.items()}
