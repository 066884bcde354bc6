"""Request formats for the log-probabilities of a prompt's tokens, and parsing of the replies.

A reply is rejected if the number of prompts or tokens differs, a token differs from the one sent,
or a value is null, not finite, or a server's substitute for minus infinity.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from emend.agents.local.prefixes import Encoded
from emend.agents.served.client import COMPLETIONS
from emend.memory.errors import ModelReplyError

# vLLM's substitute for minus infinity, which JSON cannot represent.
FLOOR = -9999.0
# Maximum excess of a log-probability above 0, due to rounding.
CEILING = 1e-3
ID_PREFIX = "token_id:"

Rows = Sequence[Encoded]
# Sends a body to a path, and returns the JSON reply.
Post = Callable[[str, dict[str, Any]], Any]


class UnusableScores(ModelReplyError):
    """Raised when a server's reply does not have the log-probabilities of the tokens that were
    sent.
    """


class ScoreForm(ABC):
    """A request format; by default for the completions endpoint."""

    name: str
    path: ClassVar[str] = COMPLETIONS
    parameters: dict[str, Any]
    """Request fields besides the model and the prompts."""

    def body(self, naming: dict[str, str], rows: Rows) -> dict[str, Any]:
        """Return the request for these rows; `naming` are the fields that name the model."""
        return {**naming, "prompt": [list(row.ids) for row in rows], **self.parameters}

    @abstractmethod
    def read(self, reply: Any, rows: Rows) -> list[list[float]]:
        """Return the log-probability of each token of each row's target.

        Raises:
            UnusableScores: the reply does not have them.
        """


class EchoForm(ScoreForm):
    """Echoed prompts with log-probabilities, and at most one new token, as in
    lm-evaluation-harness.

    Args:
        max_tokens: 1, or 0 if the server allows it.
        shows_ids: whether the server can return token ids. If not, a token must have the same text
            in every reply, which detects swapped prompts.
    """

    def __init__(self, max_tokens: int, shows_ids: bool) -> None:
        self.name = f"echo with max_tokens {max_tokens}"
        self.max_tokens, self._shows_ids = max_tokens, shows_ids
        self.parameters: dict[str, Any] = {
            "echo": True,
            "logprobs": 1,
            "max_tokens": max_tokens,
            "temperature": 0,
        }
        if shows_ids:
            self.parameters["return_tokens_as_token_ids"] = True
        self._texts: dict[int, str] = {}

    def read(self, reply: Any, rows: Rows) -> list[list[float]]:
        """Return the log-probability of each token of each row's target."""
        scores = []
        for choice, row in zip(_choices(reply, len(rows)), rows, strict=True):
            logprobs = _field(choice, "logprobs")
            size = len(row.ids) + self.max_tokens
            values, tokens = (
                _list(_field(logprobs, name), size, name) for name in ("token_logprobs", "tokens")
            )
            self._check_tokens(tokens[: len(row.ids)], row)
            scores.append([_number(value) for value in values[row.start : len(row.ids)]])
        return scores

    def _check_tokens(self, tokens: Sequence[Any], row: Encoded) -> None:
        for token, text in zip(row.ids, tokens, strict=True):
            if self._shows_ids:
                expected = f"{ID_PREFIX}{token}"
            else:
                expected = self._texts.setdefault(token, str(text))
            # The text of a token that is part of a character depends on its neighbours.
            if text != expected and (self._shows_ids or (str(text) + expected).isascii()):
                raise UnusableScores(
                    f"token {token} was sent, and {text!r:.60} came back, not {expected!r:.60}."
                )


class PromptLogprobsForm(ScoreForm):
    """vLLM's `prompt_logprobs`: for each token a dictionary by token id, with the most likely and
    the given token.
    """

    name = "prompt_logprobs"
    parameters = {"prompt_logprobs": 1, "max_tokens": 1, "temperature": 0}

    def read(self, reply: Any, rows: Rows) -> list[list[float]]:
        """Return the log-probability of each token of each row's target."""
        scores = []
        for choice, row in zip(_choices(reply, len(rows)), rows, strict=True):
            entries = _list(_field(choice, "prompt_logprobs"), len(row.ids), "prompt_logprobs")
            targets = zip(row.ids[row.start :], entries[row.start :], strict=True)
            scores.append(
                [_number(_field(_field(entry, str(token)), "logprob")) for token, entry in targets]
            )
        return scores


class GenerateForm(ScoreForm):
    """SGLang's `/generate`, which scores only the target, so that shared prompts stay in the
    server's cache.
    """

    name = "generate with logprob_start_len"
    path = "/generate"
    parameters = {
        "return_logprob": True,
        "top_logprobs_num": 0,
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
    }

    def body(self, naming: dict[str, str], rows: Rows) -> dict[str, Any]:
        """Return the request for these rows; the first returned position has no value."""
        starts = {
            "input_ids": [list(row.ids) for row in rows],
            "logprob_start_len": [row.start - 1 for row in rows],
        }
        return (
            self.parameters
            | starts
            | {name: value for name, value in naming.items() if name == "lora_path"}
        )

    def read(self, reply: Any, rows: Rows) -> list[list[float]]:
        """Return the log-probability of each token of each row's target."""
        scores = []
        for result, row in zip(_list(reply, len(rows), "results"), rows, strict=True):
            entries = _field(_field(result, "meta_info"), "input_token_logprobs")
            targets = row.ids[row.start :]
            entries = _list(entries, len(targets) + 1, "input_token_logprobs")[1:]
            if [_at(entry, 1) for entry in entries] != list(targets):
                raise UnusableScores(
                    "the returned log-probabilities are not of the tokens that were sent."
                )
            scores.append([_number(_at(entry, 0)) for entry in entries])
        return scores


def _choices(reply: Any, number: int) -> list[Any]:
    """Return the choices in the order of the prompts."""
    choices = _list(_field(reply, "choices"), number, "choices")
    by_index = {_field(choice, "index"): choice for choice in choices if isinstance(choice, dict)}
    if set(by_index) != set(range(number)):
        raise UnusableScores(
            f"the choices of {number} prompts have the indices {sorted(map(str, by_index))[:5]}."
        )
    return [by_index[index] for index in range(number)]


def _field(holder: Any, name: str) -> Any:
    if not isinstance(holder, Mapping) or name not in holder:
        raise UnusableScores(
            f"the reply has no '{name}' where the log-probability of a token belongs."
        )
    value = holder[name]
    return value if not isinstance(value, (list, dict)) or value else None


def _list(value: Any, size: int, name: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != size:
        length = f"{len(value)} entries" if isinstance(value, list) else f"{value!r:.40}"
        raise UnusableScores(f"expected {size} entries in '{name}' of the reply, it has {length}.")
    return value


def _at(entry: Any, place: int) -> Any:
    if not isinstance(entry, list) or len(entry) <= place:
        raise UnusableScores(
            f"expected a log-probability and its token, the reply has {entry!r:.60}."
        )
    return entry[place]


def _number(value: Any) -> float:
    """Validate a log-probability.

    Raises:
        UnusableScores: the value is not a log-probability.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise UnusableScores(f"the log-probability of a token is {value!r:.40}.")
    if not FLOOR < value <= CEILING:
        raise UnusableScores(f"the log-probability of a token is {value}, which is out of range.")
    return float(value)


def read_forms(dialect: str) -> list[ScoreForm]:
    """Return the request formats that a server of this dialect may support, the preferred one
    first.
    """
    if dialect == "sglang":
        return [GenerateForm(), EchoForm(1, shows_ids=False)]
    if dialect == "vllm":
        return [PromptLogprobsForm(), EchoForm(1, shows_ids=True), EchoForm(0, shows_ids=True)]
    return [EchoForm(1, shows_ids=False), EchoForm(0, shows_ids=False), PromptLogprobsForm()]
