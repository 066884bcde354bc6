"""Drift of a local model under edits: changes of hidden states and of weight norms."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from emend.agents.local.causal_lm import CausalLM


class ModelState(NamedTuple):
    """Hidden states at the input of the head, (tokens, width) per text, and parameter norms."""

    hidden: list[Tensor]
    norms: dict[str, float]


class Drift(NamedTuple):
    """Drift (1 minus the mean cosine of hidden states) and largest growth of a weight norm."""

    drift: float
    growth: float


def model_state(model: Any, texts: Sequence[str]) -> ModelState | None:
    """Return the current state of a local model; None for other models, or without texts."""
    lm = getattr(model, "lm", None)
    if not isinstance(lm, CausalLM) or not texts:
        return None
    with lm.lock, torch.inference_mode(), lm.precision():
        hidden = [_hidden_states(lm, text) for text in texts]
        norms = {
            name: float(torch.linalg.vector_norm(tensor.float()))
            for name, tensor in lm.model.named_parameters()
        }
    return ModelState(hidden, norms)


def drift_between(before: ModelState, now: ModelState) -> Drift:
    """Return the drift of a model between two states."""
    pairs = zip(before.hidden, now.hidden, strict=True)
    cosines = torch.cat([cosine_similarity(first, second, dim=-1) for first, second in pairs])
    ratios = [
        now.norms[name] / norm
        for name, norm in before.norms.items()
        if norm and now.norms[name] != norm
    ]
    return Drift(1 - float(cosines.mean()), max(ratios, default=1.0))


def _hidden_states(lm: CausalLM, text: str) -> Tensor:
    ids = torch.tensor([lm.encode(text)[: lm.window]], device=lm.device)
    states: Tensor = lm.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    return states[0].float().cpu()
