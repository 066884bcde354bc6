"""Request forms by which servers give log-probabilities of a prompt's tokens, and the reading of their replies.

What a reply does not prove is refused: another number of prompts or tokens, another token than the one that was sent, a
null, a number that is not finite, or one that a server writes in place of minus infinity.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from emend.agents.local.prefixes import Encoded
from emend.agents.served.client import COMPLETIONS
from emend.memory.errors import ModelReplyError

FLOOR = -9999.0
"""What vLLM writes in place of minus infinity, which JSON has no number for."""
CEILING = 1e-3
"""A log-probability of a certain token may exceed 0 by rounding, and by no more."""
ID_PREFIX = "token_id:"

Rows = Sequence[Encoded]
Post = Callable[[str, dict[str, Any]], Any]
"""Sends a body to a path, and returns the JSON reply."""


class UnusableScores(ModelReplyError):
    """Raised when a server's reply does not have the log-probabilities of the tokens that were sent."""


class ScoreForm(ABC):
    """One form of request; by default prompts for the endpoint of completions."""

    name: str
    path: ClassVar[str] = COMPLETIONS
    parameters: dict[str, Any]
    """What is sent besides the model and the prompts."""

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
    """Prompts echoed with their log-probabilities, and at most one new token, as lm-evaluation-harness asks.

    Args:
        max_tokens: 1, or 0 where the server allows it.
        shows_ids: whether the server can name tokens by id. If not, a token must have the same text in every reply,
            which tells prompts that were exchanged.
    """

    def __init__(self, max_tokens: int, shows_ids: bool) -> None:
        self.name = f"echo with max_tokens {max_tokens}"
        self.max_tokens, self._shows_ids = max_tokens, shows_ids
        self.parameters: dict[str, Any] = {"echo": True, "logprobs": 1, "max_tokens": max_tokens, "temperature": 0}
        if shows_ids:
            self.parameters["return_tokens_as_token_ids"] = True
        self._texts: dict[int, str] = {}

    def read(self, reply: Any, rows: Rows) -> list[list[float]]:
        """Return the log-probability of each token of each row's target."""
        scores = []
        for choice, row in zip(_choices(reply, len(rows)), rows, strict=True):
            logprobs = _field(choice, "logprobs")
            size = len(row.ids) + self.max_tokens
            values, tokens = (_list(_field(logprobs, name), size, name) for name in ("token_logprobs", "tokens"))
            self._check_tokens(tokens[: len(row.ids)], row)
            scores.append([_number(value) for value in values[row.start : len(row.ids)]])
        return scores

    def _check_tokens(self, tokens: Sequence[Any], row: Encoded) -> None:
        for token, text in zip(row.ids, tokens, strict=True):
            expected = f"{ID_PREFIX}{token}" if self._shows_ids else self._texts.setdefault(token, str(text))
            # A token that is a part of a character has a text that depends on its neighbours.
            if text != expected and (self._shows_ids or (str(text) + expected).isascii()):
                raise UnusableScores(f"token {token} was sent, and {text!r:.60} came back, not {expected!r:.60}.")


class PromptLogprobsForm(ScoreForm):
    """vLLM's `prompt_logprobs`: for each token a dictionary by token id, with the most likely one and the given one."""

    name = "prompt_logprobs"
    parameters = {"prompt_logprobs": 1, "max_tokens": 1, "temperature": 0}

    def read(self, reply: Any, rows: Rows) -> list[list[float]]:
        """Return the log-probability of each token of each row's target."""
        scores = []
        for choice, row in zip(_choices(reply, len(rows)), rows, strict=True):
            entries = _list(_field(choice, "prompt_logprobs"), len(row.ids), "prompt_logprobs")
            targets = zip(row.ids[row.start :], entries[row.start :], strict=True)
            scores.append([_number(_field(_field(entry, str(token)), "logprob")) for token, entry in targets])
        return scores


class GenerateForm(ScoreForm):
    """SGLang's own `/generate`, which scores from the target on, so that shared prompts stay in its cache."""

    name = "generate with logprob_start_len"
    path = "/generate"
    parameters = {
        "return_logprob": True,
        "top_logprobs_num": 0,
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
    }

    def body(self, naming: dict[str, str], rows: Rows) -> dict[str, Any]:
        """Return the request for these rows; the first position that is returned has no number."""
        starts = {"input_ids": [list(row.ids) for row in rows], "logprob_start_len": [row.start - 1 for row in rows]}
        return self.parameters | starts | {name: value for name, value in naming.items() if name == "lora_path"}

    def read(self, reply: Any, rows: Rows) -> list[list[float]]:
        """Return the log-probability of each token of each row's target."""
        scores = []
        for result, row in zip(_list(reply, len(rows), "results"), rows, strict=True):
            entries = _field(_field(result, "meta_info"), "input_token_logprobs")
            targets = row.ids[row.start :]
            entries = _list(entries, len(targets) + 1, "input_token_logprobs")[1:]
            if [_at(entry, 1) for entry in entries] != list(targets):
                raise UnusableScores("the log-probabilities that came back are of other tokens than were sent.")
            scores.append([_number(_at(entry, 0)) for entry in entries])
        return scores


def _choices(reply: Any, number: int) -> list[Any]:
    """The choices in the order of the prompts."""
    choices = _list(_field(reply, "choices"), number, "choices")
    by_index = {_field(choice, "index"): choice for choice in choices if isinstance(choice, dict)}
    if set(by_index) != set(range(number)):
        raise UnusableScores(f"the choices of {number} prompts are numbered {sorted(map(str, by_index))[:5]}.")
    return [by_index[index] for index in range(number)]


def _field(holder: Any, name: str) -> Any:
    if not isinstance(holder, Mapping) or name not in holder:
        raise UnusableScores(f"the reply has no '{name}' where the log-probability of a token belongs.")
    value = holder[name]
    return value if not isinstance(value, (list, dict)) or value else None


def _list(value: Any, size: int, name: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != size:
        length = f"{len(value)} entries" if isinstance(value, list) else f"{value!r:.40}"
        raise UnusableScores(f"expected {size} entries in '{name}' of the reply, it has {length}.")
    return value


def _at(entry: Any, place: int) -> Any:
    if not isinstance(entry, list) or len(entry) <= place:
        raise UnusableScores(f"expected a log-probability and its token, the reply has {entry!r:.60}.")
    return entry[place]


def _number(value: Any) -> float:
    """A log-probability.

    Raises:
        UnusableScores: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise UnusableScores(f"the log-probability of a token is {value!r:.40}.")
    if not FLOOR < value <= CEILING:
        raise UnusableScores(f"the log-probability of a token is {value}, which stands for no number.")
    return float(value)


def read_forms(dialect: str) -> list[ScoreForm]:
    """Return the forms that a server of that dialect may take, the preferred one first."""
    if dialect == "sglang":
        return [GenerateForm(), EchoForm(1, shows_ids=False)]
    if dialect == "vllm":
        return [PromptLogprobsForm(), EchoForm(1, shows_ids=True), EchoForm(0, shows_ids=True)]
    return [EchoForm(1, shows_ids=False), EchoForm(0, shows_ids=False), PromptLogprobsForm()]
