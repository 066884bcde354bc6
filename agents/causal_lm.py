"""A Hugging Face causal language model from a folder: greedy continuations and log-probabilities of given targets.

Target tokens are what the longest common token prefix of "prompt" and "prompt + space + target" leaves over, so a
target is scored whole even where it changes how the end of the prompt is cut into tokens (DocTER counts instead).
"""

import math
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
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

from emend.agents.batching import pack
from emend.agents.decoding import Row, decode
from emend.agents.folder import load_folder, weights_digest
from emend.agents.likelihood import Likelihood, Side
from emend.agents.prefixes import Encoded, Ids, common
from emend.agents.scoring import joined
from emend.memory.errors import BadData, BadSettings, ContextOverflow, ModelError

BATCH_TOKENS = {"cpu": 1024}
"""What stays in a CPU's cache is fastest: 8,192 take half as long again on a small model."""
REPLY_BATCHES = {"cpu": 8}
"""Replies share a batch of so many times `batch_tokens`: a row more costs a step little beside what a step costs."""
CLOSE = {torch.float32: 2e-3, torch.float64: 1e-6}
"""Logits nearer to each other than this could change places in a padded batch, by the order in which it adds."""
SAMPLE = "The capital of France is Paris, and the capital of Italy is Rome."


class Generated(NamedTuple):
    """A continuation up to the first stop text, without it, and without white space in front."""

    text: str
    input_tokens: int
    output_tokens: int
    cut_tokens: int
    """How many tokens of the prompt did not fit the window."""
    finished: bool
    """False when the limit of new tokens ended it."""


class Scored(NamedTuple):
    """The natural-log probability of a target: joint, and of each of its tokens."""

    log_prob: float
    prompt_tokens: int
    target_tokens: int
    cut_tokens: int
    token_log_probs: tuple[float, ...]


class CausalLM:
    """A causal language model and its tokenizer, as plain `model` and `tokenizer`, for asking and for editing.

    Methods that use the weights hold `lock`; who changes the weights holds it too, as briefly as possible, and asks
    this object meanwhile (the lock is re-entrant), never a chat model around it, whose worker would wait for it.

    Args:
        folder: with config.json, *.safetensors and the tokenizer's files, as `save_pretrained` writes them.
        dtype: `float32`, `bfloat16`, `float16`, or `auto`: float32 on a CPU, else as stored.
        device: `cpu`, `cuda`, `cuda:1`, `mps` or `auto`: a GPU when there is one.
        batch_tokens: positions of one padded batch at most; None is 1,024 on a CPU, 8,192 elsewhere.

    Raises:
        ModelError: the folder is no model, or incomplete.
        BadSettings: unknown dtype or device.
    """

    def __init__(
        self, folder: Path, *, dtype: str = "auto", device: str = "auto", batch_tokens: int | None = None
    ) -> None:
        self.folder = folder
        self.lock = threading.RLock()
        loaded = load_folder(folder, dtype, device)
        self.model: Any = loaded.model
        self.tokenizer: Any = loaded.tokenizer
        self.window = loaded.window
        self.device: torch.device = self.model.device
        self.batch_tokens = batch_tokens or BATCH_TOKENS.get(self.device.type, 8192)
        self._lead, self._first = loaded.lead, loaded.first
        self._pad, self._ends = loaded.pad, loaded.ends
        sample = self.encode(SAMPLE)[: self.window]
        self.likelihood = Likelihood(self.model, loaded.pad, self.batch_tokens, sample)

    @cached_property
    def fingerprint(self) -> str:
        """What decides the answers: folder name, sha256 of weights and tokenizer, number format."""
        dtype = str(self.model.dtype).removeprefix("torch.")
        return f"{self.folder.resolve().name}@{weights_digest(self.folder)}/{dtype}"

    def generate(self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str] = ("\n",)) -> list[Generated]:
        """Continues each prompt greedily, until the end token, a stop text after the first word, or the limit.

        Prompts that leave no room for the new tokens are cut on the left, after the begin token. In single precision
        and better a reply does not depend on what else is in the batch: where the two likeliest tokens come so close
        that padding could decide between them, the reply is made once more by itself.

        Raises:
            BadSettings: no new tokens are asked for, or more than the window holds.
        """
        if max_new_tokens < 1 or (self.window and max_new_tokens >= self.window):
            raise BadSettings(f"max_new_tokens is {max_new_tokens}: give 1 to {(self.window or math.inf) - 1}.")
        with self.lock, torch.inference_mode():
            rows = [self._cut(self.encode(prompt), None, max_new_tokens) for prompt in prompts]
            answers: dict[int, Generated] = {}
            budget = self.batch_tokens * REPLY_BATCHES.get(self.device.type, 1)
            for batch in pack([len(row.ids) + max_new_tokens for row in rows], budget):
                told = self._generate([rows[place] for place in batch], max_new_tokens, stop)
                for place, (reply, sure) in zip(batch, told, strict=True):
                    alone = reply if sure else self._generate([rows[place]], max_new_tokens, stop)[0][0]
                    answers[place] = alone
        return [answers[place] for place in range(len(rows))]

    def log_probs(self, pairs: Sequence[tuple[str, str]], padding: Side = "right", share: bool = True) -> list[Scored]:
        """The log-probability of each (prompt, target)'s target, joint and by token; see `likelihood` for how.

        Prompts that do not fit the window are cut on the left, after the begin token. Without `share` no beginning that
        prompts have in common is computed for all of them at once.

        Raises:
            BadData: a target is blank.
            ContextOverflow: a target alone does not fit the window.
        """
        with self.lock, torch.inference_mode():
            rows = self.encode_pairs(pairs)
            told = self.likelihood.tokens(rows, [prompt for prompt, _ in pairs], padding, share)
        return [
            Scored(math.fsum(logs), row.start, len(row.ids) - row.start, row.cut, tuple(logs))
            for row, logs in zip(rows, told, strict=True)
        ]

    def encode(self, text: str) -> Ids:
        """Token ids with the begin token once, if the tokenizer puts one; never empty."""
        return self._encode_all([text])[0]

    def encode_pair(self, prompt: str, target: str) -> Encoded:
        """Token ids of prompt and target, cut to the window, and where the target begins: never at 0."""
        return self.encode_pairs([(prompt, target)])[0]

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[Encoded]:
        """As `encode_pair`, of many at once.

        Raises:
            BadData: a target is blank, or adds no token.
            ContextOverflow: a target alone does not fit the window.
        """
        texts = dict.fromkeys(text for prompt, target in pairs for text in (prompt, joined(prompt, target)))
        ids = dict(zip(texts, self._encode_all(list(texts)), strict=True))
        return [self._pair(prompt, target, ids[prompt], ids[joined(prompt, target)]) for prompt, target in pairs]

    def _encode_all(self, texts: list[str]) -> list[Ids]:
        found: list[Ids] = []
        for plain in self.tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else ():
            ids = tuple(plain)
            if ids[: len(self._lead)] != self._lead:  # a chat template has written it already
                ids = self._lead + ids
            found.append(ids or self._begin())
        return found

    def _pair(self, prompt: str, target: str, alone: Ids, whole: Ids) -> Encoded:
        start = common(alone, whole)
        if start == len(whole):
            raise BadData(f"target {target!r} adds no token to {prompt[-60:]!r}: this tokenizer cannot score it.")
        if start == 0:  # the first token needs something to follow on
            whole, start = self._begin() + whole, 1
        return self._cut(whole, start, 0)

    def _begin(self) -> tuple[int, ...]:
        if self._first is None:
            raise ModelError(
                f"{self.folder}: its tokenizer has no begin or end token, so an empty prompt cannot be asked."
            )
        return (self._first,)

    def _cut(self, ids: Ids, start: int | None, room: int) -> Encoded:
        """Leaves out what is too much after the begin token; the last token of a target is never fed to the model."""
        over = len(ids) + room - (start is not None) - (self.window or math.inf)
        begin, cut = len(self._lead), max(0, int(over)) if over > 0 else 0
        place = len(ids) if start is None else start
        if place - cut < max(1, begin):
            raise ContextOverflow(
                f"a target of {len(ids) - place} tokens does not fit the window of {self.window} tokens: "
                "take a model with a larger one."
            )
        return Encoded(ids[:begin] + ids[begin + cut :], place - cut, cut)

    def _generate(self, rows: list[Encoded], limit: int, stop: Sequence[str]) -> list[tuple[Generated, bool]]:
        """Each row's continuation, and whether it is surely the one that the row has by itself."""
        fed = self.likelihood.padded([row.ids for row in rows], "left")
        halt = _StopAtText(self.tokenizer, fed["input_ids"].shape[1], stop)
        if len(rows) > 1 and self.likelihood.continues(fed["input_ids"].shape[1] + limit):
            made = decode(self.model, fed, limit, lambda ids: ids[-1] in self._ends or halt.read(ids)[1])
        else:
            made = self._by_library(fed, limit, halt)
        close = CLOSE.get(self.model.dtype, 0.0)
        found = []
        for row, (ids, leads) in zip(rows, made, strict=True):
            reply = self._told(row, ids, halt)
            found.append((reply, min(leads[: reply.output_tokens], default=close) >= close))
        return found

    def _by_library(self, fed: dict[str, Any], limit: int, halt: "_StopAtText") -> list[Row]:
        """Of any model; a row alone has no leads, for there is nothing that it could depend on."""
        fed.pop("position_ids", None)  # generate counts them itself, from the mask
        plan = GenerationConfig(
            max_new_tokens=limit, do_sample=False, eos_token_id=self._ends or None, pad_token_id=self._pad
        )
        lines, margins = len(fed["input_ids"]), _Margins()
        out = self.model.generate(
            **fed,
            generation_config=plan,
            stopping_criteria=StoppingCriteriaList([halt]),
            logits_processor=LogitsProcessorList([margins] if lines > 1 else []),
        )
        return [Row(*two) for two in zip(out[:, halt.width :].tolist(), margins.by_row(lines), strict=True)]

    def _told(self, row: Encoded, new: list[int], halt: "_StopAtText") -> Generated:
        """Counts tokens up to the end token or to the one that completed a stop text; what follows is padding."""
        ended = next((place + 1 for place, token in enumerate(new) if token in self._ends), None)
        for count in range(1, (ended or len(new)) + 1):
            text, stopped = halt.read(new[:count])
            if stopped:
                return Generated(text, len(row.ids), count, row.cut, True)
        count = ended or len(new)
        return Generated(halt.read(new[:count])[0], len(row.ids), count, row.cut, ended is not None)


class _StopAtText(StoppingCriteria):
    """Ends each row on its own, once a stop text stands in its continuation after the first word."""

    def __init__(self, tokenizer: Any, width: int, stop: Sequence[str]) -> None:
        self.tokenizer, self.width, self.stop = tokenizer, width, tuple(stop)

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
