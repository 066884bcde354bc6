"""Greedy decoding with continuous batching: rows join a running batch, and leave it when they end.

The keys and values of all rows are stored in larger tensors and end at the same column. A step
writes one column without copying, a joining row gets a new line, and when rows leave, the last rows
move to their lines.
"""

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from emend.agents.local.kv_cache import CachedPrefix, cache_arguments, joined_states
from emend.agents.local.likelihood import Likelihood, Past
from emend.agents.local.prefixes import Ids

Row = TypeVar("Row")


class Picked(NamedTuple):
    """The next token of each row, and whether its lead over the second most likely token is
    clear.
    """

    tokens: list[int]
    clear: list[bool]


class Copied(NamedTuple):
    """A copy of some lines of prefilled prompts to lines of a batch, with the columns on either
    side.
    """

    lines: Sequence[int]
    columns: slice
    to_lines: slice
    to_columns: slice


class ReadPrompts(NamedTuple):
    """The keys and values of prompts that were prefilled together, and the first new token of
    each.
    """

    cache: Any
    past: int
    """Number of columns of cached prefixes, which come first."""
    width: int
    """Number of all columns."""
    sizes: list[tuple[int, int]]
    """Tokens of each row in the columns of prefixes and in the others; in both they end at the last
    column."""
    tokens: Tensor
    """The first new tokens, shape (rows, 1)."""
    picked: Picked

    def copied(self, lines: Sequence[int], line: int, end: int) -> Iterator[Copied]:
        """Yield the copies that move these lines to the lines of a batch from `line` on, with
        columns ending at `end`.
        """
        if not self.past:
            size = max(self.sizes[row][1] for row in lines)
            to_lines, to_columns = slice(line, line + len(lines)), slice(end - size, end)
            yield Copied(lines, slice(self.width - size, self.width), to_lines, to_columns)
            return
        # close the gap between each prefix and its continuation
        for to, row in enumerate(lines, line):
            before, after = self.sizes[row]
            middle = end - after
            yield Copied(
                [row],
                slice(self.past - before, self.past),
                slice(to, to + 1),
                slice(middle - before, middle),
            )
            yield Copied(
                [row], slice(self.width - after, self.width), slice(to, to + 1), slice(middle, end)
            )

    def states(self, row: int) -> list[Tensor]:
        """Return the keys and values of a row without padding by layer, each of shape (heads,
        tokens, size).
        """
        before, after = self.sizes[row]
        spans = slice(self.past - before, self.past), slice(self.width - after, self.width)
        return [
            torch.cat([half[row][:, span] for span in spans], dim=1) for half in halves(self.cache)
        ]


class Decoder:
    """Prefill and greedy steps with one model; the caller holds the model's lock and disables
    gradients.

    Args:
        likelihood: the scorer of the model, which must support continuing from keys and values.
        close: minimum lead in logits of a clear token over the second most likely one.
    """

    def __init__(self, likelihood: Likelihood, close: float) -> None:
        self.likelihood, self.close = likelihood, close
        self.model = likelihood.model
        if "logits_to_keep" in signature(self.model.forward).parameters:
            self._last = {"logits_to_keep": 1}
        else:
            self._last = {}

    def read(self, rows: Sequence[Ids], prefixes: Sequence[CachedPrefix] = ()) -> ReadPrompts:
        """Prefill prompts together, with a cached prefix for each of them or for none."""
        depths, past = [prefix.tokens for prefix in prefixes] or [0] * len(rows), None
        if prefixes:
            states, mask = joined_states(prefixes)
            past = Past(DynamicCache(states), mask)
        further = [row[depth:] for row, depth in zip(rows, depths, strict=True)]
        fed = self.likelihood.padded(further, "left", past)
        cache = past.cache if past else DynamicCache()
        tokens, picked = self.feed(cache, fed)
        sizes = [(depth, len(row)) for depth, row in zip(depths, further, strict=True)]
        return ReadPrompts(
            cache, max(depths), fed["attention_mask"].shape[1], sizes, tokens, picked
        )

    def feed(self, cache: Any, fed: dict[str, Any]) -> tuple[Tensor, Picked]:
        """Feed tokens and pick the next token of each row, also as a tensor of shape (rows, 1) on
        the model's device.
        """
        logits = self.model(**fed, **self._last, **cache_arguments(self.model, cache)).logits
        best = logits[:, -1].float().topk(2)
        clear = best.values[:, 0] - best.values[:, 1] >= self.close
        # the only synchronisation with the device
        both = torch.stack([best.indices[:, 0], clear.long()]).tolist()
        return best.indices[:, :1], Picked(both[0], [bool(each) for each in both[1]])


class RunningBatch(Generic[Row]):
    """Rows that are decoded together; `rows` holds the caller's object for each line.

    Args:
        decoder: the model's decoder.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.rows: list[Row] = []
        self._starts: list[int] = []
        """The first column of each row; all end at `_end`."""
        self._end = self._room = 0
        self._cache: Any = DynamicCache()
        self._tokens = self._begins = self._bias = torch.zeros(0)

    def join(self, prompts: ReadPrompts, rows: dict[int, Row], room: int) -> None:
        """Add prefilled rows, given by their lines among the prompts; each may get at most `room`
        new tokens.
        """
        lines = list(rows)
        if not lines:
            return
        line, sizes = len(self.rows), [sum(prompts.sizes[row]) for row in lines]
        self._room = max(self._room, room) if line else room
        self._reserve(prompts.cache, line + len(lines), max(sizes))
        for copied in prompts.copied(lines, line, self._end):
            for layer, source in zip(self._cache.layers, prompts.cache.layers, strict=True):
                layer.write(source, copied)
        self.rows += rows.values()
        self._starts += [self._end - size for size in sizes]
        self._tokens = (
            torch.cat([self._tokens, prompts.tokens[lines]]) if line else prompts.tokens[lines]
        )
        self._rearrange()

    def step(self) -> Picked:
        """Feed the last token of each row, and return the next ones by line."""
        if self._end == self._cache.layers[0].columns:
            self._resize(len(self.rows), self._end - min(self._starts))
            self._rearrange()
        fed = {
            "input_ids": self._tokens,
            "position_ids": self._end - self._begins,
            "attention_mask": self._mask(),
        }
        self._tokens, picked = self.decoder.feed(self._cache, fed)
        self._end += 1
        return picked

    def remove(self, lines: Sequence[int]) -> None:
        """Remove these rows; the last rows move to their lines."""
        left, gone = len(self.rows) - len(lines), set(lines)
        holes = [line for line in lines if line < left]
        movers = [line for line in range(left, len(self.rows)) if line not in gone]
        order = list(range(left))
        for hole, mover in zip(holes, movers, strict=True):
            order[hole] = mover
        for layer in self._cache.layers if holes else ():
            layer.move(movers, holes)
        self.rows = [self.rows[line] for line in order]
        self._starts = [self._starts[line] for line in order]
        self._tokens = self._tokens[order]
        if left:
            self._rearrange()

    def states(self, line: int) -> list[Tensor]:
        """Return the keys and values of a row by layer, each of shape (heads, tokens, size)."""
        return [
            half[line][:, self._starts[line] - min(self._starts) :] for half in halves(self._cache)
        ]

    def _reserve(self, like: Any, lines: int, width: int) -> None:
        """Allocate room for this many lines of at most this width, and for the next token."""
        if not self.rows:
            self._cache.layers = [
                _Columns(layer, lines, width + self._room) for layer in like.layers
            ]
            self._end = width
        elif lines > self._cache.layers[0].lines or width > self._end:
            self._resize(lines, max(self._end - min(self._starts), width))

    def _resize(self, lines: int, end: int) -> None:
        """Move the rows to tensors with this many lines, so that they end at column `end`."""
        # grow by a factor of 1.5, otherwise every joining row would move all others
        for layer in self._cache.layers:
            layer.resize(lines + lines // 2, end, end + self._room)
        self._starts, self._end = [start + end - self._end for start in self._starts], end

    def _rearrange(self) -> None:
        """Update the state that depends on the positions of the rows."""
        first = min(self._starts)
        for layer in self._cache.layers:
            layer.view(len(self.rows), first, self._end)
        device, dtype = self.decoder.likelihood.device, self.decoder.likelihood.dtype
        self._begins = torch.tensor(self._starts, device=device)[:, None]
        columns = torch.arange(first, self._cache.layers[0].columns, device=device)
        self._bias = torch.zeros(len(self.rows), len(columns), dtype=dtype, device=device)
        self._bias.masked_fill_(columns < self._begins, torch.finfo(dtype).min)

    def _mask(self) -> Tensor | None:
        """Return the mask of the next step, or None if no row is padded."""
        width = self._end + 1 - min(self._starts)
        if len(set(self._starts)) == 1 and width <= self.decoder.likelihood.slide:
            return None
        bias = self._bias[:, :width]
        # the model creates its own mask for each type of layer
        if width > self.decoder.likelihood.slide:
            return (bias == 0).long()
        return bias[:, None, None].contiguous()


class _Columns(DynamicLayer):
    """Keys and values of a batch's rows, stored in some lines and columns of larger tensors.

    Args:
        like: a layer of the same model.
        lines: number of lines of the tensors.
        columns: number of columns of the tensors.
    """

    def __init__(self, like: Any, lines: int, columns: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lazy_initialization(like.keys, like.values)
        self.wide = [_wider(half, lines, columns) for half in (like.keys, like.values)]
        self.lines, self.columns = lines, columns
        self.place = slice(0, 0), slice(0, 0)
        """The lines and columns in use."""

    def view(self, lines: int, first: int, end: int) -> None:
        """Set the lines and columns in use."""
        self.place = slice(0, lines), slice(first, end)
        self.keys, self.values = (half[:lines, :, first:end] for half in self.wide)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add new columns and return all columns."""
        lines, columns = self.place
        after = columns.stop + key_states.shape[-2]
        for half, states in zip(self.wide, (key_states, value_states), strict=True):
            half[lines, :, columns.stop : after] = states
        self.view(lines.stop, columns.start, after)
        assert self.keys is not None and self.values is not None
        return self.keys, self.values

    def write(self, source: Any, copied: Copied) -> None:
        """Copy lines and columns of another layer."""
        for half, other in zip(self.wide, (source.keys, source.values), strict=True):
            half[copied.to_lines, :, copied.to_columns] = other[copied.lines][:, :, copied.columns]

    def move(self, lines: Sequence[int], to: Sequence[int]) -> None:
        """Copy lines to other lines."""
        for half in self.wide:
            half[to, :, self.place[1]] = half[lines][:, :, self.place[1]]

    def resize(self, lines: int, end: int, columns: int) -> None:
        """Move the lines and columns in use to new tensors, so that they end at column `end`."""
        used = self.place[1]
        for place, half in enumerate(self.wide):
            self.wide[place] = _wider(half, lines, columns)
            part = half[self.place[0], :, used]
            self.wide[place][self.place[0], :, end - part.shape[2] : end] = part
        self.lines, self.columns = lines, columns


def _wider(half: Tensor, lines: int, columns: int) -> Tensor:
    """Return a tensor of zeros with the values in it; masked entries must be finite."""
    _, heads, _, size = half.shape
    return half.new_zeros(lines, heads, columns, size)


def halves(cache: Any) -> list[Tensor]:
    """Return the keys and values of all layers, alternating."""
    return [half for layer in cache.layers for half in (layer.keys, layer.values)]
