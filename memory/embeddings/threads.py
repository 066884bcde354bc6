"""The number of threads that PyTorch uses for one operation on the CPU, in the calling thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

SMALL = 30_000_000
"""Parameters below which a model is small: one thread ends an operation before several have agreed to begin it."""


def is_small(model: Any) -> bool:
    """True for a small model on the CPU."""
    weights = list(model.parameters())
    on_cpu = all(weight.device.type == "cpu" for weight in weights)
    return on_cpu and sum(weight.numel() for weight in weights) < SMALL


@contextmanager
def one_thread(when: bool = True) -> Iterator[None]:
    """Context in which PyTorch uses one thread here; other threads of the process keep theirs, as does PyTorch.

    The threads of a team wait for each other after every operation, and by default they do so at full speed: on a busy
    machine that can take a hundred times as long as a small operation.
    """
    if not when:
        yield
        return
    import torch

    torch.get_num_threads()  # the first call in a thread sets its number to PyTorch's
    with _openmp().limit(limits=1):
        yield


@cache
def _openmp() -> Any:
    """The OpenMP libraries, whose number of threads is a setting of the calling thread; a BLAS has one for all."""
    return ThreadpoolController().select(user_api="openmp")
