"""Greedy decoding of a batch of rows that others join, and that each leaves as soon as it has ended.

The keys and values of all rows end at one column; a mask says which columns before it are a row's own.
"""

from collections.abc import Sequence
from inspect import signature
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache

from emend.agents.local.kv_cache import CachedPrefix, cache_arguments, joined_states
from emend.agents.local.likelihood import Likelihood, Past
from emend.agents.local.prefixes import Ids

Row = TypeVar("Row")


class Picked(NamedTuple):
    """The next token of each row, and True where it leads the second most likely one clearly."""

    tokens: list[int]
    clear: list[bool]


class Decoder:
    """Reads prompts and picks tokens with one model; the caller holds the model's lock and disables gradients.

    Args:
        likelihood: knows the model, which it must be able to continue from keys and values.
        close: least lead of a clear token over the second most likely one (logits).
    """

    def __init__(self, likelihood: Likelihood, close: float) -> None:
        self.likelihood, self.close = likelihood, close
        self.model = likelihood.model
        self._last = {"logits_to_keep": 1} if "logits_to_keep" in signature(self.model.forward).parameters else {}

    def read(
        self, rows: Sequence[Row], prompts: Sequence[Ids], prefixes: Sequence[CachedPrefix] = ()
    ) -> tuple["RunningBatch[Row]", Picked]:
        """Read prompts together, as a batch; there is a cached prefix for each, or none for all."""
        past = None
        if prefixes:
            states, mask = joined_states(prefixes)
            past = Past(DynamicCache(states), mask)
            prompts = [ids[prefix.tokens :] for ids, prefix in zip(prompts, prefixes, strict=True)]
        fed = self.likelihood.padded(prompts, "left", past)
        batch = RunningBatch[Row](self)
        batch.rows, batch.mask = list(rows), fed["attention_mask"]
        batch.cache = past.cache if past else DynamicCache()
        batch.tokens, picked = self.feed(batch.cache, fed)
        return batch, picked

    def feed(self, cache: Any, fed: dict[str, Any]) -> tuple[Tensor, Picked]:
        """Feed tokens and pick the next of each row, also as a tensor of shape (rows, 1) on the model's device."""
        logits = self.model(**fed, **self._last, **cache_arguments(self.model, cache)).logits
        best = logits[:, -1].float().topk(2)
        clear = best.values[:, 0] - best.values[:, 1] >= self.close
        both = torch.stack([best.indices[:, 0], clear.long()]).tolist()  # the only wait for the device
        return best.indices[:, :1], Picked(both[0], [bool(each) for each in both[1]])


class RunningBatch(Generic[Row]):
    """Rows that are continued together, as `rows` by line, each with whatever the caller keeps of it.

    Args:
        decoder: of the model.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.rows: list[Row] = []
        self.cache: Any = DynamicCache()
        self.mask = self.tokens = torch.zeros(0)
        """The columns that are a row's own, shape (rows, columns), and the last token of each row, shape (rows, 1)."""

    def join(self, other: "RunningBatch[Row]") -> None:
        """Add the rows of another batch."""
        if not self.rows:
            self.rows, self.cache, self.mask, self.tokens = other.rows, other.cache, other.mask, other.tokens
        elif other.rows:
            self.rows += other.rows
            self.tokens = torch.cat([self.tokens, other.tokens])
            missing = other.mask.shape[1] - self.mask.shape[1]
            for layer, another in zip(self.cache.layers, other.cache.layers, strict=True):
                layer.keys = _stacked(layer.keys, another.keys, missing, (0, 0))
                layer.values = _stacked(layer.values, another.values, missing, (0, 0))
            self.mask = _stacked(self.mask, other.mask, missing)

    def step(self) -> Picked:
        """Feed the last token of each row; the next ones, by line."""
        self.mask = pad(self.mask, (0, 1), value=1)
        positions = self.mask.sum(1, keepdim=True) - 1
        fed = {"input_ids": self.tokens, "position_ids": positions, "attention_mask": self.mask}
        self.tokens, picked = self.decoder.feed(self.cache, fed)
        return picked

    def keep(self, lines: Sequence[int]) -> None:
        """Drop all other rows, and the columns that none of these has."""
        if len(lines) == len(self.rows):
            return
        self.rows, places = [self.rows[line] for line in lines], list(lines)
        self.mask, self.tokens = self.mask[places], self.tokens[places]
        first = int(self.mask.any(0).int().argmax()) if places else 0
        self.mask = self.mask[:, first:]
        for layer in self.cache.layers:
            layer.keys, layer.values = layer.keys[places, :, first:], layer.values[places, :, first:]

    def states(self, line: int) -> list[Tensor]:
        """Keys and values of a row, each of shape (heads, tokens, size), by layer."""
        columns = self.mask[line].nonzero()[:, 0].tolist()
        return [half[line][:, columns] for half in halves(self.cache)]


def _stacked(first: Tensor, second: Tensor, missing: int, inner: tuple[int, ...] = ()) -> Tensor:
    """Rows of both, where the first has so many columns less; `inner` pads the dimensions behind the columns."""
    return torch.cat([pad(first, (*inner, max(0, missing), 0)), pad(second, (*inner, max(0, -missing), 0))])


def halves(cache: Any) -> list[Tensor]:
    """Keys and values of all layers, in turn."""
    return [half for layer in cache.layers for half in (layer.keys, layer.values)]
