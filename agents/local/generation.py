"""Greedy replies of a causal language model: in padded batches, each read on from what was read before.

A reply does not depend on what else is in its batch, nor on what is kept: where the two likeliest tokens come so close
that the order of adding could decide between them, the reply is made once more by itself, from the first token on.
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
from emend.agents.local.decoding import Row, decode, growing
from emend.agents.local.kv_cache import Beginning, Kept, joined_states, states_of
from emend.agents.local.likelihood import Likelihood, Past
from emend.agents.local.prefixes import Encoded

REPLY_BATCHES = {"cpu": 8}
"""Replies share a batch of so many times `batch_tokens`: a row more costs a step little beside what a step costs."""
CLOSE = {torch.float32: 2e-3, torch.float64: 1e-6}
"""Logits nearer to each other than this could change places in a padded batch, by the order in which it adds."""


class Generated(NamedTuple):
    """A continuation up to the first stop text, without it, and without white space in front."""

    text: str
    input_tokens: int
    output_tokens: int
    cut_tokens: int
    """How many tokens of the prompt did not fit the window."""
    finished: bool
    """False when the limit of new tokens ended it."""
    ids: tuple[int, ...]
    """The new tokens, with the one that ended it."""


class Plan(NamedTuple):
    """New tokens at most, the texts that end a reply, and whether what is read is kept."""

    limit: int
    stop: tuple[str, ...]
    keeps: bool


class Replying:
    """Continues rows of tokens; whoever calls holds the model's lock, and no gradients are kept.

    Args:
        likelihood: which knows the model and what it can do.
        tokenizer: the model's own.
        ends: tokens that end a reply.
        keep: bytes of keys and values of the latest replies that are kept; 0 keeps none.
    """

    def __init__(self, likelihood: Likelihood, tokenizer: Any, ends: Sequence[int], keep: int) -> None:
        self.likelihood, self.tokenizer, self.ends = likelihood, tokenizer, list(ends)
        self.model = likelihood.model
        self.kept = Kept(keep)

    def generate(
        self, rows: Sequence[Encoded], limit: int, stop: tuple[str, ...], weights: int | None
    ) -> list[Generated]:
        """Each row's reply.

        Args:
            rows: prompts, cut so that the new tokens have room.
            limit: new tokens of a reply at most.
            stop: texts that end a reply after its first word.
            weights: the same as before if the weights surely are; None where that cannot be told.
        """
        sizes = [len(row.ids) + limit for row in rows]
        plan = Plan(limit, stop, weights is not None and self._keeps(max(sizes, default=0)))
        known: list[Beginning | None] = [None] * len(rows)
        if plan.keeps:
            self.kept.under((weights, *map(_state, self.model.parameters())))
            known = [self._begun(row) for row in rows]
        answers: dict[int, Generated] = {}
        for batch in self._batches(sizes, known):
            read = [one for place in batch if (one := known[place])]
            told = self._together([rows[place] for place in batch], read, plan)
            for place, (reply, sure) in zip(batch, told, strict=True):
                alone = Plan(limit, stop, False)
                answers[place] = reply if sure else self._together([rows[place]], [], alone)[0][0]
        return [answers[place] for place in range(len(rows))]

    def _keeps(self, width: int) -> bool:
        """Whether rows of that width may go on from others; a sliding window forgets what they would need."""
        likelihood = self.likelihood
        return bool(self.kept.limit) and likelihood.slide > 2 * width and likelihood.continues(2 * width)

    def _begun(self, row: Encoded) -> Beginning | None:
        """What was read of a row, if that is the greater part of it: rows share a width of what is left to read."""
        found = self.kept.beginning(row.ids)
        return found if found and 2 * found.tokens >= len(row.ids) else None

    def _batches(self, sizes: Sequence[int], known: Sequence[Beginning | None]) -> Iterator[list[int]]:
        """Rows by number, those that go on from others apart from the new ones."""
        budget = self.likelihood.batch_tokens * REPLY_BATCHES.get(self.model.device.type, 1)
        for going in (True, False):
            places = [place for place, one in enumerate(known) if (one is not None) == going]
            for batch in pack([sizes[place] for place in places], budget):
                yield [places[at] for at in batch]

    def _together(self, rows: Sequence[Encoded], read: Sequence[Beginning], plan: Plan) -> list[tuple[Generated, bool]]:
        """Each row's continuation, and whether it is surely the one that the row has by itself.

        `read` is of every row, or of none.
        """
        halt = _StopAtText(self.tokenizer, plan.stop)
        longest = max(len(row.ids) for row in rows) + plan.limit
        if self.likelihood.continues(longest):
            made = self._decoded(rows, read, plan, halt)
        else:
            made = self._by_library(rows, plan.limit, halt)
        close = CLOSE.get(self.model.dtype, 0.0) if len(rows) > 1 or read else 0.0
        found = []
        for row, (ids, leads) in zip(rows, made, strict=True):
            reply = self._told(row, ids, halt)
            found.append((reply, min(leads[: reply.output_tokens], default=close) >= close))
        return found

    def _decoded(
        self, rows: Sequence[Encoded], read: Sequence[Beginning], plan: Plan, halt: "_StopAtText"
    ) -> list[Row]:
        """By steps of our own; what is read is kept when a row leaves."""
        depths, past = [one.tokens for one in read] or [0] * len(rows), None
        further = [row.ids[at:] for row, at in zip(rows, depths, strict=True)]
        if read:
            states, mask = joined_states(read)
            past = Past(growing(self.model, max(map(len, further)) + plan.limit, states), mask)
        fed = self.likelihood.padded(further, "left", past)

        def leave(row: int, new: Sequence[int], cache: Any, line: int, columns: Tensor) -> None:
            self.kept.keep((*rows[row].ids, *new[:-1]), states_of(cache, line, columns))

        def over(ids: Sequence[int]) -> bool:
            return ids[-1] in self.ends or halt.read(ids)[1]

        return decode(self.model, fed, plan.limit, over, past and past.cache, leave if plan.keeps else None)

    def _by_library(self, rows: Sequence[Encoded], limit: int, halt: "_StopAtText") -> list[Row]:
        """Of any model."""
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
        return [Row(*two) for two in zip(out[:, halt.width :].tolist(), margins.by_row(len(rows)), strict=True)]

    def _told(self, row: Encoded, new: list[int], halt: "_StopAtText") -> Generated:
        """Counts tokens up to the end token or to the one that completed a stop text; what follows is padding."""
        ended = next((place + 1 for place, token in enumerate(new) if token in self.ends), None)
        for count in range(1, (ended or len(new)) + 1):
            text, stopped = halt.read(new[:count])
            if stopped:
                return Generated(text, len(row.ids), count, row.cut, True, tuple(new[:count]))
        count = ended or len(new)
        ids = tuple(new[:count])
        return Generated(halt.read(ids)[0], len(row.ids), count, row.cut, ended is not None, ids)


def _state(weight: Tensor) -> tuple[int, int]:
    """Changes when the tensor is written to or another one takes its place; one made for inference does not tell."""
    return id(weight), 0 if weight.is_inference() else weight._version


class _StopAtText(StoppingCriteria):
    """Ends each row on its own, once a stop text stands in its continuation after the first word."""

    def __init__(self, tokenizer: Any, stop: tuple[str, ...]) -> None:
        self.tokenizer, self.stop = tokenizer, stop
        self.width = 0
        """Tokens of the prompts in what `generate` shows."""

    def read(self, ids: Sequence[int]) -> tuple[str, bool]:
        """The text up to the first stop text, and whether there is one."""
        text = self.tokenizer.decode(ids, skip_special_tokens=True).lstrip()
        ends = [place for word in self.stop if (place := text.find(word)) >= 0]
        return (text[: min(ends)], True) if ends else (text, False)

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        done = [self.read(ids)[1] for ids in input_ids[:, self.width :].tolist()]
        return torch.tensor(done, device=input_ids.device)


class _Margins(LogitsProcessor):
    """Changes nothing; keeps by how much the likeliest token leads over the next one, per step and row."""

    def __init__(self) -> None:
        self.steps: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        best = scores.topk(2).values
        self.steps.append(best[:, 0] - best[:, 1])
        return scores

    def by_row(self, rows: int) -> list[list[float]]:
        """The leads of each row, step by step; none where none were kept."""
        told: list[list[float]] = torch.stack(self.steps, 1).tolist() if self.steps else [[]] * rows
        return told
