"""A Hugging Face causal language model in a folder: greedy generation and log-probabilities of
given targets.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch

from emend.agents.local.generation import Generator, RunningReplies
from emend.agents.local.likelihood import Likelihood, Side, TokenScore
from emend.agents.local.model_folder import load_folder, weights_digest
from emend.agents.local.offload import DeviceMap, computing_device
from emend.agents.local.prefixes import Encoded, Ids
from emend.agents.local.replies import Generated, GenerationRequest
from emend.agents.local.single_precision import HALF, SinglePrecision
from emend.agents.local.token_ids import Encoder
from emend.agents.local.weights_lock import WeightsLock
from emend.memory.embeddings.threads import is_small, one_thread
from emend.memory.errors import BadSettings, EmendError

# Batches that fit a CPU's cache are fastest: 8,192 positions take 1.5 times as long with a small
# model.
BATCH_TOKENS = {"cpu": 1024}
# Default size of the KV cache, in MiB.
KEEP_MB = 256
SAMPLE = "The capital of France is Paris, and the capital of Italy is Rome."


class ScoredTarget(NamedTuple):
    """The natural-log probability of a target, joint and per token, and its token counts.

    `greedy_tokens` is the number of target tokens that are the most probable ones given the tokens
    before them; `likely_tokens` has for each target token its id and the most probable ids, best
    first.
    """

    log_prob: float
    prompt_tokens: int
    target_tokens: int
    cut_tokens: int
    token_log_probs: tuple[float, ...]
    greedy_tokens: int
    likely_tokens: tuple[tuple[int, ...], ...] = ()


class CausalLM:
    """A causal language model and its tokenizer, as `model` and `tokenizer`, for inference and for
    editing.

    Methods that use the weights hold `lock`. An editor that changes the weights holds it too, as
    briefly as possible. While holding it (the lock is re-entrant), the editor may call this object,
    but not a chat model around it, whose worker would wait for the lock.

    Args:
        folder: a folder with config.json, *.safetensors and the tokenizer's files, as written by
            `save_pretrained`.
        dtype: `float32`, `bfloat16`, `float16`, or `auto`: float32 on a CPU, else as stored.
        device: `cpu`, `cuda`, `cuda:1`, `mps` or `auto`: a GPU when there is one.
        device_map: for a model that is too large for one device: `auto`, `balanced`,
            `balanced_low_0`, `sequential`, or a device per module, which is the number of a GPU, or
            `cpu` or `disk` for modules to load only when needed.
        batch_tokens: maximum positions of one padded batch; by default 1,024 on a CPU, else 8,192.
        keep_mb: maximum MiB of cached keys and values of the latest replies, which speed up prompts
            that continue one of them; 0 caches none.
        deterministic: compute replies and probabilities of a model in half precision in single
            precision, so that they do not depend on the batch; this is slower, see
            `SinglePrecision`. Editors compute in the precision of the stored weights.

    Raises:
        ModelError: the folder is not a complete model.
        BadSettings: unknown dtype, device or map.
    """

    def __init__(
        self,
        folder: Path,
        *,
        dtype: str = "auto",
        device: str = "auto",
        device_map: DeviceMap | None = None,
        batch_tokens: int | None = None,
        keep_mb: int = KEEP_MB,
        deterministic: bool = True,
    ) -> None:
        if batch_tokens is not None and batch_tokens < 1:
            raise BadSettings(
                f"model.batch_tokens is {batch_tokens}: give at least 1, or leave it out."
            )
        self.folder = folder
        self.lock = WeightsLock()
        loaded = load_folder(folder, dtype, device, device_map)
        self.model: Any = loaded.model
        self.tokenizer: Any = loaded.tokenizer
        self.window = loaded.window
        self.device = computing_device(self.model)
        self._casts = deterministic and self.model.dtype in HALF
        """True if inference is in another precision than the weights."""
        self._small = is_small(self.model)
        self.batch_tokens = batch_tokens or BATCH_TOKENS.get(self.device.type, 8192)
        self._encoder = Encoder.of(self.tokenizer, loaded.window, str(folder))
        sample = self.encode(SAMPLE)[: self.window]
        precision = torch.float32 if self._casts else self.model.dtype
        with one_thread(self._small):
            self.likelihood = Likelihood(
                self.model, loaded.pad, self.batch_tokens, sample, precision
            )
        self.ends = loaded.ends
        self._generator = Generator(self.likelihood, self.tokenizer, loaded.ends, keep_mb << 20)

    @cached_property
    def fingerprint(self) -> str:
        """An id that changes whenever replies may change: folder name, SHA-256 of weights and
        tokenizer, dtypes.
        """
        dtype = str(self.model.dtype).removeprefix("torch.") + "-in-float32" * self._casts
        return f"{self.folder.resolve().name}@{weights_digest(self.folder)}/{dtype}"

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str] = ("\n",)
    ) -> list[Generated]:
        """Continue each prompt greedily until the end token, a stop text after the first word, or
        the limit.

        Prompts that leave no room for the new tokens are truncated on the left, after the begin
        token. A reply does not depend on the rest of the batch, except for a model in half
        precision that is not `deterministic`: if the two most likely tokens are so close that
        padding could change their order, the reply is generated again alone.

        Raises:
            BadSettings: `max_new_tokens` is below 1, or more than the window holds.
        """
        requests = [self.request(prompt, max_new_tokens, stop) for prompt in prompts]
        with self.replies() as running:
            for place in sorted(range(len(requests)), key=lambda place: requests[place].width):
                running.add(place, requests[place])
            replies = dict(running.finish())
        return [replies[place] for place in range(len(requests))]

    def request(self, prompt: str, max_new_tokens: int, stop: Sequence[str]) -> GenerationRequest:
        """Return the prompt as token ids, truncated to leave room for the new tokens, with its
        limit and stop texts; see `generate`.

        Raises:
            BadSettings: `max_new_tokens` is below 1, or more than the window holds.
        """
        if max_new_tokens < 1 or (self.window and max_new_tokens >= self.window):
            raise BadSettings(
                f"max_new_tokens is {max_new_tokens}: give 1 to {(self.window or math.inf) - 1}."
            )
        return GenerationRequest(
            self._encoder.prompt(prompt, max_new_tokens), max_new_tokens, tuple(stop)
        )

    def generate_joining(
        self,
        requests: Sequence[tuple[str, int, Sequence[str]]],
        next_requests: Callable[[], Sequence[Any]],
    ) -> Iterator[tuple[int, Generated | EmendError]]:
        """Yield the index of each request with its reply, or its error, when it is done.

        Args:
            requests: prompt, maximum number of new tokens and stop texts of each; see `generate`.
            next_requests: returns further requests, which join between two steps unless an editor
                waits for the weights.
        """
        places = count()
        with self.replies() as running:
            while requests or running.count:
                for request, place in zip(requests, places, strict=False):
                    try:
                        running.add(place, self.request(*request))
                    except EmendError as error:
                        yield place, error
                yield from running.step()
                requests = () if self.lock.wanted else next_requests()

    @contextmanager
    def replies(self) -> Iterator[RunningReplies]:
        """Hold the lock and yield a batch of replies that further requests can join."""
        with self._inference() as weights:
            yield self._generator.start(weights)

    def log_probs(
        self, pairs: Sequence[tuple[str, str]], padding: Side = "right", share: bool = True
    ) -> list[ScoredTarget]:
        """Return the log-probability of the target of each (prompt, target), joint and per token;
        see `likelihood`.

        Prompts that do not fit the window are truncated on the left, after the begin token. Without
        `share`, common prefixes of prompts are computed for each prompt separately.

        Raises:
            BadData: a target is blank.
            ContextOverflow: a target alone does not fit the window.
        """
        with self._inference():
            rows = self.encode_pairs(pairs)
            scores = self.likelihood.tokens(rows, [prompt for prompt, _ in pairs], padding, share)
        return [_scored_target(row, tokens) for row, tokens in zip(rows, scores, strict=True)]

    @contextmanager
    def _inference(self) -> Iterator[int | None]:
        """Give read access to the weights, without gradients."""
        with (
            self.lock.read_access() as weights,
            torch.inference_mode(),
            one_thread(self._small),
            self.precision(),
        ):
            yield weights

    def precision(self) -> AbstractContextManager[Any]:
        """Return a context for forward passes in the precision of replies and probabilities."""
        return SinglePrecision() if self._casts else nullcontext()

    def encode(self, text: str) -> Ids:
        """Return token ids with exactly one begin token, if the tokenizer has one; never empty."""
        return self._encoder.text(text)

    def encode_pair(self, prompt: str, target: str) -> Encoded:
        """Return the token ids of prompt and target, truncated to the window, and the start of the
        target (never 0).
        """
        return self.encode_pairs([(prompt, target)])[0]

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[Encoded]:
        """Return the token ids of many pairs; see `encode_pair`.

        Raises:
            BadData: a target is blank, or adds no token.
            ContextOverflow: a target alone does not fit the window.
        """
        return self._encoder.pairs(pairs)


def _scored_target(row: Encoded, tokens: Sequence[TokenScore]) -> ScoredTarget:
    logs = tuple(token.log_prob for token in tokens)
    greedy = sum(token.is_greedy for token in tokens)
    likely = tuple(token.likely for token in tokens)
    count = len(row.ids) - row.start
    return ScoredTarget(math.fsum(logs), row.start, count, row.cut, logs, greedy, likely)
