"""Keys and values of what a model has read, kept so that a prompt which goes on from an earlier one is read from there.

A graph that writes a transcript asks with all of it again and again: what was read once is not read anew.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from torch import Tensor

BLOCK = 16
"""A beginning is looked up at every so manieth token."""


class Beginning(NamedTuple):
    """So many first tokens of a row, read before: keys and values, shape (2 x layers, heads, tokens, size)."""

    tokens: int
    states: Tensor


class Kept:
    """Rows that were read, the latest ones as long as they fit; whoever calls holds the model's lock.

    Args:
        limit: bytes of keys and values at most; 0 keeps nothing.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._under: Hashable = None
        self._rows: OrderedDict[tuple[int, ...], Tensor] = OrderedDict()
        self._starts: dict[tuple[int, ...], tuple[int, ...]] = {}
        """The latest row that begins with these tokens, whole blocks of them."""
        self._bytes = 0

    def under(self, weights: Hashable) -> None:
        """Forgets what other weights have read."""
        if weights != self._under:
            self._under, self._bytes = weights, 0
            self._rows.clear()
            self._starts.clear()

    def beginning(self, ids: Sequence[int]) -> Beginning | None:
        """The longest beginning that was read, but not the last token: something must be left to read."""
        whole = tuple(ids[:-1])
        for end in range(len(whole) - len(whole) % BLOCK, 0, -BLOCK):
            row = self._starts.get(whole[:end])
            if row is not None and row in self._rows:
                self._rows.move_to_end(row)
                more = takewhile(lambda two: two[0] == two[1], zip(row[end:], whole[end:], strict=False))
                return Beginning(end + sum(1 for _ in more), self._rows[row])
        return None

    def keep(self, ids: Sequence[int], states: Tensor | None) -> None:
        """Keeps a row of one block or more; the rows that were used longest ago give way."""
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


def states_of(cache: Any, line: int, columns: Tensor) -> Tensor | None:
    """One row's keys and values without its padding; None where layers, or keys and values, are of different shapes.

    Args:
        cache: of all rows.
        line: the row's place there.
        columns: which are its own, shape (width,).
    """
    halves = [half[line][:, columns] for layer in cache.layers for half in (layer.keys, layer.values)]
    return torch.stack(halves) if len({half.shape for half in halves}) == 1 else None


def joined_states(found: Sequence[Beginning]) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
    """Keys and values of all the beginnings by layer, padded on the left, and their mask, shape (rows, longest)."""
    width = max(one.tokens for one in found)
    shape = found[0].states.shape
    states = found[0].states.new_zeros((shape[0], len(found), shape[1], width, shape[3]))
    mask = torch.zeros(len(found), width, dtype=torch.long, device=states.device)
    for line, one in enumerate(found):
        states[:, line, :, width - one.tokens :] = one.states[:, :, : one.tokens]
        mask[line, width - one.tokens :] = 1
    return [(states[at], states[at + 1]) for at in range(0, shape[0], 2)], mask
