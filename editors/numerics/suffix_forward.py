"""Forward passes of a batch of prompts from one layer on, repeated with different changes at one token, or weights.

Nothing before the subject's last token, and nothing below the edited layer, depends on what an edit adds there. So
the rest is computed once: the hidden states that enter the layer, and the keys and values of the tokens in front. In
the block above the layer, attention's projections read only the token that changes; in the last block, the MLP reads
only the places whose output is asked for.
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

PARTS = ("block", "down_projection", "norm", "head")
"""Module paths that are used here."""
SAMPLE = "The capital of France is Paris."
"""The prompt with which a model's structure is checked before it is edited."""


class PromptSplit(NamedTuple):
    """A prompt, split before the token at which a change is added."""

    front: tuple[int, ...]
    rest: tuple[int, ...]
    fixed: tuple[tuple[int, Tensor], ...] = ()
    """Changes, shape (width,), that stay at tokens of `front`, by place."""


class _FrontLayer(DynamicLayer):
    """Fixed keys and values of the tokens in front; later ones are appended without being kept, for repeated passes."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lazy_initialization(keys, values)
        self.keys: Tensor = keys
        self.values: Tensor = values

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Front and new together."""
        return torch.cat([self.keys, key_states], dim=-2), torch.cat([self.values, value_states], dim=-2)


class SuffixForward:
    """The blocks from the edited layer on, ready to be run with a change at the first token of each prompt's `rest`.

    The weights below the layer must not change meanwhile, and for `run` none may. A model that keeps more than keys and
    values of the tokens in front, such as the state of a recurrence, reads whole prompts each time.

    Args:
        lm: the model.
        paths: its module paths.
        prompts: the prompts, padded into one batch.
        layer: the edited layer, from 0.
        every_place: the last block's MLP reads all places, for a hook on it; else those whose output is asked for.
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
            prompts = [PromptSplit((), prompt.front + prompt.rest, prompt.fixed) for prompt in prompts]
        self.front = max(len(prompt.front) for prompt in prompts)
        self._fixed = [
            (row, place + self.front - len(prompt.front), change)
            for row, prompt in enumerate(prompts)
            for place, change in prompt.fixed
        ]
        """Row, column and value of each change that stays, in a pass over the tokens in front."""
        self._tokens = sum(len(prompt.rest) for prompt in prompts)
        self._calls: dict[int, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self._outputs: list[str] = []
        """Paths of the projections of the last block's attention that read what attention gives."""
        self._projections: dict[nn.Module, Tensor] = {}
        """Outputs for the unedited model's states of what projects them for the attention of the block above."""
        self.captured: dict[str, Tensor] = {}
        """Activations of the unedited model at the token that changes, shape (rows, width) each: `key` into the layer's
        down-projection, `value` out of it and `state` out of its block."""
        inputs = self._inputs(prompts)
        with torch.no_grad():
            caching = cache_arguments(lm.model, self._front_cache(prompts)) if self.front else {"use_cache": False}
            with self._fixed_changes(self._whole), self._capturing(*inputs["input_ids"].shape):
                lm.model.base_model(**inputs, **caching)

    def run(self, change: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Hidden states after the last norm, shape (n, width), once `change` (rows, width) is added.

        `change` is added to the output of the layer's down-projection at the first place of each row. The n states are
        those at `places` of `rows`, pairs that all differ; places count from the token that changes.
        """
        if self.paths.adds:  # then adding it to the block's output is the same sum, and saves running the block
            states = self._after.clone()
            states[self._rows, self._places] = states[self._rows, self._places] + change.to(states.dtype)
        else:
            states = self._recomputed(self.edited_block, change)
        return self._ends(states, self.layer + 1, rows, places)

    def run_again(self, rows: Tensor, places: Tensor) -> Tensor:
        """Hidden states like those of `run`, with no change but those of the weights from the layer on."""
        return self._ends(self._before, self.layer, rows, places)

    def _ends(self, states: Tensor, first: int, rows: Tensor, places: Tensor) -> Tensor:
        """Hidden states after the last norm at some places, from those that enter the block `first`."""
        add_tokens(self._tokens)
        places = places + self._places[rows]
        for number in range(first, self.depth):
            states = self._recomputed(partial(self._block_for, number, first, rows, places), states)
        norm: Callable[[Tensor], Tensor] = self.lm.model.get_submodule(self.paths.norm)
        return norm(states[rows, places])

    def _recomputed(self, run: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
        """The output, whose gradient loads offloaded weights again, in place of holding them until then."""
        if not self._offloaded or not torch.is_grad_enabled():
            return run(states)
        output: Tensor = checkpoint(run, states, use_reentrant=False, preserve_rng_state=False)
        return output

    def _block_for(self, number: int, first: int, rows: Tensor, places: Tensor, states: Tensor) -> Tensor:
        """Output of a block, which is right at some places where it is the last one."""
        with ExitStack() as stack:
            if number == self.layer + 1 == first:  # the states at the other places are those of the unedited model
                for module, output in self._projections.items():
                    stack.enter_context(_only_at(module, self._rows, self._places, output))
            for module in self._last_modules if number == self.depth - 1 else ():
                stack.enter_context(_only_at(module, rows, places, torch.zeros_like(states)))
            return self._block(number, states)

    @cached_property
    def _last_modules(self) -> list[nn.Module]:
        """Modules behind the attention of the last block, where they are known to treat each place alone."""
        mlp = self.paths.of_layer(self.depth - 1, "down_projection").rpartition(".")[0]
        # The projection of an unknown model may be a recurrence's.
        if not self._known or self._whole or self._every_place:
            return []
        paths = self._outputs + [mlp] * (mlp != self.paths.of_layer(self.depth - 1, "block"))
        return [self.lm.model.get_submodule(path) for path in paths]

    def _module(self, number: int, part: str) -> nn.Module:
        module: nn.Module = self.lm.model.get_submodule(self.paths.of_layer(number, part))
        return module

    def edited_block(self, change: Tensor) -> Tensor:
        """Output of the edited layer's block with `change` added behind its down-projection."""
        place = self._rows, self._places
        with self._fixed_changes(self._whole), self._added("down_projection", *place, change):
            return self._block(self.layer, self._before)

    def block_output(self, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """Output of the edited layer's block, shape (rows, places, width), with its own or with other weights."""
        args, kwargs = self._calls[self.layer]
        block = self._module(self.layer, "block")
        return first_output(functional_call(block, dict(weights or {}), (self._before, *args), kwargs))

    def _front_cache(self, prompts: Sequence[PromptSplit]) -> Cache:
        """Keys and values of the tokens in front, padded on the left, so that they end where the rest begins."""
        ids, mask = padded([prompt.front for prompt in prompts], self.lm.tokenizer.pad_token_id, left=True)
        cache = DynamicCache()  # without the configuration, layers with a sliding window keep everything as well
        with self._fixed_changes(True):
            self.lm.model.base_model(**_inputs(self.lm, ids, mask, mask), **cache_arguments(self.lm.model, cache))
        layers: list[Any] = cache.layers
        return Cache(layers=[_FrontLayer(layer.keys, layer.values) for layer in layers])

    def _inputs(self, prompts: Sequence[PromptSplit]) -> dict[str, Any]:
        pad = self.lm.tokenizer.pad_token_id
        ids, mask = padded([prompt.rest for prompt in prompts], pad, left=False)
        if not self.front:
            return _inputs(self.lm, ids, mask, mask)
        _, before = padded([prompt.front for prompt in prompts], pad, left=True)
        return _inputs(self.lm, ids, torch.cat([before, mask], dim=1), mask, before.sum(1, keepdim=True))

    @contextmanager
    def _capturing(self, rows: int, places: int) -> Iterator[None]:
        """Hooks that keep the blocks' arguments, the first block's output, and the captured activations."""

        def at_place(states: Tensor) -> Tensor:
            states = states.reshape(rows, places, -1)  # some MLPs see rows and places as one dimension
            # A copy, since some blocks go on to add to the MLP's output in place.
            return states[self._rows, self._places].to(torch.float32, copy=True)

        def on_call(number: int) -> Callable[..., None]:
            def keep(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                if number == self.layer:
                    self._before = args[0]
                self._calls[number] = args[1:], kwargs

            return keep

        def on_value(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            self.captured |= {"key": at_place(args[0]), "value": at_place(output)}

        def on_state(_: nn.Module, __: tuple[Tensor, ...], output: Tensor | tuple[Tensor, ...]) -> None:
            self._after = first_output(output)
            self.captured["state"] = at_place(self._after)
            self._further = () if isinstance(output, Tensor) else output[1:]

        def skip(states: Tensor, *_: Any, **__: Any) -> Tensor | tuple[Tensor, ...]:
            return (states, *self._further) if self._further else states

        blocks = {number: self._module(number, "block") for number in range(self.layer, self.depth)}
        with ExitStack() as hooks:
            for number, block in blocks.items():
                hooks.enter_context(block.register_forward_pre_hook(on_call(number), with_kwargs=True))
            hooks.enter_context(blocks[self.layer].register_forward_hook(on_state))
            hooks.enter_context(self._module(self.layer, "down_projection").register_forward_hook(on_value))
            if self._known and not self._whole:  # of the blocks above only the arguments are of use
                hooks.enter_context(replaced_forward({blocks[n]: skip for n in range(self.layer + 2, self.depth)}))
                hooks.enter_context(self._capturing_projections())
            yield

    @contextmanager
    def _capturing_projections(self) -> Iterator[None]:
        """Hooks on attention's projections in the block above the edited layer."""
        calls: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        above = self.layer + 1
        if above == self.depth:
            yield
            return
        attention = self.paths.of_layer(above, "query").rpartition(".")[0]
        modules = self.lm.model.get_submodule(attention).named_modules()
        linear = {path: module for path, module in modules if isinstance(module, nn.Linear | Conv1D)}

        def keep(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            calls[module] = args[0], output

        with ExitStack() as hooks:
            for module in linear.values():
                hooks.enter_context(module.register_forward_hook(keep))
            yield
        read, _ = calls[self._module(above, "query")]
        self._projections = {module: output for module, (states, output) in calls.items() if states is read}
        last = self.paths.of_layer(self.depth - 1, "query").rpartition(".")[0]
        self._outputs = [f"{last}.{path}" for path, module in linear.items() if module not in self._projections]

    def _fixed_changes(self, front_is_read: bool) -> AbstractContextManager[Any]:
        """Inside the `with`, a pass over the tokens in front has the changes that stay there."""
        if not (front_is_read and self._fixed):
            return nullcontext()
        rows, columns, changes = zip(*self._fixed, strict=True)
        return self._added("block" if self.paths.adds else "down_projection", rows, columns, torch.stack(changes))

    def _added(self, part: str, rows: Any, places: Any, changes: Tensor) -> AbstractContextManager[Any]:
        """Inside the `with`, changes, shape (n, width), are added to what a part of the edited layer gives there."""

        def add(_: nn.Module, __: tuple[Tensor, ...], output: Any) -> Any:
            changed = first_output(output).clone()
            by_row = changed.view(len(self._rows), -1, changed.shape[-1])  # some MLPs see rows and places as one
            by_row[rows, places] = by_row[rows, places] + changes.to(changed.dtype)
            return changed if isinstance(output, Tensor) else (changed, *output[1:])

        return self._module(self.layer, part).register_forward_hook(add)

    def _block(self, number: int, states: Tensor) -> Tensor:
        args, kwargs = self._calls[number]
        return first_output(self._module(number, "block")(states, *args, **kwargs))


@contextmanager
def _only_at(module: nn.Module, rows: Tensor, places: Tensor, others: Tensor) -> Iterator[None]:
    """Inside the `with`, a module that treats each place alone reads these alone, and gives `others` elsewhere."""

    def gather(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (args[0][rows, places][None], *args[1:])

    def scatter(_: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return others.index_put((rows, places), output[0])

    with module.register_forward_pre_hook(gather), module.register_forward_hook(scatter):
        yield


def compute_logits(lm: CausalLM, paths: Architecture, states: Tensor) -> Tensor:
    """Logits (rows, vocabulary), float32, of hidden states (rows, width) that have passed the last norm."""
    head: Callable[[Tensor], Tensor] = lm.model.get_submodule(paths.head)
    config: Any = lm.model.config.get_text_config()
    logits = head(states)  # scaled and capped in the model's own format, since the model rounds there
    scale = getattr(config, "logit_scale", None)
    cap = getattr(config, "final_logit_softcapping", None)
    logits = logits if scale is None else logits * scale
    return (logits if cap is None else cap * torch.tanh(logits / cap)).float()


def check_logits(lm: CausalLM, paths: Architecture) -> None:
    """Refuse a model whose logits are not those of norm and head, or whose blocks are not as the paths say.

    The blocks of a model outside the table are checked from the first that has a down-projection on.

    Raises:
        BadSettings: the logits differ, so the paths are wrong or the model does more to them; its blocks give another
            result, or fail, when they are run once more; or `adds` is not true.
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
            f"logits of model type '{lm.model.config.model_type}' are not what '{paths.norm}' and '{paths.head}' give: "
            "correct norm and head in [architecture]; a model that does more to its logits cannot be edited so."
        )
    if paths != ARCHITECTURES.get(lm.model.config.model_type):  # those of the table are known to be right
        layer = layers_with(lm.model, "down_projection", paths.down_projection)[0]
        _check_suffix(lm, paths, layer, logits)
        if paths.adds:
            _check_adds(lm, paths, layer)


def _close(logits: Tensor, ours: Tensor, eps: float) -> bool:
    """True where logits differ by rounding alone; `eps` is the distance of numbers near 1 in their format."""
    size = float(logits.abs().max())
    return torch.allclose(logits, ours, rtol=max(1e-3, 2 * eps), atol=max(1e-3, 2 * eps * size))


def _check_suffix(lm: CausalLM, paths: Architecture, layer: int, logits: Tensor) -> None:
    """Refuse a model whose blocks cannot be run apart from it, by comparing logits under a change of zero."""
    ids = lm.encode(SAMPLE)
    half, problem = len(ids) // 2, ""
    try:
        with torch.no_grad():
            suffix = SuffixForward(lm, paths, [PromptSplit(ids[:half], ids[half:])], layer)
            places = torch.arange(len(ids) - half, device=lm.device)
            states = suffix.run(torch.zeros_like(suffix.captured["value"]), torch.zeros_like(places), places)
            ours = compute_logits(lm, paths, states)
    except Exception as error:  # noqa: BLE001  the blocks of an unknown model may raise anything
        problem = (str(error).strip() or type(error).__name__).partition("\n")[0].rstrip(".")
    else:
        if not _close(logits[half:], ours, torch.finfo(lm.model.dtype).eps):
            problem = "its logits differ"
    if problem:
        raise BadSettings(
            f"the blocks '{paths.block}' of model type '{lm.model.config.model_type}' cannot be run apart from it, "
            f"from layer {layer} on: {problem}. Correct block in [architecture], or take ft or lora."
        )


def _check_adds(lm: CausalLM, paths: Architecture, layer: int = 0) -> None:
    """Refuse a model that changes the MLP's output before adding it to the residual stream, at that layer's block."""
    with torch.no_grad():
        suffix = SuffixForward(lm, paths, [PromptSplit((), lm.encode(SAMPLE))], layer)
        state = suffix.captured["state"]
        noise = torch.randn(state.shape, generator=torch.Generator().manual_seed(0)).to(state.device)
        change = noise * state.norm() / noise.norm()  # of the state's size, so that rounding does not hide it
        moved = suffix.edited_block(change)[:, 0].float() - state
    if not (moved - change).norm() <= 0.05 * change.norm():  # also refuses NaN
        raise BadSettings(
            f"what '{paths.down_projection}' gives does not reach the residual stream as it is: a norm or a factor is "
            f"behind it in model type '{lm.model.config.model_type}'. Add adds = false to [architecture]."
        )


def _caches_only_keys_and_values(model: Any) -> bool:
    """True for a model whose cache holds keys and values of every layer, which can be joined.

    Recurrences, convolutions and linear attention keep states that include padding, and that change as they are read.
    """
    if not takes_cache(model):
        return False
    kinds = {type(layer) for layer in DynamicCache(config=model.config).layers}
    return kinds <= {DynamicLayer, DynamicSlidingWindowLayer}


def _inputs(lm: CausalLM, ids: Tensor, mask: Tensor, ids_mask: Tensor, before: Tensor | int = 0) -> dict[str, Any]:
    """The model's arguments; `ids_mask` is the mask of the ids alone, `before` the number of tokens in front."""
    places = (ids_mask.cumsum(1) - 1).clamp(min=0) + before
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": places}
    return {name: tensor.to(lm.device) for name, tensor in inputs.items()}
