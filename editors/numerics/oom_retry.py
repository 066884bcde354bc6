"""Retries with halved batches when memory runs out."""

import logging
from collections.abc import Callable
from typing import TypeVar

import torch

from emend.agents.local.causal_lm import CausalLM
from emend.memory.errors import ModelError

T = TypeVar("T")
LEAST = 16
"""Smallest batch size, in positions."""
ON_A_CPU = "DefaultCPUAllocator"
"""Name of the allocator in the error on a CPU, which has no class of its own and other words on every system."""


def retry_on_oom(lm: CausalLM, work: Callable[[], T]) -> T:
    """The work's result; whenever memory runs out, `lm.batch_tokens` is halved and the work starts again.

    The smaller batches stay, since later work is as large. The work must take its batch size from `lm.batch_tokens` and
    leave the model unchanged when it raises.

    Raises:
        ModelError: there is not enough memory for the smallest batches either; those of before are restored.
    """
    before = lm.batch_tokens
    while True:
        try:
            return work()
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and ON_A_CPU not in str(error):
                raise
            if lm.batch_tokens // 2 < LEAST:
                least, lm.batch_tokens = lm.batch_tokens, before
                raise ModelError(
                    f"memory ran out with batches of {least} tokens: take a smaller model, a shorter text, "
                    "fewer edits at once, or a device with more memory."
                ) from error
        # Outside the handler the error is gone, and with it the tensors that its frames held.
        lm.batch_tokens //= 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        logging.getLogger(__name__).warning(
            "memory ran out: continuing with batches of %s tokens, half as many as before", lm.batch_tokens
        )
