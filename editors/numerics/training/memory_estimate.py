"""Estimate of the memory that training will take, which refuses training that does not fit."""

import logging
from collections.abc import Sequence
from pathlib import Path

import torch

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.generation import free_bytes
from emend.memory.errors import BadSettings

HOST = torch.device("cpu")
MEMINFO, LIMIT, STAT = (
    Path("/proc/meminfo"),
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory.stat"),
)
# Training that needs at least this many bytes is logged before it starts.
WORTH_SAYING = 1 << 30
GB = 1e9


def check_memory(
    lm: CausalLM, names: Sequence[str], in_place: bool, tokens: int, editor: str
) -> None:
    """Refuse to train these parameters if the memory needed beside the loaded model is not free.

    `tokens` is the number of positions in a batch. With 0, before any edit is known, the memory for
    the weights alone is logged if it is large.

    Raises:
        BadSettings: there is not enough memory; the message names cheaper settings.
    """
    for device, needed in needed_bytes(lm, names, in_place, tokens).items():
        free = free_host_bytes() if device == HOST else free_bytes(lm.model)
        place = "main memory" if device == HOST else f"device '{device}'"
        known = "" if free is None else f", of which {free / GB:.1f} GB are free"
        wants = (
            f"training {len(names)} tensors takes about {needed / GB:.1f} GB of {place} beside "
            f"the model{known}"
        )
        if free is not None and needed > free:
            raise BadSettings(f"editor '{editor}': {wants}. {_remedy(lm, in_place, editor)}")
        if not tokens and needed > WORTH_SAYING:
            logging.getLogger(__name__).warning("%s: %s", editor, wants)


def needed_bytes(
    lm: CausalLM, names: Sequence[str], in_place: bool, tokens: int
) -> dict[torch.device, float]:
    """Return the bytes needed by device beside the loaded model, for `tokens` positions a batch."""
    weights = [lm.model.get_parameter(name) for name in names]
    count, width = sum(weight.numel() for weight in weights), weights[0].element_size()
    largest = max(weight.numel() for weight in weights)
    # 8-bit averages and their scales, low bits, accumulated gradients, and one more full gradient
    if in_place:
        on_device = count * (2 + 8 / 256 + (width == 2) + width) + largest * width
        on_host = count * 4.0  # the originals, which become deltas
    else:  # original, trained copy, gradient, two averages, and the copy in the model's dtype
        on_device, on_host = count * (20.0 + (width if width < 4 else 0)), 0.0
    needed = {lm.device: on_device + _activations(lm, tokens, in_place)}
    # Originals exist during training, deltas after it, when the averages have been freed.
    needed[HOST] = needed.get(HOST, 0.0) + (on_host / 4 * width if lm.device == HOST else on_host)
    return {device: size for device, size in needed.items() if size}


def _activations(lm: CausalLM, tokens: int, recomputed: bool) -> float:
    """Return a rough estimate of the activations that the backward pass needs."""
    config = lm.model.config.get_text_config()
    width, blocks = config.hidden_size, config.num_hidden_layers
    inner = getattr(config, "intermediate_size", None) or 4 * width
    of_block = tokens * (8 * width + 4 * inner) * lm.model.dtype.itemsize
    inputs = tokens * width * blocks * lm.model.dtype.itemsize
    return float(
        3 * 4 * tokens * config.vocab_size
        + (inputs + of_block if recomputed else blocks * of_block)
    )


def _remedy(lm: CausalLM, in_place: bool, editor: str) -> str:
    if not in_place and lm.model.dtype != torch.float32:
        smaller = (
            "load the model with --set model.dtype=bfloat16, and train with --set "
            f"{editor}.optimizer=adam_8bit"
        )
    elif not in_place:
        smaller = "load the model with --set model.dtype=bfloat16"
    else:
        smaller = f"take smaller batches with --set {editor}.batch_tokens=1024"
    return (
        f"Either {smaller}, or train less: --set {editor}.parameters=down_projection, or the "
        "editor lora."
    )


def free_host_bytes() -> float | None:
    """Return the main memory that this process may still take, in bytes; None if unknown."""
    if not MEMINFO.exists():
        return None
    lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    free = float(lines["MemAvailable"].split()[0]) * 1024
    limit = LIMIT.read_text().strip() if LIMIT.exists() and STAT.exists() else "max"
    if limit != "max":  # limit of a container, in which cached files can be evicted
        used = dict(line.split() for line in STAT.read_text().splitlines())
        free = min(free, float(limit) - float(used["anon"]) - float(used.get("shmem", 0)))
    return free
