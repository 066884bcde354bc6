"""Cost of editing: time, memory, and the tokens that went through the model."""

import os
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

    Args:
        alone: nothing else runs in this process, so that the processor time of all its threads, and its memory, belong
            to this work; otherwise only this thread's time is measured, and no memory.
        lm: a local model, if any; on a GPU its device's memory is measured instead.
    """

    def __init__(self, alone: bool, lm: Any = None) -> None:
        self._clock = time.process_time if alone else time.thread_time
        self._memory = _memory_of(lm) if alone else None
        self.seconds = self.cpu_seconds = 0.0
        self.peak_bytes: int | None = None

    def __enter__(self) -> "Meter":
        self._before = self._memory.start() if self._memory else None
        self._began = time.perf_counter(), self._clock()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self._began[0]
        self.cpu_seconds = self._clock() - self._began[1]
        peak = self._memory.peak() if self._memory else None
        if peak is not None and self._before is not None:
            self.peak_bytes = max(0, peak - self._before)

    def cost(self, edits: int, editor_cost: EditCost) -> EditCost:
        """The editor's own cost with the measured time and memory."""
        measured = {"seconds": round(self.seconds, 6), "cpu_seconds": round(self.cpu_seconds, 6)}
        return editor_cost.model_copy(update=measured | {"edits": edits, "peak_bytes": self.peak_bytes})


class ResidentMemory:
    """The resident memory of this process, in bytes; None where the system is not Linux."""

    highest = 0
    """The high-water mark before the system's own was reset."""

    def start(self) -> int | None:
        """The current memory; the high-water mark is reset to it."""
        type(self).highest = self.highest_so_far() or 0
        with suppress(OSError):
            RESET.write_text("5")
            return _status("VmRSS")
        return None

    def peak(self) -> int | None:
        """The peak since `start`."""
        return _status("VmHWM")

    @classmethod
    def highest_so_far(cls) -> int | None:
        """The peak of this process so far, if the system reports it."""
        peak = _status("VmHWM")
        return None if peak is None else max(cls.highest, peak)


class DeviceMemory:
    """The memory that tensors take on a GPU, in bytes."""

    def __init__(self, device: Any) -> None:
        import torch

        self._device, self._cuda = device, torch.cuda

    def start(self) -> int:
        """The current memory."""
        self._cuda.reset_peak_memory_stats(self._device)
        return int(self._cuda.memory_allocated(self._device))

    def peak(self) -> int:
        """The peak since `start`."""
        return int(self._cuda.max_memory_allocated(self._device))


def _memory_of(lm: Any) -> ResidentMemory | DeviceMemory:
    device = getattr(lm, "device", None)
    return DeviceMemory(device) if getattr(device, "type", "") == "cuda" else ResidentMemory()


def _status(name: str) -> int | None:
    if os.name != "posix" or not STATUS.exists():
        return None
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None
