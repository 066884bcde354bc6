"""Memory operations as tools: name, description, arguments, and the function that runs them."""

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, StringConstraints, create_model, model_validator

from emend.memory.edit import FrozenModel
from emend.memory.facts.fact import SHARED, Change, Provenance
from emend.memory.facts.instants import is_undated, read_instant

if TYPE_CHECKING:
    from emend.memory.facts.fact_memory import FactMemory

_INSTANTS = ("valid_from", "valid_to", "recorded_at")
# Maximum number of characters of an argument.
TEXT_LIMIT = 10_000
# Maximum number of facts in a result.
SHOWN = 50
# Words, in lower case, that models write for an omitted argument.
NOTHING = ("null", "none", "nil")


def as_text(value: Any) -> Any:
    """Return a number or boolean as JSON text, since models often send these for strings."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value) if isinstance(value, (bool, int, float)) else value


def _as_time(value: Any) -> Any:
    """Return a time as a string; empty for a word that means "none"."""
    text = as_text(value)
    return "" if isinstance(text, str) and text.strip().lower() in NOTHING else text


_FromNumber = BeforeValidator(as_text)
Text = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=TEXT_LIMIT), _FromNumber
]
Optional = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=TEXT_LIMIT), _FromNumber
]
# Without an example, which small models would copy into every call.
_TIME = "an ISO 8601 year, month, day or time"
Time = Annotated[str, BeforeValidator(_as_time), Field(description=_TIME, max_length=40)]
_Shared = Annotated[bool, Field(description="true for what concerns all users")]


class _Arguments(FrozenModel):
    """Base of the arguments of a tool; null leaves an optional one out."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {
            name: value
            for name, value in fields.items()
            if value is not None or name not in optional
        }


class _Fact(_Arguments):
    subject: Annotated[Text, Field(description="the full name of what the fact is about")]
    relation: Annotated[
        Text, Field(description="the relation in a few words, as in the message or question")
    ]


class Remember(_Fact):
    """Arguments of `remember`."""

    object: Annotated[Text, Field(description="the value of the relation")]
    valid_from: Annotated[
        Time, Field(description=f"empty, unless it was said when it began to hold: {_TIME}")
    ] = ""
    valid_to: Annotated[
        Time, Field(description=f"empty, unless it was said when it ceases to hold: {_TIME}")
    ] = ""


class Update(_Fact):
    """Arguments of `update`."""

    object: Annotated[
        Optional, Field(description="the new value; empty if the old one has only ended")
    ] = ""
    replaces: Annotated[Optional, Field(description="the old value; needed where several hold")] = (
        ""
    )
    valid_from: Annotated[
        Time, Field(description=f"empty, unless it was said when it changed: {_TIME}")
    ] = ""


class Correct(_Arguments):
    """Arguments of `correct`."""

    fact_id: Annotated[Text, Field(description="id of the wrong fact")]
    object: Annotated[Text, Field(description="the value that should have been said")]
    valid_from: Annotated[
        Time, Field(description=f"empty, unless the beginning was wrong: {_TIME}")
    ] = ""


class Retract(_Arguments):
    """Arguments of `retract`."""

    id: Annotated[Text, Field(description="id of the fact or dependency")]


class Resolve(_Arguments):
    """Arguments of `resolve`."""

    conflict_id: Annotated[Text, Field(description="id of the conflict")]
    keep: Annotated[
        tuple[Text, ...], Field(description="ids of the facts that are right", max_length=SHOWN)
    ]


class Depend(_Fact):
    """Arguments of `depend`."""

    base_subject: Annotated[Text, Field(description="what the other fact is about")]
    base_relation: Annotated[Text, Field(description="the relation of the other fact")]
    condition: Annotated[
        tuple[Text, ...],
        Field(
            description="values of the other fact for which it applies; none: any", max_length=SHOWN
        ),
    ] = ()
    value: Annotated[
        Text | None,
        Field(
            description="the value that follows, {object} being that of the other fact; null: "
            "unknown after a change"
        ),
    ] = None


class Forget(_Arguments):
    """Arguments of `forget`."""

    id: Annotated[Optional, Field(description="id of a fact or dependency; or name a subject")] = ""
    subject: Annotated[Optional, Field(description="forget all about this subject")] = ""
    relation: Annotated[Optional, Field(description="only this relation of the subject")] = ""


class LookUp(_Fact):
    """Arguments of `lookup`."""

    at: Annotated[Time, Field(description=f"empty for now, else when it shall hold: {_TIME}")] = ""


class AsOf(_Arguments):
    """Arguments of `as_of`."""

    at: Annotated[Time, Field(description=_TIME, min_length=1)]
    subject: Annotated[Text, Field(description="the full name of what the facts are about")]


class Search(_Arguments):
    """Arguments of `search`."""

    query: Annotated[
        Text, Field(description="a question or statement, with the names that it is about")
    ]
    k: Annotated[int, Field(description="maximum number of facts", ge=1, le=SHOWN)] = 5


class NoArguments(_Arguments):
    """Arguments of `conflicts`."""


class FactOperation(NamedTuple):
    """A tool: the schema of its arguments, and whether it changes the memory.

    `run` takes the memory, the arguments by name, and the provenance of a change or the user of a
    query; by default, the memory's method with the tool's name is run.
    """

    name: str
    description: str
    arguments: type[_Arguments]
    writes: bool = True
    run: Callable[..., Any] | None = None

    def schema(self, shared: bool) -> type[FrozenModel]:
        """Return the schema of the arguments; with `shared`, shared facts may be changed."""
        if not (shared and self.writes):
            return self.arguments
        return create_model(
            self.name,
            __base__=self.arguments,
            __doc__=self.arguments.__doc__,
            shared=(_Shared, False),
        )

    def call(self, memory: "FactMemory", arguments: Any, provenance: Provenance) -> str:
        """Run the operation and return its result as JSON.

        Args:
            memory: the memory.
            arguments: an instance of the class `schema`.
            provenance: user, source and time of the call.

        Raises:
            BadData: the operation is impossible; the message says why.
        """
        if getattr(arguments, "shared", False):
            provenance = provenance.model_copy(update={"user": SHARED})
        fields = {name: value for name, value in arguments if name != "shared"}
        fields |= {"provenance": provenance} if self.writes else {"user": provenance.user}
        run = partial(self.run, memory) if self.run else getattr(memory, self.name)
        return as_json(run(**fields))


def _remember(memory: "FactMemory", valid_from: str, valid_to: str, **fields: Any) -> Change:
    """State a fact, ignoring an end that is not after its start.

    Small models write the message's date as both.
    """
    impossible = bool(valid_from and valid_to) and read_instant(valid_to) <= read_instant(
        valid_from
    )
    change = memory.remember(
        valid_from=valid_from, valid_to="" if impossible else valid_to, **fields
    )
    warning = (
        f"valid_to {valid_to} is not after valid_from {valid_from} and was left out: the fact "
        "holds on. To end it, update."
    )
    return change.model_copy(update={"warning": warning}) if impossible else change


def _depend(memory: "FactMemory", base_subject: str, base_relation: str, **fields: Any) -> Change:
    return memory.depend(base=(base_subject, base_relation), **fields)


OPERATIONS = (
    FactOperation(
        "remember",
        "Remember a fact that a message states. Of relations that have one value the newest holds, "
        "of others several.",
        Remember,
        run=_remember,
    ),
    FactOperation("update", "Note that a fact has changed or, without object, has ended.", Update),
    FactOperation(
        "correct", "Put right a fact that was wrong from the beginning; find its id first.", Correct
    ),
    FactOperation(
        "retract",
        "Take back a fact, update, correction or dependency: what held before it holds again.",
        Retract,
    ),
    FactOperation("resolve", "Decide which facts of a conflict are right.", Resolve),
    FactOperation(
        "depend",
        "Note that a fact follows from another one, or becomes unknown when that changes.",
        Depend,
        run=_depend,
    ),
    FactOperation(
        "forget",
        "Erase a fact for good, because somebody asks for it. For what has only changed "
        "use update.",
        Forget,
    ),
    FactOperation(
        "lookup",
        "Look up one relation of one subject, now or at a time. Disputed facts come with all their "
        "sides.",
        LookUp,
        writes=False,
    ),
    FactOperation(
        "history",
        "All that was ever said of one relation of one subject, with its times and status.",
        _Fact,
        writes=False,
    ),
    FactOperation("as_of", "All facts about a subject that held at a time.", AsOf, writes=False),
    FactOperation(
        "search", "Find facts that hold by the words of a question.", Search, writes=False
    ),
    FactOperation(
        "conflicts", "The contradictions that wait for a decision.", NoArguments, writes=False
    ),
)


def as_json(records: Any) -> str:
    """Return at most `SHOWN` records as JSON, without empty fields and placeholder times."""
    many = records if isinstance(records, tuple) else (records,)
    fields = [
        _short(record.model_dump(mode="json", exclude_defaults=True)) for record in many[:SHOWN]
    ]
    omission = {"left_out": len(many) - SHOWN} if len(many) > SHOWN else {}
    content = {"results": fields} | omission if isinstance(records, tuple) else fields[0]
    return json.dumps(content, ensure_ascii=False)


def _is_unsaid(name: str, value: Any) -> bool:
    return name in _INSTANTS and isinstance(value, str) and is_undated(value)


def _short(value: Any, name: str = "") -> Any:
    """Shorten the instants in a record to seconds, or to the day if the time is midnight UTC."""
    if isinstance(value, dict):
        fields = ((key, field) for key, field in value.items() if not _is_unsaid(key, field))
        return {key: _short(field, key) for key, field in fields}
    if isinstance(value, list):
        return [_short(each) for each in value]
    if name in _INSTANTS and isinstance(value, str):
        return value[:10] if value[10:19] == "T00:00:00" else f"{value[:19]}Z"
    return value
