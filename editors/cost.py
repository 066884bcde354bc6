"""Cost of editing: time, memory, and the number of tokens that the model processed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emend.editors.base import EditCost
from emend.memory.process_memory import reset_resident_peak, resident_peak

if TYPE_CHECKING:
    from emend.agents.local.causal_lm import CausalLM


@dataclass
class TokenCounter:
    """A count of tokens."""

    tokens: int = 0

    @property
    def cost(self) -> EditCost:
        """Return the count as an `EditCost`."""
        return EditCost(tokens=self.tokens)


_counting: ContextVar[TokenCounter | None] = ContextVar("counting", default=None)


def add_tokens(tokens: int) -> None:
    """Add the tokens of a pass through some of the layers to the active counter, if any."""
    counter = _counting.get()
    if counter:
        counter.tokens += tokens


@contextmanager
def count_tokens(lm: "CausalLM") -> Iterator[TokenCounter]:
    """Count the tokens of every forward pass of the model inside the `with`, without padding.

    Tokens are those marked by `attention_mask`, or else all of `input_ids` or `inputs_embeds`;
    backward passes do not count. `add_tokens` adds a pass through some of the layers, which counts
    like a pass through all of them.
    """
    counter = TokenCounter()

    def count(_: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        mask, ids, embeds = (
            named.get(name) for name in ("attention_mask", "input_ids", "inputs_embeds")
        )
        ids = inputs[0] if ids is None and inputs else ids
        if ids is None and embeds is not None:
            ids = embeds[..., 0]
        if ids is not None:
            # a longer mask also covers cached tokens
            fits = mask is not None and mask.dim() == ids.dim()
            counter.tokens += (
                int(mask[:, -ids.shape[1] :].sum()) if fits and mask is not None else ids.numel()
            )

    handle = lm.model.base_model.register_forward_pre_hook(count, with_kwargs=True)
    token = _counting.set(counter)
    try:
        yield counter
    finally:
        _counting.reset(token)
        handle.remove()


class Meter:
    """Wall clock, processor time and peak memory of the code inside a `with`.

    If the code runs `alone` in its process, the processor time of all threads and the memory are
    measured; otherwise only the processor time of this thread. For a local model on a GPU, the
    memory of the GPU is measured.
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
        """Return the editor's own cost, completed with the measured time and memory."""
        measured = {"seconds": round(self.seconds, 6), "cpu_seconds": round(self.cpu_seconds, 6)}
        return editor_cost.model_copy(
            update=measured | {"edits": edits, "peak_bytes": self.peak_bytes}
        )


def _reset_peak(device: Any) -> int | None:
    """Reset the peak memory of the GPU or of this process, and return its current use in bytes."""
    if device is not None:
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        return int(torch.cuda.memory_allocated(device))
    return reset_resident_peak()


def _peak(device: Any) -> int | None:
    """Return the peak memory of the GPU, or of this process, in bytes."""
    if device is not None:
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    return resident_peak()
