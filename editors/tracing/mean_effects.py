"""Indirect effects averaged over facts by the role of the token (Meng et al. 2022, figure 2), and layers to edit."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from emend.editors.tracing.causal_trace import KINDS, CausalTrace, Kind, TracedFact

ROLES = (
    "first subject token",
    "middle subject tokens",
    "last subject token",
    "first token after it",
    "further tokens",
    "last token",
)
LAST_SUBJECT = ROLES.index("last subject token")
MEMIT_LAYERS = 5
"""Layers that MEMIT spreads an edit over, as published for GPT-2 XL."""


class MeanEffects(NamedTuple):
    """Average total effect, and indirect effects by kind, shape (roles, layers), NaN for a role without tokens."""

    facts: int
    total: float
    indirect: dict[Kind, Tensor]


class LayerChoice(NamedTuple):
    """Layers to edit, from 0, by what was traced."""

    rome: int
    memit: tuple[int, ...]


def mean_effects(traces: Sequence[CausalTrace]) -> MeanEffects:
    """The effects of all facts, each of which counts as one."""
    indirect = {kind: torch.stack([_by_role(trace, kind) for trace in traces]).nanmean(0) for kind in KINDS}
    total = sum(trace.clean - trace.blurred for trace in traces) / len(traces)
    return MeanEffects(len(traces), total, indirect)


def choose_layers(effects: MeanEffects) -> LayerChoice:
    """The layer whose MLPs bring the most back at the subject's last token, and for MEMIT the five that end there.

    That is where ROME is applied (Meng et al. 2022, section 3); MEMIT's published layers of GPT-2 XL end at ROME's.
    """
    peak = int(effects.indirect["mlp"][LAST_SUBJECT].nan_to_num(-1.0).argmax())
    return LayerChoice(peak, tuple(range(max(0, peak - MEMIT_LAYERS + 1), peak + 1)))


def token_roles(fact: TracedFact) -> list[int]:
    """The role of each token, as a place in `ROLES`; -1 for tokens before the subject.

    The prompt's last token has that role alone; a subject of one token is its last one.
    """
    tokens, subject = len(fact.ids), fact.subject
    roles = [-1] * subject.start
    for place in range(subject.start, tokens):
        if place in subject:
            roles.append(2 if place == subject.stop - 1 else 0 if place == subject.start else 1)
        else:
            roles.append(3 if place == subject.stop else 4)
    if subject.stop < tokens:
        roles[-1] = len(ROLES) - 1
    return roles


def _by_role(trace: CausalTrace, kind: Kind) -> Tensor:
    """Indirect effects of one fact, means over the tokens of each role."""
    effects, roles = trace.restored[kind] - trace.blurred, torch.tensor(token_roles(trace.fact))
    rows = [effects[roles == role].mean(0) for role in range(len(ROLES))]  # NaN without tokens
    return torch.stack(rows)
