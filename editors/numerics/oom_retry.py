"""What is done when memory runs out: the same work again, in batches of half the size."""

import logging
from collections.abc import Callable
from typing import TypeVar

import torch

from emend.agents.local.causal_lm import CausalLM
from emend.memory.errors import ModelError

T = TypeVar("T")
LEAST = 16
"""Positions of a batch below which halving is given up."""
ON_A_CPU = "DefaultCPUAllocator"
"""Who says so there, in an error that has no class of its own and other words on every system."""


def halving(lm: CausalLM, work: Callable[[], T]) -> T:
    """What the work returns; whenever memory runs out, `lm.batch_tokens` is halved, logged, and it starts anew.

    The smaller batches stay, since what follows is as large. The work must take their size from `lm.batch_tokens` and
    leave the model as it was when it raises.

    Raises:
        ModelError: there is not enough memory for the smallest batches either.
    """
    while True:
        try:
            return work()
        except RuntimeError as error:
            if not _out_of_memory(error):
                raise
            if lm.batch_tokens // 2 < LEAST:
                raise ModelError(
                    f"memory ran out with batches of {lm.batch_tokens} tokens: take a smaller model, a shorter text, "
                    "fewer edits at once, or a device with more memory."
                ) from error
        # Here the error is gone, and with it the tensors that its frames held.
        lm.batch_tokens //= 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        logging.getLogger(__name__).warning(
            "memory ran out: going on with batches of %s tokens, half as many as before", lm.batch_tokens
        )


def _out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or ON_A_CPU in str(error)
