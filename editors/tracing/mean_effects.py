"""Indirect effects averaged by token role (Meng et al. 2022, figure 2), and layers to edit."""

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
# Number of layers that MEMIT spreads an edit over, as published for GPT-2 XL.
MEMIT_LAYERS = 5


class MeanEffects(NamedTuple):
    """Mean total effect, and mean indirect effects by kind.

    The effects of each kind have shape (roles, layers), with NaN for a role without tokens.
    """

    facts: int
    total: float
    indirect: dict[Kind, Tensor]


class LayerChoice(NamedTuple):
    """Layers to edit, counted from 0, chosen by causal tracing."""

    rome: int
    memit: tuple[int, ...]


def mean_effects(traces: Sequence[CausalTrace]) -> MeanEffects:
    """Return the mean effects over all facts, with equal weights."""
    indirect = {}
    for kind in KINDS:
        by_trace = torch.stack([_by_role(trace, kind) for trace in traces])
        indirect[kind] = by_trace.nanmean(0)
    total = sum(trace.clean - trace.blurred for trace in traces) / len(traces)
    return MeanEffects(len(traces), total, indirect)


def choose_layers(effects: MeanEffects) -> LayerChoice:
    """Return the layer with the largest MLP effect at the last subject token, and MEMIT's layers.

    ROME is applied at that layer (Meng et al. 2022, section 3). MEMIT's layers end there, as its
    published layers for GPT-2 XL end at ROME's.
    """
    peak = int(effects.indirect["mlp"][LAST_SUBJECT].nan_to_num(-1.0).argmax())
    return LayerChoice(peak, tuple(range(max(0, peak - MEMIT_LAYERS + 1), peak + 1)))


def token_roles(fact: TracedFact) -> list[int]:
    """Return each token's role as an index into `ROLES`; -1 for tokens before the subject.

    The prompt's last token has only that role; the only token of a one-token subject is its last
    token.
    """
    tokens, subject = len(fact.ids), fact.subject
    roles = [-1] * subject.start
    for place in range(subject.start, tokens):
        if place > subject.stop:
            roles.append(4)
        elif place == subject.stop:
            roles.append(3)
        elif place == subject.stop - 1:
            roles.append(2)
        elif place == subject.start:
            roles.append(0)
        else:
            roles.append(1)
    if subject.stop < tokens:
        roles[-1] = len(ROLES) - 1
    return roles


def _by_role(trace: CausalTrace, kind: Kind) -> Tensor:
    """Return one fact's indirect effects, averaged over the tokens of each role."""
    effects, roles = trace.restored[kind] - trace.blurred, torch.tensor(token_roles(trace.fact))
    rows = [effects[roles == role].mean(0) for role in range(len(ROLES))]  # NaN without tokens
    return torch.stack(rows)
