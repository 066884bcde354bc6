"""Random draws that depend on a seed alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOCK = threading.RLock()  # torch has one generator for all threads, and dropout takes no other


@contextmanager
def seeded_draws(device: torch.device, seed: int) -> Iterator[None]:
    """Make random draws inside the `with` depend on the seed alone, without disturbing those outside.

    One thread of the process at a time is inside; acquire the lock of a model's weights before.
    """
    devices = [device] if device.type == "cuda" else []
    with _LOCK, torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
