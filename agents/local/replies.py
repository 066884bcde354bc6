"""Requests for greedy generation, and replies that grow token by token."""

from collections.abc import Collection
from typing import NamedTuple

from emend.agents.local.prefixes import Encoded
from emend.agents.local.stop_texts import StopTexts, TokenTexts


class GenerationRequest(NamedTuple):
    """A prompt, truncated to leave room for the new tokens, their maximum number, and the stop
    texts.
    """

    prompt: Encoded
    limit: int
    stop: tuple[str, ...]

    @property
    def width(self) -> int:
        """Maximum number of tokens of prompt and reply."""
        return len(self.prompt.ids) + self.limit


class Generated(NamedTuple):
    """A continuation before the first stop text, without leading white space."""

    text: str
    input_tokens: int
    output_tokens: int
    cut_tokens: int
    """Number of prompt tokens that did not fit the window."""
    finished: bool
    """False when the limit of new tokens ended it."""
    ids: tuple[int, ...]
    """The new tokens, including the one that ended it."""


class GrowingReply:
    """A reply that receives its tokens one by one.

    Args:
        request: the request that it answers.
        texts: the decoder of its tokens.
        ends: tokens that end the reply.
    """

    def __init__(
        self, request: GenerationRequest, texts: TokenTexts, ends: Collection[int]
    ) -> None:
        self.request, self._texts, self._ends = request, texts, ends
        self._new = StopTexts(texts, request.stop)

    def add(self, token: int) -> Generated | None:
        """Add a token; return the reply if it ended with a stop text after the first word, an end
        token, or the limit.
        """
        stopped, ids, prompt = self._new.add(token), self._new.ids, self.request.prompt
        finished = stopped or token in self._ends
        if not finished and len(ids) < self.request.limit:
            return None
        text = self._texts.read(ids, self.request.stop if stopped else ()).text
        return Generated(text, len(prompt.ids), len(ids), prompt.cut, finished, tuple(ids))
