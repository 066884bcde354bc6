"""The number of threads that PyTorch uses for one operation on the CPU, in the calling thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

# Number of parameters below which one thread is faster than several, because starting them costs
# more than the operation.
SMALL = 30_000_000


def is_small(model: Any) -> bool:
    """Return whether a model is small and on the CPU."""
    weights = list(model.parameters())
    on_cpu = all(weight.device.type == "cpu" for weight in weights)
    return on_cpu and sum(weight.numel() for weight in weights) < SMALL


@contextmanager
def one_thread(when: bool = True) -> Iterator[None]:
    """Limit PyTorch to one thread for operations of the calling thread; other threads are not
    affected.

    OpenMP threads busy-wait for each other after every operation: on a loaded machine that can take
    a hundred times as long as a small operation itself.
    """
    if not when:
        yield
        return
    import torch

    torch.get_num_threads()  # the first call in a thread sets its thread count to PyTorch's
    with _openmp().limit(limits=1):
        yield


@cache
def _openmp() -> Any:
    """Return a controller of the OpenMP libraries, which have a thread count per calling thread;
    BLAS has one per process.
    """
    return ThreadpoolController().select(user_api="openmp")
