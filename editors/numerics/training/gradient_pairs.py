"""Inputs of linear modules with the gradients at their outputs, at every token of some rows."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from emend.agents.local.batching import pack
from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.passes import light_passes, logits_at, padded
from emend.editors.numerics.training.training_loop import TrainingRow


class GradientPairs(NamedTuple):
    """A module's inputs (tokens, inputs) and output gradients (tokens, outputs), float32, CPU."""

    inputs: Tensor
    gradients: Tensor


def gradient_pairs(
    lm: CausalLM, modules: Sequence[str], rows: Sequence[TrainingRow]
) -> list[GradientPairs]:
    """Return each module's pairs for the mean negative log-probability of the rows' target tokens.

    The model is not changed; its lock must be held. Rows that exceed the model's token budget are
    processed in several batches.

    Args:
        lm: the model.
        modules: paths of linear modules, from the lowest one upwards.
        rows: the rows of one update.
    """
    learnt = sum(len(row.ids) - row.start for row in rows)
    batches = []
    for positions in pack([len(row.ids) for row in rows], lm.batch_tokens):
        of_batch = [rows[position] for position in sorted(positions)]
        batches.append(_part_pairs(lm, modules, of_batch, learnt))
    return [
        GradientPairs(*map(torch.cat, zip(*each, strict=True)))
        for each in zip(*batches, strict=True)
    ]


def _part_pairs(
    lm: CausalLM, modules: Sequence[str], rows: Sequence[TrainingRow], learnt: int
) -> list[GradientPairs]:
    """Return the pairs of one padded batch, scaled to its share of a mean over `learnt` tokens."""
    # A row may be one token longer than the window, since its last token is never fed.
    fed = [row.ids[: lm.window or None] for row in rows]
    ids, mask = (tensor.to(lm.device) for tensor in padded(fed, lm.tokenizer.pad_token_id))
    tokens = torch.tensor(
        [token for row in rows for token in row.ids[row.start :]], device=lm.device
    )
    scored = [
        (line, place) for line, row in enumerate(rows) for place in range(row.start, len(row.ids))
    ]
    lines, places = torch.tensor(scored, device=lm.device).T
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}

    def keep(path: str, entering: tuple[Tensor, ...], output: Tensor) -> Tensor:
        # The graph starts at the first module's output, since nothing below it needs a gradient.
        output = output if output.requires_grad else output.detach().requires_grad_()
        inputs[path], outputs[path] = entering[0].detach(), output
        return output

    with ExitStack() as hooks, light_passes(lm.model), torch.enable_grad():
        for path in modules:
            module: nn.Module = lm.model.get_submodule(path)
            hook = module.register_forward_hook(
                lambda _, entering, output, path=path: keep(path, entering, output)
            )
            hooks.callback(hook.remove)
        fields = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
        logits = logits_at(lm.model, lm.model, fields, lines, places - 1)
        loss = cross_entropy(logits, tokens) * (len(tokens) / learnt)
        gradients = torch.autograd.grad(loss, [outputs[path] for path in modules])
    valid = mask.bool()
    return [
        GradientPairs(_at(inputs[path], valid), _at(gradient, valid))
        for path, gradient in zip(modules, gradients, strict=True)
    ]


def _at(tensor: Tensor, valid: Tensor) -> Tensor:
    """Select a tensor's vectors at non-padding tokens; some MLPs merge rows and positions."""
    return tensor.reshape(*valid.shape, -1)[valid].float().cpu()
