"""Random draws that depend on a seed alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOCK = threading.RLock()  # all threads share torch's generator, and dropout has no other


@contextmanager
def seeded_draws(device: torch.device, seed: int) -> Iterator[None]:
    """Seed random draws inside the `with`, without affecting draws outside.

    Only one thread of the process at a time can be inside; acquire the lock of a model's weights
    first.
    """
    devices = [device] if device.type == "cuda" else []
    with _LOCK, torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
