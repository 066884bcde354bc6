"""Greedy generation with continuous batching and a prefix cache.

A reply depends neither on the other rows of its batch nor on the cache: if the two most likely
tokens are so close that the order of summation could change which is first, the reply is generated
again, alone and from the first token.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from emend.agents.local.batching import pack
from emend.agents.local.decoding import Decoder, Picked, RunningBatch, halves
from emend.agents.local.kv_cache import CachedPrefix, KVCache, cache_arguments, stacked
from emend.agents.local.likelihood import Likelihood
from emend.agents.local.replies import Generated, GenerationRequest, GrowingReply
from emend.agents.local.stop_texts import TokenTexts
from emend.agents.local.whole_rows import ReplySettings, generate_whole

# Logits closer than this could change their order in a padded batch, because of the order of
# summation.
CLOSE = {torch.float32: 2e-3, torch.float64: 1e-6}
# Factor on `batch_tokens` for replies: one more row adds little to the cost of a decoding step.
REPLY_BATCHES = {"cpu": 8}
# Share of a GPU's free memory for keys and values; when tensors grow, old and new ones exist
# together.
MEMORY_PART = 0.4
# The key of a request, and its reply.
Reply = tuple[int, Generated]


class Generator:
    """Generates continuations; the caller holds the model's lock and disables gradients.

    Args:
        likelihood: the scorer of the model, which knows its capabilities.
        tokenizer: the model's tokenizer.
        ends: tokens that end a reply.
        cache_bytes: size limit of the cached keys and values of the latest replies; 0 caches none.
    """

    def __init__(
        self, likelihood: Likelihood, tokenizer: Any, ends: Sequence[int], cache_bytes: int
    ) -> None:
        self.likelihood = likelihood
        self.part = 1.0
        """The part of the usual number of positions that is used, after memory ran out."""
        self.settings = ReplySettings(
            TokenTexts(tokenizer), frozenset(ends), CLOSE.get(likelihood.dtype, 0.0)
        )
        self.cache = KVCache(cache_bytes)

    def positions(self) -> int:
        """Return the maximum number of positions with keys and values, given the free memory."""
        least, bytes_free = self.likelihood.batch_tokens, free_bytes(self.likelihood.model)
        if bytes_free is None or not self.likelihood.continues(0):
            return max(
                1, int(self.part * REPLY_BATCHES.get(self.likelihood.device.type, 1) * least)
            )
        return max(1, int(self.part * max(least, MEMORY_PART * bytes_free / self._position_bytes)))

    @cached_property
    def _position_bytes(self) -> int:
        """Bytes of the keys and values of one position in all layers."""
        fed, cache = self.likelihood.padded([self.likelihood.sample], "right"), DynamicCache()
        self.likelihood.model(**fed, **cache_arguments(self.likelihood.model, cache))
        return sum(half.nbytes for half in halves(cache)) // len(self.likelihood.sample)

    def start(self, weights: int | None) -> "RunningReplies":
        """Return an empty batch of replies, for one period of holding the lock.

        Args:
            weights: a version number of the weights, equal to an earlier one only if the weights
                are unchanged; None if unknown.
        """
        if weights is not None:
            loaded = (weight for weight in self.likelihood.model.parameters() if not weight.is_meta)
            self.cache.use_weights((weights, *map(_state, loaded)))
        return RunningReplies(self, weights is not None)


class _Row:
    """A reply in progress; `key` is the caller's id."""

    def __init__(self, key: int, growing: GrowingReply, prefix: CachedPrefix | None) -> None:
        self.key, self.growing, self.prefix = key, growing, prefix
        self.request = growing.request
        self.company = prefix is not None
        """True once its numbers may differ in the last digits from those that it would get
        alone."""


class RunningReplies:
    """Replies in progress: requests join in order between two steps, and replies leave when they
    end.

    Args:
        generator: generator of the model.
        caches: whether to cache keys and values of finished rows, and to continue cached ones.
        anew: whether to ignore cached prefixes.
    """

    def __init__(self, generator: Generator, caches: bool, anew: bool = False) -> None:
        self.generator, self.caches, self.anew = generator, caches, anew
        likelihood, self._positions = generator.likelihood, generator.positions()
        self._widest = likelihood.steady if likelihood.continues(0) else 0
        """Maximum tokens of a row that can join the batch."""
        self._decoder = Decoder(likelihood, generator.settings.close)
        self._batch: RunningBatch[_Row] = RunningBatch(self._decoder)
        self._waiting: deque[tuple[int, GenerationRequest]] = deque()

    @property
    def count(self) -> int:
        """Number of requests without a reply."""
        return len(self._waiting) + len(self._batch.rows)

    def add(self, key: int, request: GenerationRequest) -> None:
        """Add a request; `step` returns its reply with this key."""
        self._waiting.append((key, request))

    def step(self) -> list[Reply]:
        """Let the requests that fit join, add a token to each reply, and return the replies that
        ended.
        """
        try:
            ended = self._join()
            if self._batch.rows:
                left = self._advance(self._batch.rows, self._batch.step(), self._batch.states)
                self._batch.remove(list(left))
                ended += left.values()
        except torch.OutOfMemoryError:
            self.generator.part /= 2  # the caller calls `step` again
            raise
        return ended

    def finish(self) -> Iterator[Reply]:
        """Yield all replies as they end."""
        while self.count:
            yield from self.step()

    def _join(self) -> list[Reply]:
        """Prefill the prompts of requests that fit, and return the replies that already ended."""
        joining: list[_Row] = []
        whole: list[tuple[int, GenerationRequest]] = []
        while self._waiting and self._fits(self._waiting[0][1], joining):
            key, request = self._waiting.popleft()
            if request.width <= self._widest:
                joining.append(self._row(key, request))
            else:
                whole.append((key, request))
        ended = [reply for rows in self._parts(joining) for reply in self._read(rows)]
        if len(self._batch.rows) > 1:
            for row in self._batch.rows:
                row.company = True
        generator, requests = self.generator, [request for _, request in whole]
        replies = generate_whole(
            generator.likelihood, requests, generator.settings, self._positions
        )
        return ended + [(key, reply) for (key, _), reply in zip(whole, replies, strict=True)]

    def _fits(self, request: GenerationRequest, joining: Sequence[_Row]) -> bool:
        rows = [*self._batch.rows, *joining]
        width = max(request.width, *(row.request.width for row in rows)) if rows else 0
        return (len(rows) + 1) * width <= self._positions or not rows

    def _row(self, key: int, request: GenerationRequest) -> _Row:
        ids, settings = request.prompt.ids, self.generator.settings
        reuses = not self.anew and self._can_cache(request)
        prefix = self.generator.cache.longest_prefix(ids) if reuses else None
        # a pass is as wide as the longest uncached part
        if prefix and 2 * prefix.tokens < len(ids):
            prefix = None
        return _Row(key, GrowingReply(request, settings.texts, settings.ends), prefix)

    def _can_cache(self, request: GenerationRequest) -> bool:
        """Return whether the row may continue a cached one; a sliding window would have dropped its
        states.
        """
        both = 2 * request.width
        steady = both < self.generator.likelihood.slide and both <= self._widest
        return self.caches and steady and bool(self.generator.cache.limit)

    def _parts(self, rows: Sequence[_Row]) -> Iterator[list[_Row]]:
        """Yield rows of similar length to prefill together; rows with and without a cached prefix
        are separate.
        """
        for cached in (True, False):
            some = [row for row in rows if (row.prefix is not None) == cached]
            sizes = [len(row.request.prompt.ids) for row in some]
            for batch in pack(sizes, self.generator.likelihood.batch_tokens):
                yield [some[place] for place in batch]

    def _read(self, rows: Sequence[_Row]) -> list[Reply]:
        """Prefill prompts and let their rows join the batch; return the replies that end with their
        first token.
        """
        prompts = self._decoder.read(
            [row.request.prompt.ids for row in rows], [row.prefix for row in rows if row.prefix]
        )
        for row in rows if len(rows) > 1 else ():
            row.company = True
        ended = self._advance(rows, prompts.picked, prompts.states)
        further = {line: row for line, row in enumerate(rows) if line not in ended}
        self._batch.join(
            prompts, further, max((row.request.limit for row in further.values()), default=0)
        )
        return list(ended.values())

    def _advance(
        self, rows: Sequence[_Row], picked: Picked, states: Callable[[int], list[Tensor]]
    ) -> dict[int, Reply]:
        """Add its token to each row, and return the replies that ended by line."""
        ended: dict[int, Reply] = {}
        for line, (row, token, clear) in enumerate(
            zip(rows, picked.tokens, picked.clear, strict=True)
        ):
            if row.company and not clear:
                ended[line] = row.key, self._alone(row.request)
            elif reply := row.growing.add(token):
                ended[line] = row.key, reply
                if self._can_cache(row.request):
                    self.generator.cache.put(
                        (*row.request.prompt.ids, *reply.ids[:-1]), stacked(states(line))
                    )
        return ended

    def _alone(self, request: GenerationRequest) -> Generated:
        """Return the reply generated in a batch of its own."""
        replies = RunningReplies(self.generator, self.caches, anew=True)
        replies.add(0, request)
        return next(replies.finish())[1]


def _state(weight: Tensor) -> tuple[int, int]:
    """Return a value that changes when the tensor is written to or replaced; inference tensors have
    no version counter.
    """
    return id(weight), 0 if weight.is_inference() else weight._version


def free_bytes(model: Any) -> float | None:
    """Return the free memory of the model's GPUs, including PyTorch's reserved memory; None on
    other devices.
    """
    devices = {weight.device for weight in model.parameters() if not weight.is_meta}
    if {device.type for device in devices} != {"cuda"}:
        return None
    free = [
        torch.cuda.mem_get_info(device)[0]
        + torch.cuda.memory_reserved(device)
        - torch.cuda.memory_allocated(device)
        for device in devices
    ]
    return min(free) * len(free)  # assumes that layers are spread evenly
