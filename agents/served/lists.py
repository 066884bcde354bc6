"""Batching of scoring calls from many threads into requests with lists of prompts."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from emend.agents.local.batching import Batcher
from emend.agents.local.prefixes import Encoded
from emend.memory.errors import ContextOverflow, EmendError, ModelReplyError, RequestRefused

# Maximum tokens of a list: a reply has about 150 bytes per token.
LIST_TOKENS = 16_384
# Maximum number of calls that are batched at once.
CALLS = 256
# Maximum number of concurrent requests.
LISTS = 8
# Errors that a single prompt can cause for the whole list.
OF_ONE_PROMPT = (ContextOverflow, ModelReplyError, RequestRefused)

# Log-probabilities of each token of each target.
TokenScores = list[list[float]]


class ListScorer:
    """Scores the rows of many calls in few requests; an error only affects the calls whose prompts
    cause it.

    Args:
        send: scores the rows of one request.
        gather: maximum number of prompts in a request.
        apart: whether to send a separate request for each call.
    """

    def __init__(
        self, send: Callable[[Sequence[Encoded]], TokenScores], gather: int, apart: bool
    ) -> None:
        self._send, self._gather = send, gather
        self._batcher = Batcher[list[Encoded], TokenScores](self._run, 1 if apart else CALLS)
        self._pool = ThreadPoolExecutor(LISTS, "emend-lists")

    def score(self, rows: list[Encoded]) -> TokenScores:
        """Return the log-probabilities of each row's target.

        Raises:
            EmendError: the error of the request.
        """
        return self._batcher.ask("score", rows)

    def close(self) -> None:
        """End the threads; further calls fail."""
        self._batcher.close()
        self._pool.shutdown(wait=True)

    def _run(self, key: Hashable, calls: list[list[Encoded]]) -> list[TokenScores | EmendError]:
        parts = [
            (number, rows[at : at + self._gather])
            for number, rows in sorted(
                enumerate(calls), key=lambda call: min(row.start for row in call[1])
            )
            for at in range(0, len(rows), self._gather)
        ]
        results: list[TokenScores | EmendError] = [[] for _ in calls]
        for part in self._pool.map(self._score_parts, self._lists(parts)):
            for number, scores in part:
                before = results[number]
                if not isinstance(before, EmendError):
                    results[number] = scores if isinstance(scores, EmendError) else before + scores
        return results

    def _lists(
        self, parts: list[tuple[int, list[Encoded]]]
    ) -> Iterator[list[tuple[int, list[Encoded]]]]:
        """Yield parts of calls, grouped up to the limits of a request."""
        together: list[tuple[int, list[Encoded]]] = []
        prompts = tokens = 0
        for number, rows in parts:
            size = sum(len(row.ids) for row in rows)
            if together and (prompts + len(rows) > self._gather or tokens + size > LIST_TOKENS):
                yield together
                together, prompts, tokens = [], 0, 0
            together.append((number, rows))
            prompts, tokens = prompts + len(rows), tokens + size
        if together:
            yield together

    def _score_parts(
        self, parts: list[tuple[int, list[Encoded]]]
    ) -> list[tuple[int, TokenScores | EmendError]]:
        try:
            scores = iter(self._send(list(chain.from_iterable(rows for _, rows in parts))))
            return [(number, [next(scores) for _ in rows]) for number, rows in parts]
        except OF_ONE_PROMPT as error:
            if len(parts) == 1:
                return [(parts[0][0], error)]
            half = len(parts) // 2
            return self._score_parts(parts[:half]) + self._score_parts(parts[half:])
        except EmendError as error:
            return [(number, error) for number, _ in parts]
