"""Turns and questions of a stream with their gold, which no memory system sees, and their files of JSON lines."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from emend.evals.data.benchmarks.rows import read_text
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, MissingData
from emend.memory.files import replace_file
from emend.memory.json_files import parse_json

TurnKind = Literal["", "fact", "correction", "deletion", "rule", "chatter", "injection"]
QuestionKind = Literal[
    "current", "historic", "deleted", "cascade", "absence", "abstention", "multi_hop", "set", "preference"
]
WrongReason = Literal["stale", "deleted", "other_user", "injected", "other"]
ABSTAINING = frozenset({"deleted", "absence", "abstention"})
"""Kinds of questions whose right answer is that it is not known."""


class FactClaim(FrozenModel):
    """Gold of a turn about one fact; an `object` of None takes the fact back, with its history."""

    subject: str
    relation: str
    object: str | None
    since: str = ""
    """Date from which it holds; empty for the turn's."""
    corrects: bool = False
    """The object takes the place of the present one, which never held."""


class StreamRule(FrozenModel):
    """Gold of a turn about a derived fact.

    With `condition` None the derived object is found along `path` from the subject; else it is `object` as long as the
    first relation of the path has the object `condition`.
    """

    subject: str
    relation: str
    path: tuple[str, ...]
    condition: str | None = None
    object: str = ""


class _WithId(FrozenModel):
    """Something with an id; an empty one is filled from `id_fields`."""

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
    """Turns of different streams belong to different memories."""
    session: str = ""
    date: str = ""
    user: str = "user"
    role: str = "user"
    """Speaker: `user`, `assistant`, or `document` for a text that somebody else wrote."""
    text: str
    kind: TurnKind = ""
    claims: tuple[FactClaim, ...] = ()
    rules: tuple[StreamRule, ...] = ()

    def without_gold(self) -> "Turn":
        """The turn as a memory system sees it."""
        return self.model_copy(update={"kind": "", "claims": (), "rules": ()})


class WrongAnswer(FrozenModel):
    """An answer that is wrong, and why somebody may give it."""

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
    """The answer and its aliases, of kind `set` all items; empty where it is not known."""
    wrong: tuple[WrongAnswer, ...] = ()
    subject: str = ""
    path: tuple[str, ...] = ()
    """Relations from the subject to the answer."""
    on: str = ""
    """Date that a historic question asks about."""
    value: str = ""
    """Object that the subjects of a question of kind `set` have."""
    evidence: tuple[str, ...] = ()
    """Ids of the turns that decide the answer."""
    hops: int = Field(default=1, ge=1)
    age: int = Field(default=0, ge=0)
    """Number of turns since the last of them."""
    place: int = Field(default=0, ge=0)
    """Number of turns before the question."""

    @property
    def abstains(self) -> bool:
        """True if the right answer is that it is not known."""
        return self.kind in ABSTAINING or not self.gold

    def without_gold(self) -> "StreamQuestion":
        """The question as a memory system sees it; its kind says nothing."""
        return StreamQuestion(
            id=self.id, stream=self.stream, date=self.date, user=self.user, text=self.text, kind="current"
        )


TURN, QUESTION = "turn", "question"
REMEDY = "See docs/how-to/streams.md for the format, or make one with emend stream new."
StreamItem = Turn | StreamQuestion


class StreamSegment(NamedTuple):
    """Turns, and the questions that are asked after them and before the next turn."""

    turns: tuple[Turn, ...]
    questions: tuple[StreamQuestion, ...]


def write_stream(items: Iterable[StreamItem], path: Path) -> None:
    """Write turns and questions in their order."""
    lines = (
        f'{{"{TURN if isinstance(item, Turn) else QUESTION}": {item.model_dump_json(exclude_defaults=True)}}}\n'
        for item in items
    )
    replace_file(path, "".join(lines).encode())


def read_stream(path: Path) -> list[StreamItem]:
    """The turns and questions of a file; each question gets the number of turns before it.

    Raises:
        MissingData: there is no such file.
        BadData: a line is neither a turn nor a question, or one comes twice; names the line.
    """
    if not path.is_file():
        raise MissingData(f"there is no stream '{path}'. {REMEDY}")
    items: list[StreamItem] = []
    ids: dict[str, int] = {}
    turns = 0
    for number, line in enumerate(read_text(path, REMEDY).split("\n"), 1):
        if not line.strip():
            continue
        item = _item(line, f"{path}, line {number}", turns)
        if item.id in ids:
            raise BadData(f"{path}, line {number}: the same id as in line {ids[item.id]}: give each its own. {REMEDY}")
        ids[item.id] = number
        turns += isinstance(item, Turn)
        items.append(item)
    if not turns or turns == len(items):
        raise BadData(f"{path} has no {'question' if turns else 'turn'}: a stream needs both. {REMEDY}")
    return items


def _item(line: str, place: str, turns: int) -> StreamItem:
    fields = parse_json(line, place)
    if not (isinstance(fields, dict) and len(fields) == 1 and next(iter(fields)) in (TURN, QUESTION)):
        raise BadData(f'{place}: not {{"{TURN}": ...}} or {{"{QUESTION}": ...}}. {REMEDY}')
    ((kind, content),) = fields.items()
    if kind == TURN:
        return parse_fields(Turn, content, place, REMEDY, kind)
    with_place = content | {"place": turns} if isinstance(content, dict) else content
    return parse_fields(StreamQuestion, with_place, place, REMEDY, kind)


M = TypeVar("M", bound=BaseModel)


def parse_fields(form: type[M], fields: Any, place: str, remedy: str, whole: str = "") -> M:
    """The fields in a form.

    Args:
        form: a model.
        fields: what was read.
        place: file and line, for errors.
        remedy: the last sentence of an error.
        whole: a name for all fields, for a fault of none of them.

    Raises:
        BadData: they are not in the form; names the field.
    """
    try:
        return form.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or whole
        raise BadData(f"{place}, {field}: {first['msg']}. {remedy}") from error


def segments(items: Sequence[StreamItem]) -> Iterator[StreamSegment]:
    """The stream divided after its questions; turns after the last question are left out."""
    turns: list[Turn] = []
    for is_turn, group in groupby(items, key=lambda item: isinstance(item, Turn)):
        if is_turn:
            turns = [item for item in group if isinstance(item, Turn)]
        else:
            yield StreamSegment(tuple(turns), tuple(item for item in group if isinstance(item, StreamQuestion)))
            turns = []
