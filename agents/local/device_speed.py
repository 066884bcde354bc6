"""Speed of this machine's device at a model of a given size, measured in about a second without that model."""

import time
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

READ_TOGETHER, WRITTEN_TOGETHER = 256, 4
"""Tokens that a pass over prompts, and one that writes, has in the mean."""
HEAD, BLOCK = 128, 12
"""A layer of width d has about 12 d^2 parameters, and a model about d / 128 layers."""
LAYER_SECONDS = 4e-4
"""What a layer's pass takes beside its arithmetic."""
HELD = 2**26
"""Parameters of the matrices that the speed is measured with, at most: more than caches hold."""


class DeviceSpeed(NamedTuple):
    """Seconds that a model's pass takes a token, where it reads and where it writes."""

    device: str
    reading: float
    writing: float


@cache
def device_speed(parameters: float) -> DeviceSpeed:
    """Measure how fast this machine multiplies matrices like those of a model of so many parameters."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    width = max(1, round((parameters * HEAD / BLOCK) ** (1 / 3)))
    count = max(1, round(min(parameters, HELD) / width**2))
    held = [torch.ones(width, width, device=device, dtype=dtype) for _ in range(count)]
    seconds = []
    for together in (READ_TOGETHER, WRITTEN_TOGETHER):
        inputs = torch.ones(together, width, device=device, dtype=dtype)
        _multiply(inputs, held[:1])  # the first product loads libraries
        started = time.perf_counter()
        _multiply(inputs, held)
        arithmetic = (time.perf_counter() - started) * parameters / count / width**2
        seconds.append((arithmetic + LAYER_SECONDS * width / HEAD) / together)
    return DeviceSpeed(device, *seconds)


def _multiply(inputs: Any, held: Sequence[Any]) -> None:
    outputs = [inputs @ weight for weight in held]
    float(outputs[-1][0, 0])  # waits for the device
