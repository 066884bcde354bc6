"""Cost of editing: time, memory, and the tokens that went through the model."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.editors.base import EditCost

if TYPE_CHECKING:
    from emend.agents.local.causal_lm import CausalLM

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")
_highest = [0]
"""The high-water mark of this process's memory before the system's own was reset."""


@dataclass
class TokenCounter:
    """A count of tokens."""

    tokens: int = 0

    @property
    def cost(self) -> EditCost:
        """The count as a cost."""
        return EditCost(tokens=self.tokens)


_counting: ContextVar[TokenCounter | None] = ContextVar("counting", default=None)


def add_tokens(tokens: int) -> None:
    """Add tokens that went through some layers of a model apart from the others to the active counter, if any."""
    counter = _counting.get()
    if counter:
        counter.tokens += tokens


@contextmanager
def count_tokens(lm: "CausalLM") -> Iterator[TokenCounter]:
    """Count the tokens of every forward pass of the model inside the `with`, without padding.

    Tokens are those that `attention_mask` marks, or else all of `input_ids` or `inputs_embeds`; backward passes do not
    count. A pass through some of the layers is added by `add_tokens`, and counts as one through all of them.
    """
    counter = TokenCounter()

    def count(_: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        mask, ids, embeds = (named.get(name) for name in ("attention_mask", "input_ids", "inputs_embeds"))
        ids = inputs[0] if ids is None and inputs else ids
        if ids is None and embeds is not None:
            ids = embeds[..., 0]
        if ids is not None:
            fits = mask is not None and mask.dim() == ids.dim()  # a longer mask also covers cached tokens
            counter.tokens += int(mask[:, -ids.shape[1] :].sum()) if fits and mask is not None else ids.numel()

    handle = lm.model.base_model.register_forward_pre_hook(count, with_kwargs=True)
    token = _counting.set(counter)
    try:
        yield counter
    finally:
        _counting.reset(token)
        handle.remove()


class Meter:
    """Wall clock, processor time and peak memory of the code inside a `with`.

    Where this work is `alone` in its process, the time of all threads and the memory are its own; else only the time of
    this thread is measured, and no memory. For a local model on a GPU, its device's memory is measured.
    """

    def __init__(self, alone: bool, lm: Any = None) -> None:
        self._clock = time.process_time if alone else time.thread_time
        self._alone = alone
        device = getattr(lm, "device", None)
        self._device = device if getattr(device, "type", "") == "cuda" else None
        self.seconds = self.cpu_seconds = 0.0
        self.peak_bytes: int | None = None

    def __enter__(self) -> "Meter":
        self._before = _reset_peak(self._device) if self._alone else None
        self._began = time.perf_counter(), self._clock()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self._began[0]
        self.cpu_seconds = self._clock() - self._began[1]
        peak = None if self._before is None else _peak(self._device)
        if peak is not None and self._before is not None:
            self.peak_bytes = max(0, peak - self._before)

    def cost(self, edits: int, editor_cost: EditCost) -> EditCost:
        """The editor's own cost with the measured time and memory."""
        measured = {"seconds": round(self.seconds, 6), "cpu_seconds": round(self.cpu_seconds, 6)}
        return editor_cost.model_copy(update=measured | {"edits": edits, "peak_bytes": self.peak_bytes})


def highest_memory() -> int | None:
    """The highest resident memory of this process so far, in bytes; None where the system is not Linux."""
    peak = _peak(None)
    return None if peak is None else max(_highest[0], peak)


def _reset_peak(device: Any) -> int | None:
    """Reset the high-water mark of a GPU's memory, or of this process's, to the current use in bytes; returns that."""
    if device is not None:
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        return int(torch.cuda.memory_allocated(device))
    _highest[0] = highest_memory() or 0
    with suppress(OSError):
        RESET.write_text("5")
        return _status("VmRSS")
    return None


def _peak(device: Any) -> int | None:
    """The high-water mark of a GPU's memory, or of this process's, in bytes."""
    if device is not None:
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    return _status("VmHWM")


def _status(name: str) -> int | None:
    """A number of bytes in this process's status; None where the system is not Linux."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)
