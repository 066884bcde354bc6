"""Turns and questions of a stream, with the gold that scores need and no memory system sees."""

from typing import Any, Literal

from pydantic import Field, model_validator

from emend.memory.edit import FrozenModel, content_id

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


class Turn(FrozenModel):
    """A message to an agent; an empty `id` is filled from the content."""

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

    @model_validator(mode="before")
    @classmethod
    def _fill_id(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("id"):
            content = {name: values.get(name, "") for name in ("stream", "session", "date", "user", "role", "text")}
            return values | {"id": content_id("turn", content)}
        return values

    def without_gold(self) -> "Turn":
        """The turn as a memory system sees it."""
        return self.model_copy(update={"kind": "", "claims": (), "rules": ()})


class WrongAnswer(FrozenModel):
    """An answer that is wrong, and why somebody may give it."""

    value: str
    why: WrongReason = "other"


class StreamQuestion(FrozenModel):
    """A question between two turns; an empty `id` is filled from the content and `place`."""

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

    @model_validator(mode="before")
    @classmethod
    def _fill_id(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("id"):
            content = {name: values.get(name, "") for name in ("stream", "date", "user", "text", "place")}
            return values | {"id": content_id("question", content)}
        return values

    @property
    def abstains(self) -> bool:
        """True if the right answer is that it is not known."""
        return self.kind in ABSTAINING or not self.gold

    def without_gold(self) -> "StreamQuestion":
        """The question as a memory system sees it; its kind says nothing."""
        return StreamQuestion(
            id=self.id, stream=self.stream, date=self.date, user=self.user, text=self.text, kind="current"
        )
