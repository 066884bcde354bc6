"""WISE (Wang et al. 2024): a side memory of one down-projection, chosen by activation."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from pydantic import Field, PositiveInt
from torch import Tensor
from torch.nn.functional import linear

from emend.editors.base import EditorContext
from emend.editors.numerics.architectures import input_first
from emend.editors.numerics.contexts import context_prefixes
from emend.editors.numerics.seeded_draws import seeded_draws
from emend.editors.numerics.suffix_forward import PromptSplit, SuffixForward, compute_logits
from emend.editors.numerics.training.training_loop import (
    TrainingBatch,
    TrainingRow,
    mean_losses,
    training_batch,
)
from emend.editors.parametric.lifelong.layer_editor import LayerEditor, LayerSettings
from emend.editors.parametric.lifelong.layer_hook import Change, PassRows
from emend.editors.parametric.lifelong.side_memory import Shard, SideMemory, activation, margin_loss
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings, ModelError

# Texts that sampled contexts begin with, in turn, as in the published code.
OPENERS = ("I", "You", "Because", "Yes", "Q: ")
# Decay of the side memory towards zero; as in the published code, masked elements decay too.
WEIGHT_DECAY = 1e-5
# Training stops early if the loss changed by at most the first value and is at most the second.
CONVERGED = 1e-4, 0.02


@dataclass(frozen=True, kw_only=True)
class WiseSettings(LayerSettings):
    """Settings of WISE; the shipped values per model are in `settings/wise.toml`."""

    mask_ratio: Annotated[float, Field(gt=0, le=1)]
    """Fraction of the matrix that a shard's edits may change, drawn at random."""
    norm_constraint: Annotated[float, Field(gt=0)]
    """Maximum change of an element."""
    act_margin: tuple[float, float, float]
    """Margins of the activation loss (alpha, beta, gamma).

    They are the maximum outside, the minimum inside, and the minimum distance.
    """
    act_ratio: Annotated[float, Field(gt=0)]
    """Routing threshold, relative to the minimum activation of an edit."""
    save_freq: Annotated[int, Field(ge=1)]
    """Number of edits per shard."""
    merge_freq: Annotated[int, Field(ge=1)]
    """Number of edits after which their shards are merged into one; a multiple of `save_freq`."""
    densities: Annotated[float, Field(gt=0, le=1)]
    """Fraction of each shard's elements that are merged."""
    retrieve: bool
    """Route to one of several shards (WISE-Retrieve), or merge all into one (WISE-Merge).

    With retrieval, complete shards stay separate until they are merged.
    """
    context_template_length_params: tuple[tuple[PositiveInt, PositiveInt], ...]
    """Sampled contexts as (tokens, count) pairs; the bare prompt always comes first."""
    loc_prompts: Annotated[tuple[str, ...], Field(min_length=1)]
    """Irrelevant texts, one of which is used for each edit."""


class _Rows(NamedTuple):
    """An edit's rows and the irrelevant text as the last row, in one batch."""

    batch: TrainingBatch
    tokens: Tensor
    """Mask of tokens that are not padding, shape (rows, width), bool."""
    prompts: Tensor
    """Mask of the prompts' tokens; it covers the whole irrelevant text."""


class Wise(LayerEditor[SideMemory]):
    """WISE editor: prompts that the side memory changes strongly are routed through it.

    With `retrieve`, complete shards stay beside the current one until they are merged; otherwise
    all are merged for answering. A row is routed by its prompt, also for the tokens after the
    prompt.
    """

    name: ClassVar[str] = "wise"
    schema: ClassVar[type[LayerSettings]] = WiseSettings
    settings: WiseSettings

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        settings = self.settings
        if settings.merge_freq % settings.save_freq:
            raise BadSettings(
                f"wise.merge_freq is {settings.merge_freq}: set a multiple of "
                f"wise.save_freq={settings.save_freq}."
            )
        config: Any = self.lm.model.config.get_text_config()
        names = ("hidden_act", "hidden_activation", "activation_function")
        functions = [value for name in names if (value := getattr(config, name, None))]
        if not functions:
            raise BadSettings(
                f"editor 'wise' needs '{names[0]}' in the model's config.json, which has none of "
                "the supported names."
            )
        self._function: str = functions[0]

    def learn(self, memory: SideMemory | None, edit: Edit) -> SideMemory:
        """Train the edit into the current shard and return the memory.

        A shard is complete after `save_freq` edits.
        """
        memory = memory or SideMemory(Shard(torch.zeros_like(self._weight())), torch.zeros(0))
        if memory.edits % self.settings.save_freq == 0:
            memory = memory._replace(mask=self._draw_mask(memory.edits))
        rows = self._rows(edit)
        lines = zip(rows.batch.inputs["input_ids"], rows.tokens, strict=True)
        prompts = [PromptSplit((), tuple(ids[mask].tolist())) for ids, mask in lines]
        suffix = SuffixForward(self.lm, self.paths, prompts, self.layer, every_place=True)
        memory = memory._replace(current=self._train(suffix, memory, rows, edit))
        settings = self.settings
        return memory.deposit(
            settings.save_freq, settings.merge_freq, settings.densities, settings.retrieve
        )

    def _weight(self) -> Tensor:
        """Return the original matrix, shape (outputs, inputs), float32."""
        module: Any = self.lm.model.get_submodule(self.module)
        weight: Tensor = module.weight.detach()
        return (weight.T if input_first(module) else weight).float()

    def _draw_mask(self, count: int) -> Tensor:
        """Return a random mask of the matrix, 1 where a shard may change it."""
        with seeded_draws(self.lm.device, self.seed("mask", count)):
            return (torch.rand_like(self._weight()) < self.settings.mask_ratio).float()

    def _rows(self, edit: Edit) -> _Rows:
        """Return the edit after each context, and an irrelevant text."""
        lengths = self.settings.context_template_length_params
        prefixes = context_prefixes(self.lm, lengths, self.context.seed, OPENERS)
        rows = [self.row(edit, prefix) for prefix in prefixes]
        text = self.settings.loc_prompts[
            self.seed("irrelevant", edit.id) % len(self.settings.loc_prompts)
        ]
        ids = self.lm.encode(text)
        # The irrelevant text's one target token is removed from the loss again.
        batch = training_batch(self.lm, [*rows, TrainingRow((*ids, ids[-1]), len(ids))])
        tokens = batch.inputs["attention_mask"].bool()
        starts = torch.tensor([*(row.start for row in rows), len(ids)], device=tokens.device)
        return _Rows(batch, tokens, tokens & (tokens.cumsum(1) <= starts[:, None]))

    def _train(self, suffix: SuffixForward, memory: SideMemory, rows: _Rows, edit: Edit) -> Shard:
        """Return the current shard after some masked steps of gradient descent on the edit."""
        settings, weight = self.settings, self._weight()
        leaf = memory.current.delta.clone().requires_grad_()
        losses = [math.inf, math.inf]
        change, bound = CONVERGED
        for step in range(settings.n_iter):
            loss, inside, gradient = self._gradient(suffix, leaf, rows)
            if abs(losses[-1] - losses[-2]) <= change and losses[-1] <= bound:
                break
            if not loss.isfinite():
                raise ModelError(
                    f"the training of edit '{edit.id}' overflowed at step {step}: set a smaller "
                    f"{self.name}.edit_lr."
                )
            with torch.no_grad():
                leaf -= settings.edit_lr * (gradient * memory.mask + WEIGHT_DECAY * (weight + leaf))
                leaf.clamp_(-settings.norm_constraint, settings.norm_constraint)
            losses.append(float(loss))
        return Shard(leaf.detach(), min(memory.current.least, float(inside)))

    def _gradient(
        self, suffix: SuffixForward, delta: Tensor, rows: _Rows
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss with the shard, the mean activation of the prompts, and the gradient."""
        measured: list[Tensor] = []

        def on_output(_: Any, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
            shape = (*rows.tokens.shape, -1)  # some MLPs merge rows and positions
            inputs, outputs = args[0].reshape(shape), output.reshape(shape)
            masks = rows.tokens, rows.prompts
            measured[:] = [
                activation(outputs, delta, inputs, self._function, mask) for mask in masks
            ]
            return output + linear(args[0].float(), delta).to(output.dtype)

        hook = self.lm.model.get_submodule(self.module).register_forward_hook(on_output)
        with torch.enable_grad(), hook:  # also for the backward pass, which may rerun blocks
            states = suffix.run_again(rows.batch.lines, rows.batch.places)
            losses = mean_losses(compute_logits(self.lm, self.paths, states), rows.batch)[:-1]
            everywhere, prompts = measured
            loss = losses.mean() + margin_loss(
                everywhere[:-1], everywhere[-1:], self.settings.act_margin
            )
            (gradient,) = torch.autograd.grad(loss, delta)
        return loss.detach(), prompts[:-1].detach().mean(), gradient

    def change(self, memory: SideMemory) -> Change:
        """Return a change that sends each row through the shard its prompt is routed to, if any."""
        if not self.settings.retrieve:
            memory = memory.as_one(self.settings.save_freq, self.settings.densities)
        routes: list[Tensor] = []

        def routed(inputs: Tensor, outputs: Tensor, rows: PassRows) -> Tensor:
            if not rows.continues:
                # A text scored after only the begin token, as for perplexity, is routed by all its
                # tokens.
                whole = rows.prompts.sum(1, keepdim=True) <= 1
                mask = torch.where(whole, rows.tokens, rows.prompts)
                each = [
                    activation(outputs, shard.delta, inputs, self._function, mask)
                    for shard in memory.shards
                ]
                routes[:] = [memory.choose(torch.stack(each), self.settings.act_ratio)]
            changed = outputs
            for number, shard in enumerate(memory.shards):
                if bool((lines := routes[0] == number).any()):
                    through = outputs + linear(inputs.float(), shard.delta).to(outputs.dtype)
                    changed = torch.where(lines[:, None, None], through, changed)
            return changed

        return routed
