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

    `cached` counts replies that were kept from earlier: they cost no token and are no call.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    cached: int = 0

    def plus(self, other: "Usage") -> "Usage":
        """The sum of both."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            calls=self.calls + other.calls,
            cached=self.cached + other.cached,
        )


class Step(Word):
    """One node of a graph (or the one act of an editor without graph): what it changed in the state, and how long."""

    node: str
    update: dict[str, Any]
    ms: float
    error: str | None = None


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
