"""Drift of a local model under edits: how far hidden states turn on texts that no edit is about, and weights grow."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from emend.agents.local.causal_lm import CausalLM


class ModelState(NamedTuple):
    """Hidden states that enter the head, shape (tokens, width) by text, and the norm of each parameter."""

    hidden: list[Tensor]
    norms: dict[str, float]


class Drift(NamedTuple):
    """`drift` is 1 less the mean cosine of hidden states before and now, `growth` the largest ratio of a norm."""

    drift: float
    growth: float


def model_state(model: Any, texts: Sequence[str]) -> ModelState | None:
    """The state of a local model as it is now; None for another model, or without texts."""
    lm = getattr(model, "lm", None)
    if not isinstance(lm, CausalLM) or not texts:
        return None
    with lm.lock, torch.inference_mode(), lm.precision():
        hidden = [_hidden_states(lm, text) for text in texts]
        norms = {name: float(torch.linalg.vector_norm(tensor.float())) for name, tensor in lm.model.named_parameters()}
    return ModelState(hidden, norms)


def drift_between(before: ModelState, now: ModelState) -> Drift:
    """The drift of a model from one state to another."""
    pairs = zip(before.hidden, now.hidden, strict=True)
    cosines = torch.cat([cosine_similarity(first, second, dim=-1) for first, second in pairs])
    ratios = [now.norms[name] / norm for name, norm in before.norms.items() if norm and now.norms[name] != norm]
    return Drift(1 - float(cosines.mean()), max(ratios, default=1.0))


def _hidden_states(lm: CausalLM, text: str) -> Tensor:
    ids = torch.tensor([lm.encode(text)[: lm.window]], device=lm.device)
    states: Tensor = lm.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    return states[0].float().cpu()
