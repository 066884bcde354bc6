"""Greedy decoding of many rows at once, each of which leaves the batch as soon as it has ended.

`generate` of transformers computes ended rows until the last one ends, which for one-line replies is every second step.
"""

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

CROWDED = 0.75
"""Ended rows stay in the batch while a larger share than this continues: removing them copies the others."""


class Continuation(NamedTuple):
    """The new tokens of a row, and the margin of each over the second most likely one (logits)."""

    ids: list[int]
    margins: list[float]


OnEnd = Callable[[int, Sequence[int], Any, int, Tensor], None]
"""Called with an ended row: its number, new tokens, the cache, its line there, and its columns, shape (width,)."""


def decode(
    model: Any,
    fed: dict[str, Any],
    limit: int,
    is_over: Callable[[Sequence[int]], bool],
    cache: Any = None,
    on_end: OnEnd | None = None,
) -> list[Continuation]:
    """Continues rows until they end or reach the limit; for models that continue from keys and values.

    Args:
        model: a Hugging Face causal language model; the caller disables gradients.
        fed: input ids, shape (rows, width), and mask, shape (rows, past + width), both padded on the left; positions
            where the model takes them.
        limit: maximum number of new tokens of a row.
        is_over: True for the new tokens of an ended row.
        cache: keys and values of the past columns, if any.
        on_end: called before a row's keys and values are dropped; those of its last new token are not among them.
    """
    rows = [Continuation([], []) for _ in fed["input_ids"]]
    lines, active = list(range(len(rows))), set(range(len(rows)))
    cache = growing(model, limit) if cache is None else cache
    last = {"logits_to_keep": 1} if "logits_to_keep" in signature(model.forward).parameters else {}
    while active:
        logits = model(**fed, **last, past_key_values=cache, use_cache=True).logits
        best = logits[:, -1].float().topk(2)
        margins = (best.values[:, 0] - best.values[:, 1]).tolist()
        for line, (row, token, margin) in enumerate(zip(lines, best.indices[:, 0].tolist(), margins, strict=True)):
            if row not in active:
                continue
            rows[row].ids.append(token)
            rows[row].margins.append(margin)
            if len(rows[row].ids) == limit or is_over(rows[row].ids):
                active.remove(row)
                if on_end:
                    on_end(row, rows[row].ids, cache, line, fed["attention_mask"][line].bool())
        stay = list(range(len(lines)))
        if 0 < len(active) <= CROWDED * len(lines):
            stay = [line for line in stay if lines[line] in active]
            cache.batch_select_indices(torch.tensor(stay, device=best.indices.device))
            lines = [lines[line] for line in stay]
        fed = _next(fed, stay, best.indices[:, :1])
    return rows


def growing(model: Any, room: int, states: Sequence[tuple[Tensor, Tensor]] = ()) -> DynamicCache:
    """A cache with room for new tokens, so that a step does not copy the existing keys and values.

    Args:
        model: its config gives the layers.
        room: number of new tokens.
        states: initial keys and values of each layer, if any.
    """
    cache = DynamicCache(config=model.config)
    cache.layers = [_GrowingLayer(room) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    for place, (keys, values) in enumerate(states):
        cache.update(keys, values, place)
    return cache


class _GrowingLayer(DynamicLayer):
    """Keys and values at the beginning of a wider tensor; selecting rows makes them narrow again."""

    def __init__(self, room: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.room = room
        self.wide: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Add new columns and return all."""
        before = self.get_seq_length()
        after = before + key_states.shape[-2]
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.wide is None or self.wide[0].shape[0] != len(key_states) or self.wide[0].shape[-2] < after:
            self.wide = self._widened(key_states, self.keys, after), self._widened(value_states, self.values, after)
        self.wide[0][..., before:after, :] = key_states
        self.wide[1][..., before:after, :] = value_states
        self.keys, self.values = (half[..., :after, :] for half in self.wide)
        return self.keys, self.values

    def _widened(self, new: Tensor, old: Tensor | None, after: int) -> Tensor:
        *outer, _, size = new.shape
        wide = new.new_empty(*outer, after + self.room, size)
        if old is not None and old.numel():
            wide[..., : old.shape[-2], :] = old
        return wide


def _next(fed: dict[str, Any], stay: list[int], tokens: Tensor) -> dict[str, Any]:
    """Inputs of the next step: the new token of each row that stays, at the next position."""
    mask = fed["attention_mask"][stay]
    after = {"input_ids": tokens[stay], "attention_mask": torch.cat([mask, mask.new_ones(len(stay), 1)], dim=1)}
    if "position_ids" in fed:
        after["position_ids"] = fed["position_ids"][stay][:, -1:] + 1
    return after
