"""Schemas of the lines in a run folder, grouping of lines to units, and conversion of steps.

A run folder may be damaged or come from a stranger. A line that violates its schema is an error
with file, line and field.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cache
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import Annotated, Any, Protocol, Required, TypeVar, cast

from msgspec import Meta
from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    Tag,
    TypeAdapter,
    ValidationError,
)
from typing_extensions import TypedDict

from emend.memory.errors import BadData, problem_of
from emend.memory.json_files import parse_object
from emend.memory.probe import ModelCall, Retry, Step
from emend.memory.redaction import hide_keys

T = TypeVar("T")
# Key of a record's unit, and the number of the unit's records.
Head = tuple[str, int]


class UnitLine(Protocol):
    """A line of a unit, of any job."""

    @property
    def unit(self) -> str:
        """Key of the unit."""
        ...

    @property
    def of(self) -> int:
        """Number of the unit's lines."""
        ...


record_head: Callable[[UnitLine], Head] = attrgetter("unit", "of")
fields_head: Callable[[dict[str, Any]], Head] = itemgetter("unit", "of")


def complete_units(lines: Iterable[T | None], head: Callable[[T], Head]) -> Iterator[list[T]]:
    """Yield the lines of each complete unit: consecutive lines with the same head, as many as the
    unit has records.

    A unit whose process was killed during the write is incomplete, even if another one follows.

    Args:
        lines: lines in file order; None for anything else between them.
        head: returns the head of a line.
    """
    for key, group in groupby(lines, lambda line: None if line is None else head(line)):
        size = min(key[1], sys.maxsize) if key else 0
        while size > 0 and len(unit := cast("list[T]", list(islice(group, size)))) == size:
            yield unit


@cache
def warn_once(message: str) -> None:
    """Warn once, even if a file is read several times."""
    logging.getLogger(__name__).warning(message)


M = TypeVar("M")
RECORDS, EVENTS, ERRORS, CASES = "records.jsonl", "events.jsonl", "errors.jsonl", "cases.jsonl"
BASELINE, COSTS = "baseline.jsonl", "costs.jsonl"
# Suffixes of a scoring's files: judgements and the judges' steps.
SCORING_RECORDS, SCORING_EVENTS = f"/{RECORDS}", f"/{EVENTS}"
# Suffixes in earlier versions.
JUDGEMENTS, JUDGE_EVENTS = ".jsonl", ".events.jsonl"
# Values of `act` in the lines of `costs.jsonl` on held-out texts: under edits, and before any.
PERPLEXITY, PERPLEXITY_BEFORE = "perplexity", "perplexity before"
# Ratio of perplexity to that before the edits, above which the model counts as broken.
BROKEN_RATIO = 2.0
# Value of `act` in the lines of `costs.jsonl` about successful edits and changed neighbours.
EDIT_CHECK = "edit check"
# Value of `act` in the lines of `costs.jsonl` on turns of a stream that a memory observed.
TURNS = "turns"


def _check_date(text: str) -> str:
    datetime.fromisoformat(text)
    return text


def _check_texts(line: "PerplexityLine") -> "PerplexityLine":
    if len(line["nats"]) != len(line["tokens"]):
        raise ValueError("the numbers of nats and tokens must be equal")
    return line


Date = Annotated[str, AfterValidator(_check_date)]
UnixTime = Annotated[float, Field(ge=0, le=1e11)]
Number = FiniteFloat | None


class _Line(TypedDict, total=False):
    """A JSON object that may have more fields than the ones named."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]


class EditFields(_Line, total=False):
    """An edit of a case, with the fields that are written of it."""

    id: Required[str]
    form: Required[str]
    text: Required[str]
    subject: str | None
    target_new: str | None
    target_true: str | None


class CaseLine(_Line, total=False):
    """A line of `cases.jsonl`."""

    number: Required[NonNegativeInt]
    setting: Required[str]
    case: Required[str]
    tags: dict[str, str | int | float | bool]
    edits: Required[list[EditFields]]


class _Function(_Line, total=False):
    name: Required[str]
    arguments: Required[Any]


class _ToolCall(_Line, total=False):
    id: str | None
    function: Required[_Function]


class Message(_Line, total=False):
    """A message in OpenAI's format."""

    role: Required[str]
    content: str | list[Any] | None
    tool_calls: list[_ToolCall]


_MESSAGES = TypeAdapter(list[Message])


def _check_messages(call: ModelCall) -> ModelCall:
    _MESSAGES.validate_python([*call.messages, *([call.reply] if call.reply else [])])
    return call


class HitFields(_Line, total=False):
    """A retrieved entry."""

    edit_id: str
    score: float


class StateUpdate(_Line, total=False):
    """Fields of a node's state update that traces read."""

    hits: list[HitFields] | None
    log_probs: list[float] | None


class StepLine(_Line, total=False):
    """A step in a line of `events.jsonl` or `errors.jsonl`."""

    unit: str
    probe: str
    node: Required[str]
    place: NonNegativeInt
    after: list[int]
    at: UnixTime | None
    ms: Number
    update: StateUpdate | None
    calls: list[Annotated[ModelCall, AfterValidator(_check_messages)]]
    error: str | None


class EventLine(_Line, total=False):
    """A line of `events.jsonl`: a step, or an event of the run itself."""

    unit: str
    probe: str
    event: str


class JudgeStepLine(StepLine, total=False):
    """A step of a judge, with the items that its call judged."""

    items: Required[list[str]]
    kind: Required[str]
    judge: Required[str]
    repeat: Required[int]
    swapped: Required[bool]


class BaselineLine(_Line):
    """The identifying fields of a line of `baseline.jsonl`."""

    key: str
    probe: str


class ErrorLine(_Line, total=False):
    """A line of `errors.jsonl`."""

    unit: Required[str]
    case: Required[str]
    probe: str
    editor: Required[str]
    setting: Required[str]
    error: Required[str]
    message: Required[str]
    steps: list[StepLine]
    at: Date


class _PassLine(_Line, total=False):
    editor: Required[str]
    setting: Required[str]
    mode: Required[str]


class EditCostLine(_PassLine, total=False):
    """Cost of applying edits together."""

    edits: Required[NonNegativeInt]
    seconds: Required[Number]
    cpu_seconds: Required[Number]
    tokens: Required[int | None]
    peak_bytes: Required[int | None]
    repeat: int
    of: list[str]


class TurnCostLine(_PassLine, total=False):
    """Cost of observing the turns of a stream before some of its questions."""

    turns: Required[NonNegativeInt]
    seconds: Required[Number]
    cpu_seconds: Required[Number]
    calls: Required[NonNegativeInt]
    input_tokens: Required[NonNegativeInt]
    output_tokens: Required[NonNegativeInt]
    repeat: int
    of: list[str]


class RunCostLine(_Line, total=False):
    """Cost of one process, and how far the run was when it ended; `record_bytes` is the size of the
    records.
    """

    seconds: Required[FiniteFloat]
    cpu_seconds: Required[FiniteFloat]
    peak_bytes: Required[int | None]
    at: Date
    units: NonNegativeInt
    skipped: NonNegativeInt
    finished: NonNegativeInt
    failed: NonNegativeInt
    record_bytes: NonNegativeInt


class AbilityFields(_Line, total=False):
    """The score of a task by a metric, and those of its questions."""

    task: Required[str]
    metric: Required[str]
    score: Required[Number]
    scores: Required[list[FiniteFloat]]
    unscored: Required[str]


class _TextsLine(_Line, total=False):
    nats: Required[list[FiniteFloat]]
    tokens: Required[list[Annotated[int, Field(ge=1, le=10**7)]]]
    ability: list[AbilityFields]
    drift: FiniteFloat
    growth: FiniteFloat


class UneditedPerplexityLine(_TextsLine, total=False):
    """Likelihood of the held-out texts, and abilities, before any edit."""

    texts: Required[str]


class PerplexityLine(_TextsLine, _PassLine, total=False):
    """Likelihood of the held-out texts, and abilities, under edits."""

    edits: Required[str]
    standing: Required[NonNegativeInt]
    repeat: Required[int]
    unscored: Required[str]


class EditCheckLine(_PassLine, total=False):
    """Numbers of applied edits that succeeded, and of neighbouring prompts that changed to the new
    object.
    """

    edits: Required[str]
    standing: Required[NonNegativeInt]
    repeat: Required[int]
    checked: Required[NonNegativeInt]
    took: Required[NonNegativeInt]
    neighbours: Required[NonNegativeInt]
    turned: Required[NonNegativeInt]


class RecordHead(TypedDict):
    """Unit of a record and the number of the unit's records; other fields are validated but not
    kept.
    """

    unit: Annotated[str, Field(min_length=1), Meta(min_length=1)]  # for pydantic, and for msgspec
    of: Annotated[PositiveInt, Meta(gt=0)]


class RecordPlace(TypedDict):
    """Unit and case of a record."""

    unit: str
    case: str


class UnitPlace(TypedDict):
    """Unit of a line."""

    unit: str


class JudgementPlace(TypedDict):
    """Item of a judgement."""

    item: str


class JudgeStepPlace(TypedDict):
    """Items that the call of a judge's step judged."""

    items: list[str]


_ACTS = ("edit", TURNS, "run", PERPLEXITY, PERPLEXITY_BEFORE, EDIT_CHECK)


def _act_of(line: Any) -> str:
    act = line.get("act") if isinstance(line, dict) else None
    return act if act in _ACTS else "other"


CostLine = Annotated[
    Annotated[EditCostLine, Tag("edit")]
    | Annotated[TurnCostLine, Tag(TURNS)]
    | Annotated[RunCostLine, Tag("run")]
    | Annotated[PerplexityLine, AfterValidator(_check_texts), Tag(PERPLEXITY)]
    | Annotated[UneditedPerplexityLine, AfterValidator(_check_texts), Tag(PERPLEXITY_BEFORE)]
    | Annotated[EditCheckLine, Tag(EDIT_CHECK)]
    | Annotated[_Line, Tag("other")],
    Discriminator(_act_of),
]
SCHEMAS: dict[str, TypeAdapter[Any]] = {
    CASES: TypeAdapter(CaseLine),
    ERRORS: TypeAdapter(ErrorLine),
    BASELINE: TypeAdapter(BaselineLine),
    COSTS: TypeAdapter(CostLine),
    EVENTS: TypeAdapter(EventLine),
}
# Schema of a scoring's steps, whose file is named after it.
JUDGE_STEPS = TypeAdapter(JudgeStepLine)


def parser_of(schema: TypeAdapter[M]) -> Callable[[bytes, str], M]:
    """Return a function that parses one line and raises BadData with `where` and the field.

    Lone surrogates in older files are replaced.
    """
    # avoids the arguments that `TypeAdapter` passes for each line
    validate = schema.validator.validate_json

    def parse(line: bytes, where: str) -> M:
        try:
            return validate(line)  # type: ignore[no-any-return]
        except ValidationError:
            fields = parse_object(line, where)
        try:
            return schema.validate_python(fields)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "the whole line"
            unknown = "unknown; a newer version of Emend may have written it"
            problem = unknown if first["type"] == "extra_forbidden" else problem_of(first)
            raise BadData(f"{where}, field {field}: {problem}.") from error

    return parse


# Value of `v` in a line of `events.jsonl`; older lines have no `v`, no `place` and no `calls`.
VERSION = 1


def event_of(step: Step) -> dict[str, Any]:
    """Format a step as a line; fields of calls with default values are omitted."""
    return {
        "v": VERSION,
        "node": step.node,
        "place": step.place,
        "after": list(step.after),
        "at": round(step.at, 6),
        "ms": round(step.ms, 3),
        "update": step.update,
        "calls": [call.model_dump(mode="json", exclude_defaults=True) for call in step.calls],
        "error": step.error and hide_keys(step.error),
    }


def steps_from_events(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the steps of one probe from its lines, with the `messages` and `reply` of each call
    filled in.

    A text that a call shares with the state is stored only in the state, see `ModelCall`; the state
    before a step results from the updates of the previous steps.
    """
    state: dict[str, Any] = {}
    for event in events:
        place = event.get("place", 0)
        after = event.get("after", [place - 1] if place > 1 else [])  # older runs: in a line
        update = event.get("update") or {}
        calls = [
            _with_texts(ModelCall.model_validate(call), state, update)
            for call in event.get("calls", ())
        ]
        fields = {name: event.get(name) for name in ("node", "ms", "update", "error", "at")}
        yield {
            **fields,
            "place": place,
            "after": after,
            "calls": [call.model_dump(mode="json") for call in calls],
        }
        state |= update


def _with_texts(call: ModelCall, before: dict[str, Any], after: dict[str, Any]) -> ModelCall:
    changed: dict[str, Any] = {}
    if call.messages_field:
        text = before.get(call.messages_field, after.get(call.messages_field, ""))
        changed["messages"] = (
            tuple(text) if isinstance(text, list) else ({"role": "user", "content": text},)
        )
    if call.reply_field:
        changed["reply"] = {"role": "assistant", "content": after.get(call.reply_field, "")}
    return call.model_copy(update=changed) if changed else call


def retries_of(step: dict[str, Any]) -> list[Retry]:
    """Return the failed attempts of a step's calls that were retried."""
    return [Retry.model_validate(retry) for call in step["calls"] for retry in call["retries"]]


def split_passes(steps: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Split steps by pass through the graph: a probe that needs a text and probabilities passes
    twice.
    """
    passes: list[list[dict[str, Any]]] = []
    for step in steps:
        if not passes or 0 < step["place"] <= passes[-1][-1]["place"]:
            passes.append([])
        passes[-1].append(step)
    return passes
