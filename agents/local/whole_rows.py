"""Generation with `generate` of transformers, for models that do not support continuous batching,
and for very long rows.
"""

from collections.abc import Collection, Sequence
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
from emend.agents.local.likelihood import Likelihood
from emend.agents.local.replies import Generated, GenerationRequest, GrowingReply
from emend.agents.local.stop_texts import TokenTexts


class ReplySettings(NamedTuple):
    """Decoding of replies: the decoder of tokens, end tokens, and the minimum lead of a clear token
    in logits.
    """

    texts: TokenTexts
    ends: Collection[int]
    close: float


def generate_whole(
    likelihood: Likelihood,
    requests: Sequence[GenerationRequest],
    settings: ReplySettings,
    positions: int,
) -> list[Generated]:
    """Return each request's reply, equal to that of the request alone, in batches of at most
    `positions`.
    """
    widths = [request.width for request in requests]
    # Beyond the length `steady`, a row depends on the longest one of its batch.
    batches = pack(
        [width if width <= likelihood.steady else positions for width in widths], positions
    )
    replies: dict[int, Generated] = {}
    for batch in batches:
        for place, reply in zip(
            batch, _together(likelihood, [requests[at] for at in batch], settings), strict=True
        ):
            replies[place] = (
                reply or _together(likelihood, [requests[place]], settings._replace(close=0))[0]
            )
    return [replies[place] for place in range(len(requests))]


def _together(
    likelihood: Likelihood, requests: list[GenerationRequest], settings: ReplySettings
) -> list[Any]:
    """Return each request's reply, or None if it could differ from the reply of the request
    alone.
    """
    growing = [GrowingReply(request, settings.texts, settings.ends) for request in requests]
    fed = likelihood.padded([request.prompt.ids for request in requests], "left")
    fed.pop("position_ids", None)  # `generate` computes positions itself, from the mask
    clear = _Clear(settings.close)
    watch = _Watch(growing, clear if len(requests) > 1 else None)
    likelihood.model.generate(
        **fed,
        generation_config=GenerationConfig(
            max_new_tokens=max(request.limit for request in requests),
            do_sample=False,
            eos_token_id=sorted(settings.ends) or None,
            pad_token_id=likelihood.pad,
        ),
        stopping_criteria=StoppingCriteriaList([watch]),
        logits_processor=LogitsProcessorList([clear]),
    )
    return watch.replies


class _Clear(LogitsProcessor):
    """Records for each row whether the most likely token has a clear lead; does not change
    scores.
    """

    def __init__(self, close: float) -> None:
        self.close, self.latest = close, torch.zeros(0)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        best = scores.topk(2).values
        self.latest = best[:, 0] - best[:, 1] >= self.close
        return scores


class _Watch(StoppingCriteria):
    """Adds each new token to its reply, and ends rows whose replies ended or may differ from the
    reply alone.
    """

    def __init__(self, growing: Sequence[GrowingReply], clear: _Clear | None) -> None:
        self.growing, self.clear = growing, clear
        self.replies: list[Generated | None] = [None] * len(growing)
        self.ended = [False] * len(growing)

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        sure = self.clear.latest.tolist() if self.clear else [True] * len(self.ended)
        for place, token in enumerate(input_ids[:, -1].tolist()):
            if not self.ended[place]:
                self.replies[place] = self.growing[place].add(token) if sure[place] else None
                self.ended[place] = not sure[place] or self.replies[place] is not None
        return torch.tensor(self.ended, device=input_ids.device)
