"""Training a few tensors on a few rows of tokens: the optimiser behind fine-tuning and adapters."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from emend.agents.local.batching import pack
from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.padding import padded
from emend.memory.errors import ModelError


class Row(NamedTuple):
    """Token ids, the begin token included, of which those from `start` on are to be learnt."""

    ids: tuple[int, ...]
    start: int
    at_once: bool = False
    """Whether all of them are scored where the prompt ends, as FT-L is coded, and not each after those before it."""

    @property
    def fed(self) -> tuple[int, ...]:
        """What the model is given: the last token is never fed, so a row may be one longer than the window."""
        return self.ids[: self.start] if self.at_once else self.ids[:-1]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How fast, how long and how far."""

    learning_rate: Annotated[float, Field(gt=0)]
    steps: Annotated[int, Field(ge=1)]
    """Passes over all rows at most, also known as epochs; each is one step of Adam unless `rows_per_step` is set."""
    stop_loss: Annotated[float, Field(ge=0)]
    """Training ends when the mean negative log-probability per token, in nats, is below this in every row."""
    batch_tokens: Annotated[int, Field(ge=1)]
    """Positions of one padded forward pass; more rows than that are accumulated into the same step."""
    rows_per_step: Annotated[int, Field(ge=0)] = 0
    """Rows of one step of Adam, drawn anew for each pass; 0 takes all."""


class _Batch(NamedTuple):
    """Rows as the model is fed them, and where each token that is to be learnt is scored."""

    fed: dict[str, Any]
    lines: Tensor
    places: Tensor
    tokens: Tensor
    counts: Tensor


def train(
    lm: CausalLM,
    names: Sequence[str],
    rows: Sequence[Row],
    plan: Plan,
    distance: float = 0.0,
    seed: int = 0,
) -> dict[str, Tensor]:
    """What Adam adds to the named parameters so that the rows become probable; the model itself stays as it is.

    Deltas are float32, of the parameters' shapes; see `descend` for how it goes.

    Args:
        lm: the model.
        names: of parameters.
        rows: what is learnt.
        plan: the settings.
        distance: farthest that an element may move from where it was; 0 sets no bound.
        seed: of the order of rows, where a step takes only some.

    Raises:
        ModelError: the numbers overflowed; step and loss are named.
    """
    frozen = {name: parameter.detach() for name, parameter in lm.model.named_parameters()}
    origin = {name: frozen[name].float() for name in names}
    trained = {name: tensor.clone().requires_grad_() for name, tensor in origin.items()}

    def forward(fed: dict[str, Any]) -> Tensor:
        weights = {**frozen, **{name: tensor.to(frozen[name].dtype) for name, tensor in trained.items()}}
        logits: Tensor = functional_call(lm.model, weights, (), fed).logits
        return logits

    descend(lm, forward, list(trained.values()), rows, plan, seed, lambda: _constrain(trained, origin, distance))
    return {name: (tensor - origin[name]).detach() for name, tensor in trained.items()}


def descend(
    lm: CausalLM,
    forward: Callable[[dict[str, Any]], Tensor],
    leaves: Sequence[Tensor],
    rows: Sequence[Row],
    plan: Plan,
    seed: int = 0,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Trains the leaves in place.

    Each step descends the mean over its rows of the mean over their tokens of the negative log-probability; a step
    whose rows are all below `stop_loss` is left out, and a pass without any step is the last.

    Args:
        lm: whose device, padding and token budget count.
        forward: logits (rows, places, vocabulary) of what a model is called with.
        leaves: what is trained, float32.
        rows: what is learnt.
        plan: the settings.
        seed: of the order of rows, where a step takes only some.
        after: is called after every step.

    Raises:
        ModelError: a loss or a trained number overflowed; step and loss are named.
    """
    optimizer = torch.optim.Adam(leaves, lr=plan.learning_rate)
    number = 0
    with lm.lock, torch.enable_grad():
        for parts in _passes(lm, rows, plan, seed):
            moved = False
            for batches in parts:
                optimizer.zero_grad()
                total = sum(len(batch.counts) for batch in batches)
                losses = torch.cat([_backward(forward, leaves, batch, total) for batch in batches])
                _check(losses, number, plan)
                if bool(losses.max() < plan.stop_loss):
                    continue
                if not stepped(optimizer):
                    raise _overflow(number, losses, plan)
                after()
                number, moved = number + 1, True
            if not moved:
                break
    if not all(bool(leaf.isfinite().all()) for leaf in leaves):
        raise _overflow(number, losses, plan)


def stepped(optimizer: torch.optim.Optimizer) -> bool:
    """One step; False, and nothing moved, where the rate is too large for the numbers of what is trained."""
    try:
        optimizer.step()
    except RuntimeError as error:
        if "without overflow" not in str(error):
            raise
        return False
    return True


def _passes(lm: CausalLM, rows: Sequence[Row], plan: Plan, seed: int) -> Iterator[list[list[_Batch]]]:
    """For each pass its steps, and for each step its batches."""
    size = plan.rows_per_step or len(rows)
    if size >= len(rows):
        whole = [_batches(lm, rows, plan)]
        for _ in range(plan.steps):
            yield whole
        return
    order, rng = list(rows), random.Random(seed)
    for _ in range(plan.steps):
        rng.shuffle(order)
        yield [_batches(lm, order[at : at + size], plan) for at in range(0, len(order), size)]


def _batches(lm: CausalLM, rows: Sequence[Row], plan: Plan) -> list[_Batch]:
    parts = pack([len(row.fed) for row in rows], min(plan.batch_tokens, lm.batch_tokens))
    return [_batch(lm, [rows[place] for place in places]) for places in parts]


def _batch(lm: CausalLM, rows: Sequence[Row]) -> _Batch:
    """Right-padded ids and mask, shape (rows, longest), and the scored tokens, row by row."""
    ids, mask = padded([row.fed for row in rows], lm.tokenizer.pad_token_id)
    wanted: list[tuple[int, int, int]] = []
    for line, row in enumerate(rows):
        for place in range(row.start, len(row.ids)):
            wanted.append((line, (row.start if row.at_once else place) - 1, row.ids[place]))
    lines, places, tokens = torch.tensor(wanted, device=lm.device).T
    fed = {"input_ids": ids.to(lm.device), "attention_mask": mask.to(lm.device), "use_cache": False}
    return _Batch(fed, lines, places, tokens, torch.bincount(lines, minlength=len(rows)))


def _backward(
    forward: Callable[[dict[str, Any]], Tensor], leaves: Sequence[Tensor], batch: _Batch, total: int
) -> Tensor:
    """Adds this batch's share of the leaves' gradient; the loss of each of its rows, before the step."""
    scored = forward(batch.fed)[batch.lines, batch.places].float()
    each = cross_entropy(scored, batch.tokens, reduction="none")
    losses = torch.zeros(len(batch.counts), device=each.device).index_add(0, batch.lines, each) / batch.counts
    (losses.sum() / total).backward(inputs=list(leaves))
    return losses.detach()


def _check(losses: Tensor, number: int, plan: Plan) -> None:
    if not bool(losses.isfinite().all()):
        raise _overflow(number, losses, plan)


def _overflow(number: int, losses: Tensor, plan: Plan) -> ModelError:
    return ModelError(
        f"training overflowed at step {number}, seen loss: {losses.max().item():.4g}, "
        f"seen learning_rate: {plan.learning_rate:g}: set a smaller one."
    )


def _constrain(trained: Mapping[str, Tensor], origin: Mapping[str, Tensor], distance: float) -> None:
    if distance > 0:
        with torch.no_grad():
            for name, tensor in trained.items():
                tensor.clamp_(origin[name] - distance, origin[name] + distance)
