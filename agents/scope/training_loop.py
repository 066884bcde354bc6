"""The training loop of the scope cross-encoder and the sentence encoder.

The trainers of sentence-transformers need `datasets`, which is too large for Emend's extras, and a
loss that depends only on the texts; the encoder's loss adds BM25 scores, and both models resample
their negatives.
"""

import ctypes
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

# Called with the number of finished steps and the total.
OnStep = Callable[[int, int], None]


def ignore_step(finished: int, total: int) -> None:
    """Report no progress."""


def optimise(
    losses: Iterable[Tensor],
    steps: int,
    optimizer: torch.optim.Optimizer,
    rate: Callable[[int], float],
    model: Any,
    on_step: OnStep = ignore_step,
) -> None:
    """Take one optimiser step per loss, with gradients clipped to norm 1.

    Args:
        losses: one scalar per step, computed lazily.
        steps: number of steps, for `on_step`.
        optimizer: holds the trained parameters and their learning rates.
        rate: the factor on the learning rates by step, from 0.
        model: the model whose gradients are clipped.
        on_step: called after every step.
    """
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    for step, loss in enumerate(losses):
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        trim_malloc()
        on_step(step + 1, steps)


def trim_malloc() -> None:
    """Return freed memory to the system: batches of different sizes fragment glibc's heap by
    gigabytes.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
