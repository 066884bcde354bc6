"""Log-probabilities of given tokens under a causal language model, with padded batches and shared
prefixes.

Three optimisations: (1) A shared prefix is processed once. Targets of the same prompt are
concatenated in one row, with a mask that lets each target attend to the prompt and itself, and a
long prefix of several prompts is kept as keys and values that their rows continue. (2) Rows of
similar length share a padded batch. (3) The output layer is applied only at the scored positions.

A model that does not support (1), such as a recurrent one or one that counts positions itself, is
detected by one comparison with plain rows, and then gets plain rows. So do rows longer than a
sliding window, and every model with a hook on one of its modules, because a hook may depend on
whole rows.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from inspect import signature
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from emend.agents.local.batching import pack
from emend.agents.local.kv_cache import cache_arguments
from emend.agents.local.offload import computing_device
from emend.agents.local.prefixes import APART, Branch, Encoded, Ids, SharingMinimum, Stem, plan

Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")
# Maximum number of positions whose logits exist at once; a vocabulary can have 250,000 entries.
HEAD_ROWS = 1024
# Maximum number of positions with cached keys and values, as a multiple of a batch's positions.
PAST = 4
FORCED = SharingMinimum(2, 1, 1)
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-6}
# Tolerance in half precision, where rounding differs; an unsupported cache differs by more.
ROUGH = 0.25
# Number of most probable tokens returned for each scored position, as UniEdit needs.
LIKELY = 5


class Past(NamedTuple):
    """Keys and values of the columns computed so far, and their mask, shape (rows, columns)."""

    cache: Any
    mask: Tensor

    def rows(self, number: int) -> "Past":
        """Return copies of the single row, which can be continued without changing it."""
        layers = [
            (keys.expand(number, -1, -1, -1), values.expand(number, -1, -1, -1))
            for keys, values, *_ in self.cache
        ]
        return Past(DynamicCache(layers), self.mask.expand(number, -1))


class TokenPosition(NamedTuple):
    """The position of a token's probability in a batch."""

    row: int
    line: int
    column: int
    token: int


class TokenScore(NamedTuple):
    """Natural-log probability of a token, whether no other token is more probable, and the ids of
    the token and of the most probable ones, best first.
    """

    log_prob: float
    is_greedy: bool
    likely: tuple[int, ...]


# Scores by row, in the order of the target's tokens.
TokenScores = dict[int, list[TokenScore]]


class Likelihood:
    """Scores tokens with one model; the caller holds the model's lock and disables gradients.

    Args:
        model: a Hugging Face causal language model in evaluation mode.
        pad: the padding token; it is masked.
        batch_tokens: maximum positions of one padded batch.
        sample: a dozen tokens of text, used to detect what the model supports.
        dtype: dtype of the activations, which is that of the weights unless they are cast.
    """

    def __init__(
        self, model: Any, pad: int, batch_tokens: int, sample: Ids, dtype: torch.dtype
    ) -> None:
        self.model = model
        self.pad = pad
        self.batch_tokens = batch_tokens
        self.sample = sample
        self.dtype = dtype
        self.device = computing_device(model)
        self.takes_positions = "position_ids" in signature(model.forward).parameters
        self.least = SharingMinimum(32, batch_tokens // 4, 8)
        self.prompt_lengths: Tensor | None = None
        """Tokens of the prompt in each row of the pass that scores targets now, for hooks; None in
        other passes."""

    def tokens(
        self,
        rows: Sequence[Encoded],
        prompts: Sequence[Hashable],
        side: Side = "right",
        share: bool = True,
    ) -> list[list[TokenScore]]:
        """Return the score of each token of each row's target.

        Args:
            rows: prompts with targets.
            prompts: a key of each row's prompt, equal for equal prompts.
            side: the padding side.
            share: compute shared prefixes once; otherwise rows are only padded into batches.
        """
        out: TokenScores = {}
        unsteady = [[place] for place, row in enumerate(rows) if len(row.fed) > self.steady]
        steady = [place for place, row in enumerate(rows) if len(row.fed) <= self.steady]
        for places in [steady, *unsteady]:
            some = [rows[place] for place in places]
            scores = self._tree(
                some, self._plan(some, [prompts[place] for place in places], share), side
            )
            out.update(zip(places, scores, strict=True))
        return [out[place] for place in range(len(rows))]

    def padded(self, rows: Sequence[Ids], side: Side, past: Past | None = None) -> dict[str, Any]:
        """Return input ids, shape (rows, longest), mask, shape (rows, past + longest), and
        positions of the real tokens.
        """
        width = max(len(ids) for ids in rows)
        ids = torch.full((len(rows), width), self.pad)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        for line, row in enumerate(rows):
            where = slice(width - len(row), width) if side == "left" else slice(0, len(row))
            ids[line, where], mask[line, where] = torch.tensor(row), 1
        device = self.device
        mask = mask.to(device)
        fed: dict[str, Any] = {"input_ids": ids.to(device), "attention_mask": mask}
        if self.takes_positions:
            fed["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
        if past is not None:
            fed["attention_mask"] = torch.cat([past.mask, mask], dim=1)
            fed["position_ids"] = fed["position_ids"] + past.mask.sum(1, keepdim=True)
        return fed

    @cached_property
    def head(self) -> Callable[[Tensor], Tensor] | None:
        """The function from last hidden states to logits, if the output layer depends on nothing
        else.
        """
        head, body = self.model.get_output_embeddings(), self.model.base_model
        if head is None or body is self.model:
            return None
        fed = self.padded([self.sample], "right")
        whole = self.model(**fed, use_cache=False).logits
        states = getattr(body(**fed, use_cache=False), "last_hidden_state", None)
        if states is None or states.shape[-1] != head.weight.shape[-1]:
            return None
        config = self.model.config.get_text_config()
        scale = getattr(config, "logit_scale", None)
        cap = getattr(config, "final_logit_softcapping", None)

        def bounded(some: Tensor) -> Tensor:
            logits: Tensor = head(some) if scale is None else head(some) * scale
            return logits if cap is None else torch.tanh(logits / cap) * cap

        return next(
            (each for each in (head, bounded) if torch.equal(each(states).to(whole.device), whole)),
            None,
        )

    @cached_property
    def shares(self) -> bool:
        """True if continuing from cached keys and values gives the same numbers in rows of unequal
        length.
        """
        ids = self.sample[:12]
        if not self.takes_positions or len(ids) < 8:
            return False
        ends = [
            (ids[:4], 3),
            (ids[:5] + ids[1:3], 4),
            (ids[:5] + ids[2:5], 4),
            (ids[:3] + ids[5:], 4),
            (ids[:4], 2),
        ]
        rows = [Encoded(whole, start, 0) for whole, start in ends]
        prompts = [row.ids[: row.start] for row in rows]
        plain = [self._tree([row], plan([row], [0], None), "right")[0] for row in rows]
        try:
            shared = [self._tree(rows, plan(rows, prompts, FORCED), side) for side in SIDES]
        except Exception:  # noqa: BLE001
            # a model that does not support this type of cache may raise anything
            return False
        allowed = TOLERANCE.get(self.dtype, ROUGH)
        pairs = [
            two
            for result in shared
            for row in zip(plain, result, strict=True)
            for two in zip(*row, strict=True)
        ]
        return all(
            abs(a.log_prob - b.log_prob) <= allowed * (1 + abs(a.log_prob)) for a, b in pairs
        )

    def continues(self, width: int) -> bool:
        """Return whether rows of this width can be decoded token by token in a batch from keys and
        values.
        """
        return width <= self.steady and not self.hooked and self.shares

    @property
    def hooked(self) -> bool:
        """True if one of the modules has a hook, which may depend on whole rows."""
        return any(
            module._forward_hooks or module._forward_pre_hooks for module in self.model.modules()
        )

    @cached_property
    def steady(self) -> float:
        """Row length up to which a row is independent of its batch: some rotary embeddings depend
        on the longest row.
        """
        config = self.model.config.get_text_config()
        rope = getattr(config, "rope_parameters", None) or {}
        kinds = [rope, *(kind for kind in rope.values() if isinstance(kind, dict))]
        moving = [
            kind
            for kind in kinds
            if "dynamic" in kind.get("rope_type", "") or kind.get("rope_type") == "longrope"
        ]
        limits = [
            kind.get("original_max_position_embeddings", config.max_position_embeddings)
            for kind in moving
        ]
        return min(limits, default=math.inf)

    @cached_property
    def slide(self) -> float:
        """The smallest attention window of all layers, in tokens."""
        config = self.model.config.get_text_config()
        sizes = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
        return min((size for size in sizes if size), default=math.inf)

    def _plan(self, rows: Sequence[Encoded], prompts: Sequence[Hashable], share: bool) -> Branch:
        if self.hooked:
            return plan(rows, prompts, None)
        # Padding between a prefix and its continuation increases the distance in a sliding window.
        fits = 2 * max((len(row.ids) for row in rows), default=0) <= self.slide
        branch = plan(rows, prompts, self.least if share and fits else APART)
        return branch if not branch.shares or self.shares else plan(rows, prompts, APART)

    def _tree(self, rows: Sequence[Encoded], tree: Branch, side: Side) -> list[list[TokenScore]]:
        out: TokenScores = defaultdict(list)
        self._grow(rows, tree, None, side, out)
        return [out[place] for place in range(len(rows))]

    def _grow(
        self,
        rows: Sequence[Encoded],
        branch: Branch,
        past: Past | None,
        side: Side,
        out: TokenScores,
    ) -> None:
        depth = len(branch.trunk)
        if depth > branch.above:
            past = self._extend(branch.trunk[branch.above :], past and past.rows(1))
        sizes = [max(_width(stem, depth), len(stem.ids) // PAST) for stem in branch.stems]
        for batch in pack(sizes, self.batch_tokens):
            stems = [branch.stems[number] for number in batch]
            self._score(rows, stems, depth, past and past.rows(len(stems)), side, out)
        for further in branch.branches:
            self._grow(rows, further, past, side, out)

    def _extend(self, ids: Ids, past: Past | None) -> Past:
        """Return the keys and values of one row, continued from `past`."""
        fed = self.padded([ids], "right", past)
        cache = DynamicCache() if past is None else past.cache
        self.model.base_model(**fed, **cache_arguments(self.model, cache))
        return Past(cache, fed["attention_mask"])

    def _score(
        self,
        rows: Sequence[Encoded],
        stems: list[Stem],
        depth: int,
        past: Past | None,
        side: Side,
        out: TokenScores,
    ) -> None:
        """Process stems with their leaves and add their scores to `out`."""
        fed = self.padded([stem.ids[depth:] + _joined(stem) for stem in stems], side, past)
        width = fed["input_ids"].shape[1]
        positions = [
            position
            for line, stem in enumerate(stems)
            for position in _positions(
                rows, stem, depth, line, width - _width(stem, depth) if side == "left" else 0
            )
        ]
        if any(_joined(stem) for stem in stems):
            fed |= self._forked(stems, depth, fed["attention_mask"], width, side)
        caching = cache_arguments(self.model, past.cache) if past else {"use_cache": False}
        starts = [min(rows[place].start for place, _ in stem.leaves) - depth for stem in stems]
        with self._prompts_of(starts):
            states = self._states(fed | caching)
        lines, columns, tokens = torch.tensor(
            [position[1:] for position in positions], device=states.device
        ).T
        for position, score in zip(
            positions, self._at(states, lines, columns, tokens), strict=True
        ):
            out[position.row].append(score)

    @contextmanager
    def _prompts_of(self, lengths: Sequence[int]) -> Iterator[None]:
        self.head  # noqa: B018  its own passes, before the first, are of other rows
        self.prompt_lengths = torch.tensor(lengths, device=self.device)
        try:
            yield
        finally:
            self.prompt_lengths = None

    def _forked(
        self, stems: list[Stem], depth: int, mask: Tensor, width: int, side: Side
    ) -> dict[str, Tensor]:
        """Return positions and the mask with which a leaf attends to its stem but no other leaf,
        shape (rows, 1, width, past + width).
        """
        segments = torch.full((len(stems), width), -1)
        places = torch.zeros(len(stems), width, dtype=torch.long)
        for line, stem in enumerate(stems):
            size = len(stem.ids)
            parts = [
                range(depth, size),
                *(range(size, size + len(leaf)) for _, leaf in stem.leaves),
            ]
            at = [place for part in parts for place in part]
            where = slice(width - len(at), width) if side == "left" else slice(0, len(at))
            places[line, where] = torch.tensor(at)
            segments[line, where] = torch.tensor(
                [number for number, part in enumerate(parts) for _ in part]
            )
        segments = segments.to(mask.device)
        visible = (segments[:, None] == segments[:, :, None]) | (segments[:, None] == 0)
        visible &= torch.ones(width, width, dtype=torch.bool, device=mask.device).tril()
        before = mask[:, None, : mask.shape[1] - width].bool().expand(-1, width, -1)
        visible = torch.cat([before, visible & mask[:, None, -width:].bool()], dim=-1)
        bias = torch.zeros(visible.shape, dtype=self.dtype, device=mask.device)
        bias.masked_fill_(~visible, torch.finfo(self.dtype).min)
        return {"attention_mask": bias[:, None], "position_ids": places.to(mask.device)}

    def _states(self, fed: dict[str, Any]) -> Tensor:
        """Return the last hidden states, or logits if the output layer is not separate."""
        if self.head is None:
            return self.model(**fed).logits  # type: ignore[no-any-return]
        return self.model.base_model(**fed).last_hidden_state  # type: ignore[no-any-return]

    def _at(
        self, states: Tensor, lines: Tensor, columns: Tensor, tokens: Tensor
    ) -> Iterator[TokenScore]:
        """Yield the score of each token at its (line, column), computing only these logits if the
        head is separate.
        """
        for some, ids in zip(
            states[lines, columns].split(HEAD_ROWS), tokens.split(HEAD_ROWS), strict=True
        ):
            logits = (some if self.head is None else self.head(some)).float()
            chosen = logits.gather(-1, ids[:, None].to(logits.device))[:, 0]
            best = logits.topk(min(LIKELY, logits.shape[-1]), dim=-1)
            greedy = chosen == best.values[:, 0]
            likely = torch.cat([ids[:, None].to(logits.device), best.indices], dim=1)
            log_probs = (chosen - logits.logsumexp(-1)).tolist()
            yield from map(TokenScore, log_probs, greedy.tolist(), map(tuple, likely.tolist()))


def _joined(stem: Stem) -> Ids:
    """Return all leaves, concatenated."""
    return tuple(token for _, leaf in stem.leaves for token in leaf)


def _width(stem: Stem, depth: int) -> int:
    return len(stem.ids) - depth + sum(len(leaf) for _, leaf in stem.leaves)


def _positions(
    rows: Sequence[Encoded], stem: Stem, depth: int, line: int, shift: int
) -> Iterator[TokenPosition]:
    """Yield the positions of each target's tokens: first in the stem, then in its leaf."""
    size, after = len(stem.ids), len(stem.ids) - depth
    for place, leaf in stem.leaves:
        row = rows[place]
        for at in range(row.start - 1, len(row.fed)):
            column = at - depth if at < size else after + at - size
            yield TokenPosition(place, line, shift + column, row.ids[at + 1])
        after += len(leaf)
