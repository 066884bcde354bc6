"""Probes, answers, steps and model calls: the records that editors and evaluations share."""

from typing import Any, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from emend.memory.edit import FrozenModel, content_id

Style = Literal["cloze", "question", "raw"]
"""`cloze`: to be continued; `question`: to be answered; `raw`: sent to the model unchanged."""
Reading = Literal["line", "thoughts", "whole"]
"""The answer in a reply: its first `line`, the text behind `Answer:` after `thoughts`, or the `whole` reply."""


Form = Literal["", "plain", "chat"]
"""`plain`: the prompt is text that the model continues, though it may have a chat template; `chat`: it is a message."""


class Probe(FrozenModel):
    """A question or cloze for the edited model.

    `gold` is the correct answer followed by its aliases; `rival` the answer that it competes with in likelihood;
    `scorers` name how the answer is scored (`exact_match`, `choice`, `likelihood`, `agreement`); `edit_ids` are the
    relevant edits (none when it is out of scope); `query` is the retrieval query, where that is not the prompt;
    `examples` are demonstrations at the beginning of the prompt; `reading` is the part of a reply that is the answer;
    `form` is how a model that takes both is asked, and empty if that is left to the model.
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
    """Maximum length of a `whole` reply in tokens; 0 leaves it to the model."""
    form: Form = ""
    tags: dict[str, str | int | float | bool] = {}

    @model_validator(mode="before")
    @classmethod
    def _fill_id(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("id"):
            return values | {"id": content_id("probe", {k: v for k, v in values.items() if k != "id"})}
        return values

    @property
    def retrieval_query(self) -> str:
        """The query for a retriever."""
        return self.query or self.prompt


class Usage(FrozenModel):
    """The cost of an answer: input and output tokens, and calls.

    `cached` counts replies from a cache: they cost no token and are no call. `retries` counts the repeated attempts
    after errors and rate limits; they are not calls. `untold` counts the calls whose token counts the provider did not
    report; `input_tokens` and `output_tokens` are those of the others.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    cached: int = 0
    retries: int = 0
    untold: int = 0

    def plus(self, other: "Usage") -> "Usage":
        """The sum of both."""
        return Usage.model_construct(
            **{name: getattr(self, name) + getattr(other, name) for name in self.__class__.model_fields}
        )


class Retry(FrozenModel):
    """A failed attempt that was followed by another: its number from 1, the seconds waited, and the error.

    `error` is a class of `memory/errors.py`; `status` the HTTP status, 0 without a response; `at` the time of the
    failure in seconds since 1970.
    """

    attempt: int
    wait: float
    error: str
    status: int = 0
    at: float = 0.0


LOCAL_PROVIDER = "emend"
"""The provider of a call to a model in this process."""


class ModelCall(FrozenModel):
    """A call to a model: messages and reply in OpenAI's format, tokens, and time.

    A `score` call asks for log-probabilities of targets and has no reply. `messages_field` names the field of the state
    before the step that was the prompt, and `reply_field` the field of the step's update that is the reply; the texts
    are then not stored twice. `at` is in seconds since 1970, `ms` includes all attempts and waits; `finish` is the
    provider's finish reason. Lines of earlier versions have `asked`, `asked_in`, `said` and `said_in` instead.
    """

    kind: Literal["chat", "score"] = "chat"
    model: str = ""
    provider: str = LOCAL_PROVIDER
    messages: tuple[dict[str, Any], ...] = Field(default=(), validation_alias=AliasChoices("messages", "asked"))
    messages_field: str = Field(default="", validation_alias=AliasChoices("messages_field", "asked_in"))
    reply: dict[str, Any] = Field(default={}, validation_alias=AliasChoices("reply", "said"))
    reply_field: str = Field(default="", validation_alias=AliasChoices("reply_field", "said_in"))
    input_tokens: int = 0
    output_tokens: int = 0
    finish: str = ""
    cached: bool = False
    retries: tuple[Retry, ...] = ()
    error: str | None = None
    ms: float = 0.0
    at: float = 0.0


class Step(FrozenModel):
    """A node of a graph (or the single step of an editor without graph): its state update and its duration.

    `at` is the start in seconds since 1970; `place` its number in the run of its graph, from 1; both are 0 if unknown.
    `after` holds the places of the steps it followed, those of the superstep before; `calls` are the model calls.
    """

    node: str
    update: dict[str, Any]
    ms: float
    error: str | None = None
    at: float = 0.0
    place: int = 0
    after: tuple[int, ...] = ()
    calls: tuple[ModelCall, ...] = ()


class Answer(FrozenModel):
    """The edited model's answer to one probe.

    `text` is None when only probabilities were requested; `exact_text` is the text with its final full stop, where it
    had one, for comparison letter by letter; `passage` the sentences that answer, where they differ from the
    text; `reply` is the whole reply where the text was parsed from
    thoughts; `log_probs` holds one joint natural-log probability per requested target, and is empty for a model without
    probabilities; `retrieved` the ids of the retrieved entries' edits, best first; `cut_tokens` the number of prompt
    tokens that did not fit the model's window.
    """

    text: str | None = None
    exact_text: str | None = None
    passage: str | None = None
    reply: str | None = None
    log_probs: tuple[float, ...] = ()
    target_tokens: tuple[int, ...] = ()
    """Number of tokens of each target in `log_probs`; empty if the model does not report it."""
    greedy_tokens: tuple[int, ...] = ()
    """Number of tokens of each target that are the most probable ones after those before; empty if not reported."""
    prompt: str = ""
    retrieved: tuple[str, ...] = ()
    cut_tokens: int = 0
    usage: Usage = Usage()
    steps: tuple[Step, ...] = ()

    def but(self, **changed: Any) -> Self:
        """A copy with some fields changed."""
        return self.model_copy(update=changed)
