"""A prefix cache of keys and values, so that only the new part of a prompt is processed.

This helps graphs that send a growing transcript with every call.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from inspect import signature
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Prefixes are looked up at every multiple of this many tokens.
BLOCK = 16


# Names of the models' argument for keys and values: since transformers 5.24, and before.
CACHE_ARGUMENTS = ("cache", "past_key_values")


def takes_cache(model: Any) -> bool:
    """Return whether a model's body accepts keys and values."""
    return bool({*CACHE_ARGUMENTS} & {*signature(model.base_model.forward).parameters})


def cache_arguments(model: Any, cache: Any) -> dict[str, Any]:
    """Return the arguments with which a model, or its body, reads from a cache and adds to it."""
    new, old = CACHE_ARGUMENTS
    name = new if new in signature(model.base_model.forward).parameters else old
    return {name: cache, "use_cache": True}


def cached_tokens(arguments: Mapping[str, Any]) -> int:
    """Return the number of cached tokens in the arguments of a pass."""
    caches = (arguments.get(name) for name in CACHE_ARGUMENTS)
    return next((int(cache.get_seq_length()) for cache in caches if cache is not None), 0)


class CachedPrefix(NamedTuple):
    """The number of tokens of a cached prefix, and its keys and values, shape (2 x layers, heads,
    tokens, size).
    """

    tokens: int
    states: Tensor


class KVCache:
    """An LRU cache of rows with a size limit; the caller holds the model's lock.

    Args:
        limit: maximum bytes of keys and values; 0 caches nothing.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._weights: Hashable = None
        self._rows: OrderedDict[tuple[int, ...], Tensor] = OrderedDict()
        self._starts: dict[tuple[int, ...], tuple[int, ...]] = {}
        """The latest row that begins with these tokens, in whole blocks."""
        self._bytes = 0

    def use_weights(self, weights: Hashable) -> None:
        """Drop the rows of other weights."""
        if weights != self._weights:
            self._weights, self._bytes = weights, 0
            self._rows.clear()
            self._starts.clear()

    def longest_prefix(self, ids: Sequence[int]) -> CachedPrefix | None:
        """Return the longest cached prefix that excludes the last token, since the model needs at
        least one token as input.
        """
        row = tuple(ids[:-1])
        for end in range(len(row) - len(row) % BLOCK, 0, -BLOCK):
            cached = self._starts.get(row[:end])
            if cached is not None and cached in self._rows:
                self._rows.move_to_end(cached)
                equal = takewhile(
                    lambda pair: pair[0] == pair[1], zip(cached[end:], row[end:], strict=False)
                )
                return CachedPrefix(end + sum(1 for _ in equal), self._rows[cached])
        return None

    def put(self, ids: Sequence[int], states: Tensor | None) -> None:
        """Cache a row of at least one block; the least recently used rows are dropped."""
        row = tuple(ids)
        size = 0 if states is None else states.numel() * states.element_size()
        if states is None or len(row) < BLOCK or size > self.limit or row in self._rows:
            return
        self._rows[row] = states
        self._bytes += size
        self._starts |= {row[:end]: row for end in range(BLOCK, len(row) + 1, BLOCK)}
        while self._bytes > self.limit:
            old, dropped = self._rows.popitem(last=False)
            self._bytes -= dropped.numel() * dropped.element_size()
            for end in range(BLOCK, len(old) + 1, BLOCK):
                if self._starts.get(old[:end]) == old:
                    del self._starts[old[:end]]


def stacked(halves: Sequence[Tensor]) -> Tensor | None:
    """Return a row's keys and values as one tensor, or None if their shapes or devices differ."""
    same = {(half.shape, half.device) for half in halves}
    return torch.stack(list(halves)) if len(same) == 1 else None


def joined_states(prefixes: Sequence[CachedPrefix]) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
    """Return the keys and values of all prefixes by layer, padded on the left, and their mask,
    shape (rows, longest).
    """
    width = max(prefix.tokens for prefix in prefixes)
    shape = prefixes[0].states.shape
    states = prefixes[0].states.new_zeros((shape[0], len(prefixes), shape[1], width, shape[3]))
    mask = torch.zeros(len(prefixes), width, dtype=torch.long, device=states.device)
    for line, prefix in enumerate(prefixes):
        states[:, line, :, width - prefix.tokens :] = prefix.states[:, :, : prefix.tokens]
        mask[line, width - prefix.tokens :] = 1
    return [(states[at], states[at + 1]) for at in range(0, shape[0], 2)], mask
