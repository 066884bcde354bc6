"""Greedy generation with a causal language model: in padded batches, each row continued from its cached prefix.

A reply does not depend on the other rows of its batch nor on the cache: where the two most likely tokens are so close
that the order of summation could decide between them, the reply is generated again, alone and from the first token.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from emend.agents.local.batching import pack
from emend.agents.local.decoding import Continuation, decode, growing
from emend.agents.local.kv_cache import CachedPrefix, KVCache, joined_states, states_of
from emend.agents.local.likelihood import Likelihood, Past
from emend.agents.local.prefixes import Encoded

REPLY_BATCHES = {"cpu": 8}
"""Factor on `batch_tokens` for generation: one more row adds little to the cost of a decoding step."""
CLOSE = {torch.float32: 2e-3, torch.float64: 1e-6}
"""Logits closer than this could change their order in a padded batch, by the order of summation."""


class Generated(NamedTuple):
    """A continuation up to the first stop text, without it, and without white space in front."""

    text: str
    input_tokens: int
    output_tokens: int
    cut_tokens: int
    """Number of prompt tokens that did not fit the window."""
    finished: bool
    """False when the limit of new tokens ended it."""
    ids: tuple[int, ...]
    """The new tokens, including the one that ended it."""


class GenerationPlan(NamedTuple):
    """Maximum number of new tokens, stop texts, and whether keys and values are cached."""

    limit: int
    stop: tuple[str, ...]
    caches: bool


class Generator:
    """Continues rows of tokens; the caller holds the model's lock and disables gradients.

    Args:
        likelihood: knows the model and its capabilities.
        tokenizer: the model's.
        ends: tokens that end a reply.
        cache_bytes: size limit of the cached keys and values of the latest replies; 0 caches none.
    """

    def __init__(self, likelihood: Likelihood, tokenizer: Any, ends: Sequence[int], cache_bytes: int) -> None:
        self.likelihood, self.tokenizer, self.ends = likelihood, tokenizer, list(ends)
        self.model = likelihood.model
        self.cache = KVCache(cache_bytes)

    def generate(
        self, rows: Sequence[Encoded], limit: int, stop: tuple[str, ...], weights: int | None
    ) -> list[Generated]:
        """Each row's reply.

        Args:
            rows: prompts, cut so that the new tokens have room.
            limit: maximum number of new tokens of a reply.
            stop: texts that end a reply after its first word.
            weights: a number that is equal to that of an earlier call only if the weights are; None if unknown.
        """
        sizes = [len(row.ids) + limit for row in rows]
        plan = GenerationPlan(limit, stop, weights is not None and self._can_cache(max(sizes, default=0)))
        prefixes: list[CachedPrefix | None] = [None] * len(rows)
        if plan.caches:
            self.cache.use_weights((weights, *map(_state, self.model.parameters())))
            prefixes = [self._prefix(row) for row in rows]
        answers: dict[int, Generated] = {}
        for batch in self._batches(sizes, prefixes):
            cached = [prefix for place in batch if (prefix := prefixes[place])]
            replies = self._together([rows[place] for place in batch], cached, plan)
            for place, (reply, sure) in zip(batch, replies, strict=True):
                alone = GenerationPlan(limit, stop, False)
                answers[place] = reply if sure else self._together([rows[place]], [], alone)[0][0]
        return [answers[place] for place in range(len(rows))]

    def _can_cache(self, width: int) -> bool:
        """True if rows of that width may continue cached ones; a sliding window would have dropped their states."""
        likelihood = self.likelihood
        return bool(self.cache.limit) and likelihood.slide > 2 * width and likelihood.continues(2 * width)

    def _prefix(self, row: Encoded) -> CachedPrefix | None:
        """The cached prefix of a row if it is the greater part: a batch is as wide as its longest remainder."""
        prefix = self.cache.longest_prefix(row.ids)
        return prefix if prefix and 2 * prefix.tokens >= len(row.ids) else None

    def _batches(self, sizes: Sequence[int], prefixes: Sequence[CachedPrefix | None]) -> Iterator[list[int]]:
        """Rows by number, those with a cached prefix apart from the others."""
        budget = self.likelihood.batch_tokens * REPLY_BATCHES.get(self.model.device.type, 1)
        for cached in (True, False):
            places = [place for place, prefix in enumerate(prefixes) if (prefix is not None) == cached]
            for batch in pack([sizes[place] for place in places], budget):
                yield [places[at] for at in batch]

    def _together(
        self, rows: Sequence[Encoded], prefixes: Sequence[CachedPrefix], plan: GenerationPlan
    ) -> list[tuple[Generated, bool]]:
        """Each row's reply, and whether it is surely the one that the row gets alone.

        There is a prefix for every row, or none for all.
        """
        halt = _StopAtText(self.tokenizer, plan.stop)
        longest = max(len(row.ids) for row in rows) + plan.limit
        if self.likelihood.continues(longest):
            rows_out = self._decode(rows, prefixes, plan, halt)
        else:
            rows_out = self._generate(rows, plan.limit, halt)
        close = CLOSE.get(self.model.dtype, 0.0) if len(rows) > 1 or prefixes else 0.0
        replies = []
        for row, (ids, margins) in zip(rows, rows_out, strict=True):
            reply = self._reply(row, ids, halt)
            replies.append((reply, min(margins[: reply.output_tokens], default=close) >= close))
        return replies

    def _decode(
        self, rows: Sequence[Encoded], prefixes: Sequence[CachedPrefix], plan: GenerationPlan, halt: "_StopAtText"
    ) -> list[Continuation]:
        """Continuations by `decode`; a row's keys and values are cached when it ends."""
        depths, past = [prefix.tokens for prefix in prefixes] or [0] * len(rows), None
        further = [row.ids[at:] for row, at in zip(rows, depths, strict=True)]
        if prefixes:
            states, mask = joined_states(prefixes)
            past = Past(growing(self.model, max(map(len, further)) + plan.limit, states), mask)
        fed = self.likelihood.padded(further, "left", past)

        def on_end(row: int, new: Sequence[int], cache: Any, line: int, columns: Tensor) -> None:
            self.cache.put((*rows[row].ids, *new[:-1]), states_of(cache, line, columns))

        def is_over(ids: Sequence[int]) -> bool:
            return ids[-1] in self.ends or halt.read(ids)[1]

        return decode(self.model, fed, plan.limit, is_over, past and past.cache, on_end if plan.caches else None)

    def _generate(self, rows: Sequence[Encoded], limit: int, halt: "_StopAtText") -> list[Continuation]:
        """Continuations by `generate` of transformers, which any model supports."""
        fed = self.likelihood.padded([row.ids for row in rows], "left")
        fed.pop("position_ids", None)  # generate counts them itself, from the mask
        halt.width, margins = fed["input_ids"].shape[1], _Margins()
        plan = GenerationConfig(
            max_new_tokens=limit, do_sample=False, eos_token_id=self.ends or None, pad_token_id=self.likelihood.pad
        )
        out = self.model.generate(
            **fed,
            generation_config=plan,
            stopping_criteria=StoppingCriteriaList([halt]),
            logits_processor=LogitsProcessorList([margins] if len(rows) > 1 else []),
        )
        return [
            Continuation(*pair) for pair in zip(out[:, halt.width :].tolist(), margins.by_row(len(rows)), strict=True)
        ]

    def _reply(self, row: Encoded, new: list[int], halt: "_StopAtText") -> Generated:
        """The reply up to the end token or to the token that completed a stop text; padding follows."""
        ended = next((place + 1 for place, token in enumerate(new) if token in self.ends), None)
        for count in range(1, (ended or len(new)) + 1):
            text, stopped = halt.read(new[:count])
            if stopped:
                return Generated(text, len(row.ids), count, row.cut, True, tuple(new[:count]))
        count = ended or len(new)
        ids = tuple(new[:count])
        return Generated(halt.read(ids)[0], len(row.ids), count, row.cut, ended is not None, ids)


def _state(weight: Tensor) -> tuple[int, int]:
    """A value that changes when the tensor is written to or replaced; inference tensors count no versions."""
    return id(weight), 0 if weight.is_inference() else weight._version


class _StopAtText(StoppingCriteria):
    """Ends each row once its continuation contains a stop text after the first word."""

    def __init__(self, tokenizer: Any, stop: tuple[str, ...]) -> None:
        self.tokenizer, self.stop = tokenizer, stop
        self.width = 0
        """Width of the prompts in the ids that `generate` passes."""

    def read(self, ids: Sequence[int]) -> tuple[str, bool]:
        """The text up to the first stop text, and True if there is one."""
        text = self.tokenizer.decode(ids, skip_special_tokens=True).lstrip()
        ends = [place for word in self.stop if (place := text.find(word)) >= 0]
        return (text[: min(ends)], True) if ends else (text, False)

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        ended = [self.read(ids)[1] for ids in input_ids[:, self.width :].tolist()]
        return torch.tensor(ended, device=input_ids.device)


class _Margins(LogitsProcessor):
    """Records the margin of the most likely token over the second, per step and row; changes no score."""

    def __init__(self) -> None:
        self.steps: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        best = scores.topk(2).values
        self.steps.append(best[:, 0] - best[:, 1])
        return scores

    def by_row(self, rows: int) -> list[list[float]]:
        """The margins of each row, step by step; empty if none were recorded."""
        margins: list[list[float]] = torch.stack(self.steps, 1).tolist() if self.steps else [[]] * rows
        return margins
