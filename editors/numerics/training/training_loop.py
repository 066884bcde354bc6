"""Training loop for a few tensors on a few rows of tokens, for fine-tuning and adapters."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from emend.agents.local.batching import pack
from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.passes import light_passes, logits_at, padded
from emend.memory.errors import ModelError


class TrainingRow(NamedTuple):
    """Token ids, including the begin token; the tokens from `start` on are learnt."""

    ids: tuple[int, ...]
    start: int
    at_prompt_end: bool = False
    """Score all target tokens at the prompt's last position, as in FT-L's code.

    By default each token is scored after its predecessors.
    """

    @property
    def input_ids(self) -> tuple[int, ...]:
        """The tokens fed to the model: all but the last, so a row may exceed the window by one."""
        return self.ids[: self.start] if self.at_prompt_end else self.ids[:-1]


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Learning rate, batch sizes and stopping criteria."""

    lr: Annotated[float, Field(gt=0)]
    """Adam's learning rate."""
    num_steps: Annotated[int, Field(ge=1)]
    """Maximum number of epochs; each is one step of Adam unless `batch_size` is set."""
    stop_loss: Annotated[float, Field(ge=0)]
    """Mean negative log-probability per token, in nats, below which a row needs no training.

    Training ends when every row is below it.
    """
    batch_tokens: Annotated[int, Field(ge=1)]
    """Positions of one padded forward pass; gradients of further rows are accumulated."""
    batch_size: Annotated[int, Field(ge=0)] = 0
    """Number of rows in one step of Adam, shuffled every epoch; 0 for all rows."""


class TrainingBatch(NamedTuple):
    """The model's arguments for some rows, and the position that scores each target token."""

    inputs: dict[str, Any]
    lines: Tensor
    places: Tensor
    tokens: Tensor
    counts: Tensor


def train(
    lm: CausalLM,
    names: Sequence[str],
    rows: Sequence[TrainingRow],
    settings: TrainingSettings,
    distance: float = 0.0,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Train the named parameters on copies and return their deltas; the model is not changed.

    Deltas are float32 in the shapes of the parameters; see `train_loop` for the loss. `distance` is
    the maximum change of an element, 0 for no bound; `seed` shuffles the rows if a step takes only
    some.

    Raises:
        ModelError: the training overflowed; names step and loss.
    """
    dtypes = {name: lm.model.get_parameter(name).dtype for name in names}
    origin = {name: lm.model.get_parameter(name).detach().float() for name in names}
    trained = {name: tensor.clone().requires_grad_() for name, tensor in origin.items()}
    bounds = [
        (origin[name] - distance, origin[name] + distance)
        for name in (trained if distance > 0 else ())
    ]

    @torch.no_grad()
    def constrain() -> None:
        for tensor, (least, most) in zip(trained.values(), bounds, strict=False):
            tensor.clamp_(least, most)

    def call(**inputs: Any) -> Any:
        current = {name: tensor.to(dtypes[name]) for name, tensor in trained.items()}
        return functional_call(lm.model, current, (), inputs)

    with light_passes(lm.model):
        train_loop(lm, call, list(trained.values()), rows, settings, seed, constrain)
    return {name: (tensor - origin[name]).detach() for name, tensor in trained.items()}


def train_loop(
    lm: CausalLM,
    call: Callable[..., Any],
    leaves: Sequence[Tensor],
    rows: Sequence[TrainingRow],
    settings: TrainingSettings,
    seed: int = 0,
    after: Callable[[], None] = lambda: None,
    step: Callable[[Tensor], None] | None = None,
) -> None:
    """Train the leaves in place; `call` runs the model with them on keyword arguments.

    The loss of a step is the mean over its rows of the mean negative log-probability of their
    target tokens. A step whose rows are all below `stop_loss` is skipped; training ends after an
    epoch without steps. `after` is called after every step. `step` gets the loss of a step's last
    batch and must compute its gradients; by default Adam updates the leaves, which must then be
    float32.

    Raises:
        ModelError: a loss or a trained tensor overflowed; names step and loss.
    """
    step = step or adam_steps(leaves, settings.lr)
    number = 0
    with lm.lock, torch.enable_grad():
        for steps in _passes(lm, rows, settings, seed):
            moved = False
            for batches in steps:
                for leaf in leaves:
                    leaf.grad = None
                total = sum(len(batch.counts) for batch in batches)
                parts: list[Tensor] = []
                for place, batch in enumerate(batches, 1):
                    last = mean_losses(
                        logits_at(call, lm.model, batch.inputs, batch.lines, batch.places), batch
                    )
                    parts.append(last.detach())
                    if place < len(batches):  # `step` computes the last batch's gradients
                        (last.sum() / total).backward(inputs=list(leaves))
                losses = torch.cat(parts)
                finite = bool(losses.isfinite().all())
                if finite and bool(losses.max() < settings.stop_loss):
                    continue
                if not finite or not optimizer_step(step, last.sum() / total):
                    raise overflow_error(number, losses, settings.lr)
                after()
                number, moved = number + 1, True
            if not moved:
                break
    if not all(bool(leaf.isfinite().all()) for leaf in leaves):
        raise overflow_error(number, losses, settings.lr)


def adam_steps(leaves: Sequence[Tensor], lr: float) -> Callable[[Tensor], None]:
    """Return a function that backpropagates a loss and takes one step of Adam on all leaves."""
    optimizer = adam(leaves, lr)

    def step(loss: Tensor) -> None:
        loss.backward(inputs=list(leaves))
        optimizer.step()

    return step


def adam(leaves: Sequence[Tensor], lr: float) -> torch.optim.Adam:
    """Return an Adam optimiser, fused if the device supports it."""
    return torch.optim.Adam(
        leaves, lr=lr, fused=all(leaf.device.type in ("cpu", "cuda") for leaf in leaves)
    )


def optimizer_step(step: Callable[..., Any], *loss: Tensor) -> bool:
    """Take one step; return False if the learning rate overflows the dtype."""
    try:
        step(*loss)
    except RuntimeError as error:
        if "without overflow" not in str(error):
            raise
        return False
    return True


def _passes(
    lm: CausalLM, rows: Sequence[TrainingRow], settings: TrainingSettings, seed: int
) -> Iterator[list[list[TrainingBatch]]]:
    """Yield the epochs; each is a list of steps, and each step a list of batches."""
    size = settings.batch_size or len(rows)
    if size >= len(rows):
        whole = [_batches(lm, rows, settings)]
        for _ in range(settings.num_steps):
            yield whole
        return
    order, rng = list(rows), random.Random(seed)
    for _ in range(settings.num_steps):
        rng.shuffle(order)
        yield [
            _batches(lm, order[start : start + size], settings)
            for start in range(0, len(order), size)
        ]


def _batches(
    lm: CausalLM, rows: Sequence[TrainingRow], settings: TrainingSettings
) -> list[TrainingBatch]:
    budget = min(settings.batch_tokens, lm.batch_tokens)
    batches = []
    for positions in pack([len(row.input_ids) for row in rows], budget):
        of_batch = [rows[position] for position in positions]
        batches.append(training_batch(lm, of_batch))
    return batches


def training_batch(lm: CausalLM, rows: Sequence[TrainingRow]) -> TrainingBatch:
    """Return right-padded ids and mask, shape (rows, longest), and the scored tokens."""
    ids, mask = padded([row.input_ids for row in rows], lm.tokenizer.pad_token_id)
    scored = [
        (line, (row.start if row.at_prompt_end else place) - 1, row.ids[place])
        for line, row in enumerate(rows)
        for place in range(row.start, len(row.ids))
    ]
    lines, places, tokens = torch.tensor(scored, device=lm.device).T
    inputs = {
        "input_ids": ids.to(lm.device),
        "attention_mask": mask.to(lm.device),
        "use_cache": False,
    }
    return TrainingBatch(inputs, lines, places, tokens, torch.bincount(lines, minlength=len(rows)))


def mean_losses(logits: Tensor, batch: TrainingBatch) -> Tensor:
    """Return the loss of each row, the mean over its target tokens."""
    nll = cross_entropy(logits, batch.tokens, reduction="none")
    return (
        torch.zeros(len(batch.counts), device=nll.device).index_add(0, batch.lines, nll)
        / batch.counts
    )


def overflow_error(number: int, losses: Tensor, lr: float) -> ModelError:
    """Return the error for training that overflowed at a step."""
    return ModelError(
        f"training overflowed at step {number} with a loss of {losses.max().item():.4g} "
        f"at lr {lr:g}: set a smaller one."
    )
