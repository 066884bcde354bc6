"""Pairs of what enters a linear module and the gradient of what leaves it, at every token of some rows."""

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
    """Inputs (tokens, inputs) of a module and gradients (tokens, outputs) at its output, float32 on the CPU."""

    inputs: Tensor
    gradients: Tensor


def gradient_pairs(lm: CausalLM, modules: Sequence[str], rows: Sequence[TrainingRow]) -> list[GradientPairs]:
    """The pairs of each module, for the mean negative log-probability of the rows' learnt tokens.

    The model is left as it is, and its lock must be held. Rows beyond the model's token budget are read in parts.

    Args:
        lm: the model.
        modules: paths of linear modules, from the lowest one upwards.
        rows: what is learnt at once.
    """
    parts = pack([len(row.ids) for row in rows], lm.batch_tokens)
    learnt = sum(len(row.ids) - row.start for row in rows)
    batches = [_part_pairs(lm, modules, [rows[number] for number in sorted(part)], learnt) for part in parts]
    return [GradientPairs(*map(torch.cat, zip(*each, strict=True))) for each in zip(*batches, strict=True)]


def _part_pairs(lm: CausalLM, modules: Sequence[str], rows: Sequence[TrainingRow], learnt: int) -> list[GradientPairs]:
    """The pairs of one padded batch, for its part in a mean over so many learnt tokens."""
    # A row may be one token longer than the window: its last token is learnt, and need not be fed.
    fed = [row.ids[: lm.window or None] for row in rows]
    ids, mask = (tensor.to(lm.device) for tensor in padded(fed, lm.tokenizer.pad_token_id))
    tokens = torch.tensor([token for row in rows for token in row.ids[row.start :]], device=lm.device)
    scored = [(line, place) for line, row in enumerate(rows) for place in range(row.start, len(row.ids))]
    lines, places = torch.tensor(scored, device=lm.device).T
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}

    def keep(path: str, entering: tuple[Tensor, ...], output: Tensor) -> Tensor:
        # Nothing below the first module needs a gradient: its output begins the graph.
        output = output if output.requires_grad else output.detach().requires_grad_()
        inputs[path], outputs[path] = entering[0].detach(), output
        return output

    with ExitStack() as hooks, light_passes(lm.model), torch.enable_grad():
        for path in modules:
            module: nn.Module = lm.model.get_submodule(path)
            hook = module.register_forward_hook(lambda _, entering, output, path=path: keep(path, entering, output))
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
    """The rows of a tensor at tokens that are not padding; some MLPs see rows and places as one dimension."""
    return tensor.reshape(*valid.shape, -1)[valid].float().cpu()
