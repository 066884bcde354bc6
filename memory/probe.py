"""Probes, answers, steps and model calls: the records that editors and evaluations share."""

import json
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from emend.memory.edit import FrozenModel, content_id

# `cloze`: to be continued; `question`: to be answered; `raw`: sent to the model unchanged.
Style = Literal["cloze", "question", "raw"]
# Which part of a reply is the answer: the first `line`, the text after `Answer:` that follows
# `thoughts`, or the `whole` reply.
Reading = Literal["line", "thoughts", "whole"]


# A longer answer is a sentence, not a name or value, so the words before its comma are not a short
# form of it.
NAME_WORDS = 10
# `plain`: the model continues the prompt as text, even if it has a chat template; `chat`: the
# prompt is a message.
Form = Literal["", "plain", "chat"]


# Fields of a question that were tags in earlier versions, with the tag's name.
FORMER_TAGS = {
    "event_id": "event",
    "rival_aliases": "original_aliases",
    "hop_golds": "hop_golds",
}
# Fields that earlier versions did not have, or had as tags that no id contains.
_LATER_FIELDS = ("rubric", "criterion", "abstains", "newer_ids", "outdated_ids")


class Probe(FrozenModel):
    """A question or cloze for the edited model.

    `gold` is the correct answer followed by its aliases; `rival` the answer that its likelihood is
    compared with; `scorers` the names of the scorers (`exact_match`, `choice`, `likelihood`,
    `agreement`); `edit_ids` the relevant edits (none for a probe out of scope); `query` the
    retrieval query, if it is not the prompt; `examples` the demonstrations at the beginning of the
    prompt; `reading` the part of a reply that is the answer; `form` how to ask a model that takes
    both plain text and messages, empty for the model's default. An empty `id` is filled from the
    content.
    """

    id: str = ""
    kind: str
    prompt: str
    style: Style = "cloze"
    gold: tuple[str, ...]
    all_golds: bool = False
    """The gold answers, or what a single one has between its commas, are parts of one answer, all
    of which are wanted in any order, and not alternatives."""
    hop_golds: tuple[tuple[str, ...], ...] = ()
    """For each hop to the answer of a multi-hop question the accepted answers, by which the steps
    of stepwise editors are scored; if empty, those of the case count."""
    rival: str | None = None
    rival_aliases: tuple[str, ...] = ()
    """Other forms of the rival."""
    choices: tuple[str, ...] = ()
    rubric: tuple[str, ...] = ()
    """Statements that a right answer contains, for a judge or in order."""
    criterion: str = ""
    """Name of the criterion by which a judge compares the answer with gold."""
    abstains: bool = False
    """True if a conversation does not answer the question, so that it is right to abstain."""
    in_scope: bool = True
    edit_ids: tuple[str, ...] = ()
    event_id: str = ""
    """Id of the edit beside which a question out of scope is asked, for editors that show it."""
    newer_ids: tuple[str, ...] = ()
    """Ids of the edits with the new statement, for a question about an update."""
    outdated_ids: tuple[str, ...] = ()
    """Ids of the edits with the outdated statement, for a question about an update."""
    scorers: tuple[str, ...] = ("exact_match",)
    query: str = ""
    subject: str = ""
    examples: str = ""
    reading: Reading = "line"
    new_tokens: int = 0
    """Maximum length of a `whole` reply in tokens; 0 leaves it to the model."""
    form: Form = ""
    tags: dict[str, str | int | float | bool] = {}
    """Labels by which results are grouped and filtered."""

    @model_validator(mode="before")
    @classmethod
    def _fill_id(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("id"):
            content = _hashed_content({k: v for k, v in values.items() if k != "id"})
            return values | {"id": content_id("probe", content)}
        return values

    @property
    def content(self) -> dict[str, Any]:
        """The fields as JSON, from which keys of stored answers are made; see `_hashed_content`."""
        return _hashed_content(self.model_dump(mode="json"))

    @property
    def retrieval_query(self) -> str:
        """The query for a retriever: `query`, or else the prompt."""
        return self.query or self.prompt


def _hashed_content(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a probe as earlier versions had them, so that ids and keys, and with
    them finished units and stored answers of older runs, stay the same.

    Fields of `FORMER_TAGS` are tags, and empty fields that earlier versions did not have are left
    out.
    """
    content = dict(fields)
    tags = {
        tag: _tag_text(value)
        for name, tag in FORMER_TAGS.items()
        if (value := content.pop(name, None))
    }
    if tags:
        content["tags"] = dict(content.get("tags") or {}) | tags
    for name in _LATER_FIELDS:
        if not content.get(name):
            content.pop(name, None)
    return content


def _tag_text(value: Any) -> Any:
    """Return the value of a field as the tag had it: a list in lines, lists of lists as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple | list) and all(isinstance(text, str) for text in value):
        return "\n".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)


class Usage(FrozenModel):
    """The cost of an answer: input and output tokens, and calls.

    `cached` counts replies from a cache, which use no tokens and do not count as calls. `retries`
    counts repeated attempts after errors and rate limits, which do not count as calls either.
    `untold` counts the calls without token counts from the provider; `input_tokens` and
    `output_tokens` cover the other calls.
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
            **{
                name: getattr(self, name) + getattr(other, name)
                for name in self.__class__.model_fields
            }
        )


class Retry(FrozenModel):
    """A failed attempt that was followed by another: its number from 1, the seconds waited, and the
    error.

    `error` is a class of `memory/errors.py`; `status` the HTTP status, 0 without a response; `at`
    the time of the failure in seconds since 1970.
    """

    attempt: int
    wait: float
    error: str
    status: int = 0
    at: float = 0.0


# The provider name of a model that runs in this process.
LOCAL_PROVIDER = "emend"


class ModelCall(FrozenModel):
    """A call to a model: messages and reply in OpenAI's format, tokens, and time.

    A `score` call asks for log-probabilities of targets and has no reply. If the prompt is a field
    of the step's input state, `messages_field` names that field; if the reply is a field of the
    step's update, `reply_field` names it. The texts are then not stored twice. `at` is in seconds
    since 1970, `ms` includes all attempts and waits; `finish` is the provider's finish reason.
    Lines of earlier versions call these fields `asked`, `asked_in`, `said` and `said_in`.
    """

    kind: Literal["chat", "score"] = "chat"
    model: str = ""
    provider: str = LOCAL_PROVIDER
    messages: tuple[dict[str, Any], ...] = Field(
        default=(), validation_alias=AliasChoices("messages", "asked")
    )
    messages_field: str = Field(
        default="", validation_alias=AliasChoices("messages_field", "asked_in")
    )
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
    """A run of a graph node (or the single step of an editor without a graph): its state update and
    duration.

    `at` is the start in seconds since 1970; `place` the number of the step within the graph's run,
    from 1; both are 0 if unknown. `after` holds the numbers of the preceding steps, those of the
    previous superstep; `calls` the model calls.
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

    `text` is None if only probabilities were requested; `exact_text` is the text with its final
    full stop, if it had one, for exact comparison; `passage` the sentences that answer the
    question, where they differ from the text; `reply` the whole reply, where the text follows a
    chain of thought; `log_probs` one joint natural-log probability per requested target, empty for
    a model without probabilities; `retrieved` the edit ids of the retrieved entries, best first;
    `cut_tokens` the number of prompt tokens truncated because they did not fit the model's window.
    """

    text: str | None = None
    exact_text: str | None = None
    passage: str | None = None
    reply: str | None = None
    log_probs: tuple[float, ...] = ()
    target_tokens: tuple[int, ...] = ()
    """Number of tokens of each target in `log_probs`; empty if the model does not report it."""
    greedy_tokens: tuple[int, ...] = ()
    """Number of tokens of each target that are the most probable ones after those before; empty if
    not reported."""
    likely_tokens: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """For each target and each of its tokens the ids of that token and of the most probable ones
    there, best first; empty unless a scorer of the probe compares them."""
    prompt: str = ""
    retrieved: tuple[str, ...] = ()
    cut_tokens: int = 0
    usage: Usage = Usage()
    steps: tuple[Step, ...] = ()

    def but(self, **changed: Any) -> Self:
        """Return a copy with some fields changed."""
        return self.model_copy(update=changed)
