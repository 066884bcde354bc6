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


class Row(NamedTuple):
    """The new tokens of a row, and by how much each led over the next likely one (logits)."""

    ids: list[int]
    leads: list[float]


def decode(model: Any, fed: dict[str, Any], limit: int, over: Callable[[Sequence[int]], bool]) -> list[Row]:
    """Continues rows until they are over, or for so many tokens; for models that continue from keys and values.

    Args:
        model: a Hugging Face causal language model; no gradients are kept by who calls.
        fed: input ids and mask, shape (rows, width), padded on the left; positions where the model takes them.
        limit: new tokens of a row at most.
        over: whether a row has ended, by its new tokens.
    """
    rows = [Row([], []) for _ in fed["input_ids"]]
    left = list(range(len(rows)))
    cache = DynamicCache(config=model.config)
    last = {"logits_to_keep": 1} if "logits_to_keep" in signature(model.forward).parameters else {}
    while left:
        told = model(**fed, **last, past_key_values=cache, use_cache=True)
        best = told.logits[:, -1].float().topk(2)
        leads = (best.values[:, 0] - best.values[:, 1]).tolist()
        for row, token, lead in zip(left, best.indices[:, 0].tolist(), leads, strict=True):
            rows[row].ids.append(token)
            rows[row].leads.append(lead)
        stay = [line for line, row in enumerate(left) if len(rows[row].ids) < limit and not over(rows[row].ids)]
        if 0 < len(stay) < len(left):
            cache.batch_select_indices(torch.tensor(stay, device=best.indices.device))
        left = [left[line] for line in stay]
        fed = _next(fed, stay, best.indices[:, :1])
    return rows


def _next(fed: dict[str, Any], stay: list[int], tokens: Tensor) -> dict[str, Any]:
    """What is fed of the rows that stay: their new token, one place on."""
    mask = fed["attention_mask"][stay]
    after = {"input_ids": tokens[stay], "attention_mask": torch.cat([mask, mask.new_ones(len(stay), 1)], dim=1)}
    if "position_ids" in fed:
        after["position_ids"] = fed["position_ids"][stay][:, -1:] + 1
    return after
