"""Training a few matrices on a few rows of tokens, without touching the model: the optimiser behind fine-tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from emend.agents.batching import pack
from emend.agents.causal_lm import CausalLM
from emend.memory.errors import ModelError

IGNORED = -100
"""What cross-entropy does not count: prompt and padding."""


class Row(NamedTuple):
    """Token ids, the begin token included, of which those from `start` on are to be learnt."""

    ids: tuple[int, ...]
    start: int


@dataclass(frozen=True)
class Plan:
    """How fast, how long and how far."""

    learning_rate: Annotated[float, Field(gt=0)]
    steps: Annotated[int, Field(ge=1)]
    """Steps of Adam at most, each over all rows."""
    stop_loss: Annotated[float, Field(ge=0)]
    """Training ends when the mean negative log-probability per token, in nats, is below this in every row."""
    norm_constraint: Annotated[float, Field(ge=0)]
    """Farthest that an element of a matrix may move from where it was; 0 sets no bound."""
    batch_tokens: Annotated[int, Field(ge=1)]
    """Positions of one padded forward pass; more rows than that are accumulated into the same step."""


def train(lm: CausalLM, names: Sequence[str], rows: Sequence[Row], plan: Plan) -> dict[str, Tensor]:
    """What Adam adds to the named parameters so that the rows become probable; the model itself stays as it is.

    Each step descends the mean over rows of the mean over their tokens of the negative log-probability. It ends when
    that of every row is below `stop_loss`, or after the last step. Deltas are float32, of the parameters' shapes.

    Raises:
        ModelError: the numbers overflowed.
    """
    frozen = {name: parameter.detach() for name, parameter in lm.model.named_parameters()}
    origin = {name: frozen[name].float() for name in names}
    trained = {name: tensor.clone().requires_grad_() for name, tensor in origin.items()}
    optimizer = torch.optim.Adam(list(trained.values()), lr=plan.learning_rate)
    parts = pack([len(row.ids) for row in rows], plan.batch_tokens)
    batches = [_batch(lm, [rows[place] for place in places]) for places in parts]
    with lm.lock, torch.enable_grad():
        for _ in range(plan.steps):
            optimizer.zero_grad()
            worst = max(_descend(lm, frozen, trained, batch, len(rows)) for batch in batches)
            if worst < plan.stop_loss:
                break
            optimizer.step()
            _constrain(trained, origin, plan.norm_constraint)
    deltas = {name: (tensor - origin[name]).detach() for name, tensor in trained.items()}
    if not all(delta.isfinite().all() for delta in deltas.values()):
        raise ModelError(f"training overflowed, seen learning_rate: {plan.learning_rate}: set a smaller one.")
    return deltas


def _batch(lm: CausalLM, rows: Sequence[Row]) -> dict[str, Tensor]:
    """Right-padded ids, mask and labels, shape (rows, longest - 1); the label at a place is the token after it.

    The last token of a row is a label only, so that a row may be one longer than the window.
    """
    width = max(len(row.ids) for row in rows) - 1
    ids = torch.full((len(rows), width), lm.tokenizer.pad_token_id)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    labels = torch.full((len(rows), width), IGNORED)
    for line, row in enumerate(rows):
        told, end = torch.tensor(row.ids), len(row.ids) - 1
        ids[line, :end], mask[line, :end] = told[:-1], 1
        labels[line, row.start - 1 : end] = told[row.start :]
    batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return {name: tensor.to(lm.device) for name, tensor in batch.items()}


def _descend(
    lm: CausalLM,
    frozen: Mapping[str, Tensor],
    trained: Mapping[str, Tensor],
    batch: Mapping[str, Tensor],
    total: int,
) -> float:
    """Adds this batch's share of the gradient; the loss of its worst row, before the step."""
    weights = {**frozen, **{name: tensor.to(frozen[name].dtype) for name, tensor in trained.items()}}
    fed: dict[str, Any] = {name: batch[name] for name in ("input_ids", "attention_mask")} | {"use_cache": False}
    logits = functional_call(lm.model, weights, (), fed).logits.float()
    labels = batch["labels"]
    each = cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
    losses = each.sum(1) / (labels != IGNORED).sum(1)
    (losses.sum() / total).backward()
    return float(losses.detach().max())


def _constrain(trained: Mapping[str, Tensor], origin: Mapping[str, Tensor], distance: float) -> None:
    if distance > 0:
        with torch.no_grad():
            for name, tensor in trained.items():
                tensor.clamp_(origin[name] - distance, origin[name] + distance)
