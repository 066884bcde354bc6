"""Turns and questions of a stream with their gold answers, and their JSON Lines files.

Memory systems never see the gold.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from emend.agents.judging.base import CATEGORY
from emend.evals.data.benchmarks.rows import read_text
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, MissingData, problem_of
from emend.memory.files import replace_file
from emend.memory.json_files import parse_json
from emend.memory.store.superseding import parse_time

TurnKind = Literal["", "fact", "correction", "deletion", "rule", "chatter", "injection"]
QuestionKind = Literal[
    "current",
    "historic",
    "deleted",
    "cascade",
    "absence",
    "abstention",
    "multi_hop",
    "set",
    "preference",
]
WrongReason = Literal["stale", "deleted", "other_user", "injected", "other"]
# Kinds of questions whose right answer is that the fact is unknown.
ABSTAINING = frozenset({"deleted", "absence", "abstention"})


class FactClaim(FrozenModel):
    """Gold of a turn about one fact; an `object` of None retracts the fact with its history."""

    subject: str
    relation: str
    object: str | None
    since: str = ""
    """Start of the fact's validity; the turn's date if empty."""
    corrects: bool = False
    """Whether the object corrects the current one, which then counts as never having held."""


class StreamRule(FrozenModel):
    """Gold of a turn about a derived fact.

    If `condition` is None, the derived object is found along `path` from the subject; else it is
    `object` as long as the first relation of the path has the object `condition`.
    """

    subject: str
    relation: str
    path: tuple[str, ...]
    condition: str | None = None
    object: str = ""


class _WithId(FrozenModel):
    """Base class of records whose empty id is filled from `id_fields`."""

    id_kind: ClassVar[str]
    id_fields: ClassVar[tuple[str, ...]]

    @model_validator(mode="before")
    @classmethod
    def _fill_id(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("id"):
            content = {name: values.get(name, "") for name in cls.id_fields}
            return values | {"id": content_id(cls.id_kind, content)}
        return values


class Turn(_WithId):
    """A message to an agent; an empty `id` is filled from the content."""

    id_kind = "turn"
    id_fields = ("stream", "session", "date", "user", "role", "text")

    id: str = ""
    stream: str = ""
    """Name of the stream; each stream has its own memory."""
    session: str = ""
    date: str = ""
    user: str = "user"
    """User whose memory the turn belongs to."""
    role: str = "user"
    """Speaker: `user`, `assistant`, or `document` for a text by somebody else."""
    speaker: str = ""
    """Name of the speaker if it is neither the user nor the role, as in a dialogue of two
    people.
    """
    text: str
    kind: TurnKind = ""
    claims: tuple[FactClaim, ...] = ()
    rules: tuple[StreamRule, ...] = ()

    def without_gold(self) -> "Turn":
        """Return the turn as a memory system sees it."""
        return self.model_copy(update={"kind": "", "claims": (), "rules": ()})


class WrongAnswer(FrozenModel):
    """A wrong answer, and the reason why a system may give it."""

    value: str
    why: WrongReason = "other"


class StreamQuestion(_WithId):
    """A question between two turns; an empty `id` is filled from the content and `place`."""

    id_kind = "question"
    id_fields = ("stream", "date", "user", "text", "place")

    id: str = ""
    stream: str = ""
    date: str = ""
    user: str = "user"
    text: str
    kind: QuestionKind
    gold: tuple[str, ...] = ()
    """The answer and its aliases, or all items for kind `set`; empty if the answer is unknown."""
    wrong: tuple[WrongAnswer, ...] = ()
    subject: str = ""
    path: tuple[str, ...] = ()
    """Relations that lead from the subject to the answer."""
    on: str = ""
    """Date that a historic question asks about."""
    value: str = ""
    """Object that all answers to a question of kind `set` have."""
    evidence: tuple[str, ...] = ()
    """Ids of the turns that decide the answer."""
    hops: int = Field(default=1, ge=1)
    age: int = Field(default=0, ge=0)
    """Number of turns since the last evidence turn."""
    place: int = Field(default=0, ge=0)
    """Number of turns before the question."""
    category: str = ""
    """Category of the question in its benchmark."""
    all_golds: bool = False
    """Whether the answer must contain all gold answers; see `Probe.all_golds`."""
    scorers: tuple[str, ...] = ()
    """Further scorers for the answer, as published with the benchmark."""
    rubric: tuple[str, ...] = ()
    """Statements that a right answer contains, for a judge."""
    criterion: str = ""
    """Name of the criterion by which a judge compares answers with gold."""

    @property
    def tags(self) -> dict[str, str]:
        """Labels of a record: the category, if there is one."""
        if self.category:
            return {CATEGORY: self.category}
        return {}

    @property
    def abstains(self) -> bool:
        """True if it is right to abstain, since the answer is unknown."""
        return self.kind in ABSTAINING or not self.gold

    @property
    def prompt(self) -> str:
        """The prompt for a model: the question, with its date and user if it is dated."""
        if self.date:
            return f"[{self.date}] {self.user}: {self.text}"
        return self.text

    def without_gold(self) -> "StreamQuestion":
        """Return the question as a memory system sees it, with a neutral kind."""
        return StreamQuestion(
            id=self.id,
            stream=self.stream,
            date=self.date,
            user=self.user,
            text=self.text,
            kind="current",
        )


TURN, QUESTION = "turn", "question"
REMEDY = "See docs/how-to/streams.md for the format, or make one with emend stream new."
StreamItem = Turn | StreamQuestion


class StreamSegment(NamedTuple):
    """Turns, and the questions that are asked after them and before the next turn."""

    turns: tuple[Turn, ...]
    questions: tuple[StreamQuestion, ...]


def write_stream(items: Iterable[StreamItem], path: Path) -> None:
    """Write turns and questions, in their order, to a JSON Lines file."""
    lines = []
    for item in items:
        key = TURN if isinstance(item, Turn) else QUESTION
        lines.append(f'{{"{key}": {item.model_dump_json(exclude_defaults=True)}}}\n')
    replace_file(path, "".join(lines).encode())


def read_stream(path: Path) -> list[StreamItem]:
    """Read the turns and questions of a file; each question gets the number of turns before it.

    Raises:
        MissingData: there is no such file.
        BadData: a line is neither a turn nor a question, or is repeated; a date is invalid; a
            question comes before the first turn of its stream; or the file lacks turns or
            questions. The message names the line.
    """
    if not path.is_file():
        raise MissingData(f"the stream '{path}' does not exist. {REMEDY}")
    items: list[StreamItem] = []
    ids: dict[str, int] = {}
    opened_streams = set[str]()
    turns = 0
    for number, line in enumerate(read_text(path, REMEDY).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        item = _item(line, where, turns)
        _check_item(item, where, opened_streams)
        if item.id in ids:
            raise BadData(
                f"{path}, line {number}: the same id as in line {ids[item.id]}: give "
                f"each its own. {REMEDY}"
            )
        ids[item.id] = number
        opened_streams.add(item.stream)
        turns += isinstance(item, Turn)
        items.append(item)
    if not turns:
        raise BadData(f"{path} has no turn: a stream needs turns and questions. {REMEDY}")
    if turns == len(items):
        raise BadData(f"{path} has no question: a stream needs turns and questions. {REMEDY}")
    return items


def _item(line: str, place: str, turns: int) -> StreamItem:
    fields = parse_json(line, place)
    if not (
        isinstance(fields, dict) and len(fields) == 1 and next(iter(fields)) in (TURN, QUESTION)
    ):
        hint = REMEDY
        if isinstance(fields, dict) and "role" in fields:
            hint = "Chat messages become a stream by emend data chats."
        raise BadData(f'{place}: not {{"{TURN}": ...}} or {{"{QUESTION}": ...}}. {hint}')
    ((kind, content),) = fields.items()
    if kind == TURN:
        return parse_fields(Turn, content, place, REMEDY, kind)
    if isinstance(content, dict):
        if content.get("place", turns) not in range(turns + 1):
            raise BadData(
                f"{place}, place: {content['place']!r} is not the number of turns before the "
                f"question, which is {turns}. Leave it out. {REMEDY}"
            )
        content |= {"place": turns}
    return parse_fields(StreamQuestion, content, place, REMEDY, kind)


def _check_item(item: StreamItem, where: str, opened_streams: Collection[str]) -> None:
    """Check the dates and the position of an item.

    Args:
        item: a turn or a question.
        where: file and line, for errors.
        opened_streams: streams that have had a turn.

    Raises:
        BadData: a date is invalid, or a question comes before all turns of its stream.
    """
    if isinstance(item, Turn):
        dates = [("date", item.date), *(("claims.since", claim.since) for claim in item.claims)]
    else:
        dates = [("date", item.date), ("on", item.on)]
        if item.stream not in opened_streams:
            raise BadData(
                f"{where}: a question before the first turn of its stream: put a turn before it. "
                f"{REMEDY}"
            )
    for field, date in dates:
        if date and parse_time(date) is None:
            raise BadData(
                f"{where}, {field}: '{date}' is not a date: write 2026, 2026-05, 2026-05-31 or "
                f"2026-05-31 09:00. {REMEDY}"
            )


M = TypeVar("M", bound=BaseModel)


def parse_fields(form: type[M], fields: Any, place: str, remedy: str, whole: str = "") -> M:
    """Validate fields by a pydantic model and return its instance.

    Args:
        form: the model class.
        fields: the parsed JSON.
        place: file and line, for errors.
        remedy: the last sentence of an error message.
        whole: name to use in errors that concern no single field.

    Raises:
        BadData: the fields are invalid; the message names the field.
    """
    try:
        return form.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or whole
        raise BadData(f"{place}, {field}: {problem_of(first)}. {remedy}") from error


def segments(items: Sequence[StreamItem]) -> Iterator[StreamSegment]:
    """Yield the stream in segments that end after questions; later turns are left out."""
    turns: list[Turn] = []
    for is_turn, group in groupby(items, key=lambda item: isinstance(item, Turn)):
        if is_turn:
            turns = [item for item in group if isinstance(item, Turn)]
        else:
            yield StreamSegment(
                tuple(turns), tuple(item for item in group if isinstance(item, StreamQuestion))
            )
            turns = []
