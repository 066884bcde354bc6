"""Retries with halved batches when memory runs out."""

import logging
from collections.abc import Callable
from typing import TypeVar

import torch

from emend.agents.local.causal_lm import CausalLM
from emend.memory.errors import ModelError

T = TypeVar("T")
# Smallest batch size, in positions.
LEAST = 16
# The CPU allocator's name in error messages: CPU errors have no class of their own, and their
# wording depends on the operating system.
ON_A_CPU = "DefaultCPUAllocator"


def retry_on_oom(lm: CausalLM, work: Callable[[], T]) -> T:
    """Run `work` and return its result; halve `lm.batch_tokens` and retry whenever memory runs out.

    The reduced batch size stays, since later work is as large. `work` must take its batch size from
    `lm.batch_tokens` and leave the model unchanged when it raises.

    Raises:
        ModelError: memory is not enough for the smallest batches either; the batch size is
            restored.
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
                    f"out of memory with batches of {least} tokens: use a smaller model, a "
                    "shorter text, fewer edits at once, or a device with more memory."
                ) from error
        # Outside the handler the error is released, and with it the tensors in its stack frames.
        lm.batch_tokens //= 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        logging.getLogger(__name__).warning(
            "out of memory: continuing with batches of %s tokens, half the previous size",
            lm.batch_tokens,
        )
