"""What is asked of an edited model, and what it said: the words that editors and evaluations share."""

from typing import Any, Literal, Self

from pydantic import model_validator

from emend.memory.edit import Word, content_id

Style = Literal["cloze", "question", "raw"]
"""`cloze` is to be continued, `question` to be answered; `raw` goes to the model as it is."""
Reading = Literal["line", "thoughts", "whole"]
"""What of a reply is the answer: its first `line`, what follows `Answer:` after `thoughts`, or the `whole` of it."""


class Probe(Word):
    """One thing asked of the edited model.

    `gold` is the right answer followed by its aliases; `rival` the answer that it competes with in likelihood;
    `scorers` name how the answer is scored (`exact_match`, `choice`, `likelihood`, `agreement`); `edit_ids` the edits
    that bear on it (empty when it is out of scope); `query` what a retriever is asked, where that is not the prompt;
    `examples` solved examples that stand before everything else in the prompt; `reading` what of a reply is the answer.
    An empty `id` is filled from the content.
    """

    id: str = ""
    kind: str
    prompt: str
    style: Style = "cloze"
    gold: tuple[str, ...]
    rival: str | None = None
    choices: tuple[str, ...] = ()
    in_scope: bool = True
    edit_ids: tuple[str, ...] = ()
    scorers: tuple[str, ...] = ("exact_match",)
    query: str = ""
    subject: str = ""
    examples: str = ""
    reading: Reading = "line"
    new_tokens: int = 0
    """Length of a `whole` reply at most; 0 leaves it to the model."""
    tags: dict[str, str | int | float | bool] = {}

    @model_validator(mode="before")
    @classmethod
    def _fill_id(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("id"):
            return values | {"id": content_id("probe", {k: v for k, v in values.items() if k != "id"})}
        return values

    @property
    def asked(self) -> str:
        """What a retriever is asked."""
        return self.query or self.prompt


class Usage(Word):
    """What an answer cost: tokens into and out of the model, and calls made.

    `cached` counts replies that were kept from earlier: they cost no token and are no call. `retries` counts how often
    a provider was asked again because it did not answer or asked for fewer calls; these are no calls of their own.
    `untold` counts the calls whose tokens nobody told: the tokens are those of the others.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    cached: int = 0
    retries: int = 0
    untold: int = 0

    def plus(self, other: "Usage") -> "Usage":
        """The sum of both."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            calls=self.calls + other.calls,
            cached=self.cached + other.cached,
            retries=self.retries + other.retries,
            untold=self.untold + other.untold,
        )


class Retry(Word):
    """An attempt that failed and was followed by another: its number from 1, the seconds waited, and how it failed.

    `error` is a class of `memory/errors.py`; `status` that of HTTP, 0 where no answer came; `at` when it failed, in
    seconds since 1970.
    """

    attempt: int
    wait: float
    error: str
    status: int = 0
    at: float = 0.0


LOCAL_PROVIDER = "emend"
"""The provider of a call to a model in this process."""


class ModelCall(Word):
    """One call to a model: what was asked and said, as OpenAI writes messages, tokens, and when it was made.

    A `score` asks how probable targets are, and has no reply. `asked_in` names the field of the state that was asked
    as it stood before the step, and `said_in` the field of the step's update that is the reply; the texts are then not
    kept twice. `at` is in seconds since 1970, `ms` all attempts and waits together; `finish` is the provider's word for
    how the reply ended.
    """

    kind: Literal["chat", "score"] = "chat"
    model: str = ""
    provider: str = LOCAL_PROVIDER
    asked: tuple[dict[str, Any], ...] = ()
    asked_in: str = ""
    said: dict[str, Any] = {}
    said_in: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    finish: str = ""
    cached: bool = False
    retries: tuple[Retry, ...] = ()
    error: str | None = None
    ms: float = 0.0
    at: float = 0.0


class Step(Word):
    """One node of a graph (or the one act of an editor without graph): what it changed in the state, and how long.

    `at` is when it began, in seconds since 1970; `place` its number in the run of its graph, from 1; both are 0 where
    nobody told. `calls` are those to models.
    """

    node: str
    update: dict[str, Any]
    ms: float
    error: str | None = None
    at: float = 0.0
    place: int = 0
    calls: tuple[ModelCall, ...] = ()


class Answer(Word):
    """What the edited model said to one probe.

    `text` is None when the model was only asked for probabilities; `reply` is the whole reply where the text was read
    off thoughts; `log_probs` holds one joint natural-log probability per target that was asked for, and is empty for a
    model without probabilities; `retrieved` the ids of the edits behind the retrieved entries, best first; `cut_tokens`
    how much of the prompt did not fit the model's window.
    """

    text: str | None = None
    reply: str | None = None
    log_probs: tuple[float, ...] = ()
    target_tokens: tuple[int, ...] = ()
    """How many tokens each of `log_probs` covers; empty for a model that does not tell."""
    prompt: str = ""
    retrieved: tuple[str, ...] = ()
    cut_tokens: int = 0
    usage: Usage = Usage()
    steps: tuple[Step, ...] = ()

    def but(self, **changed: Any) -> Self:
        """A copy with some fields changed."""
        return self.model_copy(update=changed)
