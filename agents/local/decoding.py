"""Greedy continuations of many rows at once, each of which leaves the batch as soon as it has ended.

`generate` of transformers feeds ended rows on until the last one ends: of lines that a model writes, that is every
second step of a row.
"""

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

CROWDED = 0.75
"""Rows that have ended stay in the batch as long as more of it than this goes on: taking them out copies the others."""


class Row(NamedTuple):
    """The new tokens of a row, and by how much each led over the next likely one (logits)."""

    ids: list[int]
    leads: list[float]


Leaving = Callable[[int, Sequence[int], Any, int, Tensor], None]
"""Told of a row that leaves: number, new tokens, the cache, its line there, and its own columns, shape (width,)."""


def decode(
    model: Any,
    fed: dict[str, Any],
    limit: int,
    over: Callable[[Sequence[int]], bool],
    cache: Any = None,
    leaving: Leaving | None = None,
) -> list[Row]:
    """Continues rows until they are over, or for so many tokens; for models that continue from keys and values.

    Args:
        model: a Hugging Face causal language model; no gradients are kept by who calls.
        fed: input ids, shape (rows, width), and mask, shape (rows, past + width), both padded on the left; positions
            where the model takes them.
        limit: new tokens of a row at most.
        over: whether a row has ended, by its new tokens.
        cache: keys and values of the past columns, if there are some.
        leaving: called before a row's keys and values are dropped; those of its last new token are not among them.
    """
    rows = [Row([], []) for _ in fed["input_ids"]]
    lines, left = list(range(len(rows))), set(range(len(rows)))
    cache = growing(model, limit) if cache is None else cache
    last = {"logits_to_keep": 1} if "logits_to_keep" in signature(model.forward).parameters else {}
    while left:
        told = model(**fed, **last, past_key_values=cache, use_cache=True)
        best = told.logits[:, -1].float().topk(2)
        leads = (best.values[:, 0] - best.values[:, 1]).tolist()
        for line, (row, token, lead) in enumerate(zip(lines, best.indices[:, 0].tolist(), leads, strict=True)):
            if row not in left:
                continue
            rows[row].ids.append(token)
            rows[row].leads.append(lead)
            if len(rows[row].ids) == limit or over(rows[row].ids):
                left.remove(row)
                if leaving:
                    leaving(row, rows[row].ids, cache, line, fed["attention_mask"][line].bool())
        stay = list(range(len(lines)))
        if 0 < len(left) <= CROWDED * len(lines):
            stay = [line for line in stay if lines[line] in left]
            cache.batch_select_indices(torch.tensor(stay, device=best.indices.device))
            lines = [lines[line] for line in stay]
        fed = _next(fed, stay, best.indices[:, :1])
    return rows


def growing(model: Any, room: int, states: Sequence[tuple[Tensor, Tensor]] = ()) -> DynamicCache:
    """A cache that leaves room for so many new tokens, so that a step does not copy what is there.

    Args:
        model: whose config says what layers it has.
        room: new tokens.
        states: keys and values of each layer, if there are some.
    """
    cache = DynamicCache(config=model.config)
    cache.layers = [_Growing(room) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    for place, (keys, values) in enumerate(states):
        cache.update(keys, values, place)
    return cache


class _Growing(DynamicLayer):
    """Keys and values at the beginning of a wider tensor; whoever selects rows of them makes them narrow again."""

    def __init__(self, room: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.room = room
        self.wide: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *more: Any, **other: Any) -> tuple[Tensor, Tensor]:
        """Adds new columns and returns all."""
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
    """What is fed of the rows that stay: their new token, one place on."""
    mask = fed["attention_mask"][stay]
    after = {"input_ids": tokens[stay], "attention_mask": torch.cat([mask, mask.new_ones(len(stay), 1)], dim=1)}
    if "position_ids" in fed:
        after["position_ids"] = fed["position_ids"][stay][:, -1:] + 1
    return after
