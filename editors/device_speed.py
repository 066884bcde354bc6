"""Estimate of the device's speed for a model of a given size, measured in about a second."""

import time
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

# Tokens of the two measured passes: reading a prompt, and generating one token.
READ_BATCH, WRITE_BATCH = 256, 1
# A model of width d has about d / 128 layers, and a layer about 12 d^2 parameters.
WIDTH_PER_LAYER, SQUARES_PER_LAYER = 128, 12
# Overhead of a layer's pass besides arithmetic.
LAYER_SECONDS = 4e-4
# Maximum number of parameters of the measured matrices, more than CPU caches hold.
MAX_PARAMETERS = 2**26


class DeviceSpeed(NamedTuple):
    """Seconds to read one token in a batch, and to generate one token."""

    device: str
    reading: float
    writing: float


@cache
def device_speed(parameters: float) -> DeviceSpeed:
    """Measure how fast this machine multiplies matrices like those of a model of that size."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    width = max(1, round((parameters * WIDTH_PER_LAYER / SQUARES_PER_LAYER) ** (1 / 3)))
    count = max(1, round(min(parameters, MAX_PARAMETERS) / width**2))
    weights = [torch.ones(width, width, device=device, dtype=dtype) for _ in range(count)]
    seconds = []
    for tokens in (READ_BATCH, WRITE_BATCH):
        inputs = torch.ones(tokens, width, device=device, dtype=dtype)
        _multiply(inputs, weights[:1])  # the first product loads libraries
        started = time.perf_counter()
        _multiply(inputs, weights)
        arithmetic = (time.perf_counter() - started) * parameters / count / width**2
        seconds.append((arithmetic + LAYER_SECONDS * width / WIDTH_PER_LAYER) / tokens)
    return DeviceSpeed(device, *seconds)


def _multiply(inputs: Any, weights: Sequence[Any]) -> None:
    outputs = [inputs @ weight for weight in weights]
    float(outputs[-1][0, 0])  # waits for the device
