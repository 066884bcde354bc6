"""Decoder for Wikidata items in dumps and in replies of `wbgetentities`, limited to the fields that
updates need.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple, Self

import msgspec
from msgspec import Struct, field

from emend.memory.errors import BadSettings

# Wikidata's precision codes of times; 7 is a century, and 0 a billion years.
DAY, MONTH, YEAR, DECADE = 11, 10, 9, 8
_TIME = re.compile(r"([+-]\d{1,16})-(\d\d)-(\d\d)T")
# Wikidata's language code for labels valid in all languages, which newer items have instead of one
# per language.
ANY_LANGUAGE = "mul"
_LANGUAGE = re.compile(r"[a-z]{2,12}(-[a-z]{2,12})*")
_Day = tuple[int, int, int]
_ITEM = re.compile(r"Q[1-9][0-9]{0,17}")


class WikiDate(NamedTuple):
    """Time span from first to last day, each as (year, month, day); years BC are negative."""

    first: _Day
    last: _Day
    precision: int

    @classmethod
    def parse(cls, time: str, precision: int) -> Self | None:
        """Parse a time such as `+2022-10-25T00:00:00Z`; return None if it has another form.

        Components finer than the precision are ignored, since they may be zero or arbitrary.
        """
        match = _TIME.match(time)
        if not match or precision < 0:
            return None
        year, month, day = (int(part) for part in match.groups())
        if precision < YEAR:
            span = 10 ** (YEAR - precision)
            year -= year % span
            # the 20th century may be written as 2000 or as 1901
            before = 0 if precision == DECADE else span
            return cls((year - before, 1, 1), (year + span - 1, 12, 31), precision)
        if precision == YEAR or not 1 <= month <= 12:
            return cls((year, 1, 1), (year, 12, 31), YEAR)
        if precision == MONTH or not 1 <= day <= 31:
            return cls((year, month, 1), (year, month, 31), MONTH)
        return cls((year, month, day), (year, month, day), DAY)

    @property
    def iso(self) -> str | None:
        """Date in ISO 8601 with its known components: `2022-10-25`, `2022-10` or `2022`.

        None for decades and coarser precisions, and for years outside 0 to 9999, which ISO 8601
        allows only by agreement.
        """
        year, month, day = self.first
        if self.precision < YEAR or not 0 <= year <= 9999:
            return None
        return (
            f"{year:04}"
            + f"-{month:02}" * (self.precision >= MONTH)
            + f"-{day:02}" * (self.precision >= DAY)
        )

    def precedes(self, day: date) -> bool:
        """Return whether the whole span is before a day."""
        return self.last < (day.year, day.month, day.day)

    def follows(self, day: date) -> bool:
        """Return whether the whole span is on or after a day."""
        return self.first >= (day.year, day.month, day.day)


class _Value(Struct, gc=False):
    id: str | None = None
    time: str = ""
    precision: float | None = None


class _DataValue(Struct, gc=False):
    value: _Value | str | float


class _Snak(Struct, gc=False):
    snaktype: str
    datavalue: _DataValue | None = None

    @property
    def value(self) -> _Value | None:
        """Value, if it is an item or a time."""
        value = self.datavalue.value if self.datavalue and self.snaktype == VALUE else None
        return value if isinstance(value, _Value) else None

    @property
    def item(self) -> str | None:
        """Id of the item; None if the value is not an item."""
        value = self.value
        return value.id if value and value.id and is_item_id(value.id) else None

    @property
    def date(self) -> WikiDate | None:
        """Date; None if the value is not a time."""
        value = self.value
        if value and value.precision is not None:
            return WikiDate.parse(value.time, int(value.precision))
        return None


class _Qualifiers(Struct, gc=False):
    starts: list[_Snak] = field(name="P580", default_factory=list)
    ends: list[_Snak] = field(name="P582", default_factory=list)
    successors: list[_Snak] = field(name="P1366", default_factory=list)


class _Statement(Struct, gc=False):
    mainsnak: _Snak
    rank: str = "normal"
    qualifiers: _Qualifiers | list[Any] = field(default_factory=list)


class _Text(Struct, gc=False):
    value: str


class _Sitelink(Struct, gc=False):
    title: str


class _Redirect(Struct, gc=False):
    from_: str = field(name="from")


# Wikidata's snak types.
VALUE, UNKNOWN, NONE = "value", "somevalue", "novalue"
DEPRECATED, PREFERRED = "deprecated", "preferred"


class TimedStatement(NamedTuple):
    """Object of a subject and relation with the period in which it is valid."""

    kind: str
    object: str | None
    """Id of the item; None if the kind is not `VALUE` or the value is not an item."""
    rank: str = "normal"
    start: WikiDate | None = None
    end: WikiDate | None = None
    has_end: bool = False
    """True if the statement has ended, perhaps on an unknown day."""
    replaced_by: tuple[str, ...] = ()


class WikiItem(NamedTuple):
    """Wikidata item: label and aliases in one language, the title of its page in that Wikipedia,
    and its statements by relation.
    """

    id: str
    label: str = ""
    aliases: tuple[str, ...] = ()
    page: str = ""
    statements: Mapping[str, tuple[TimedStatement, ...]] = {}
    former_id: str = ""
    """Requested id, if that item was merged into this one."""


class EntityDecoder:
    """Decoder of items that skips unneeded fields without building objects for them.

    Args:
        relations: ids of the properties whose statements are read.
        language: language of labels, aliases and pages.

    Raises:
        BadSettings: the language is not a language code of Wikidata.
    """

    def __init__(self, relations: Iterable[str], language: str) -> None:
        self.relations, self.language = tuple(relations), check_language(language)
        self.site = f"{language.replace('-', '_')}wiki"
        """Wikidata's site id of the language's Wikipedia, such as `enwiki`."""

    def __reduce__(self) -> tuple[type, tuple[tuple[str, ...], str]]:
        return EntityDecoder, (self.relations, self.language)

    def decode(self, line: bytes) -> WikiItem | None:
        """Return the item of a line; None for a property, lexeme or redirect.

        Raises:
            ValueError: the line is not JSON, or has an unexpected structure.
        """
        try:
            return self._item(self._lines.decode(line))
        except RecursionError as error:
            raise ValueError("the JSON is nested too deeply") from error

    def decode_reply(self, content: bytes) -> list[WikiItem]:
        """Return the items of a reply of `wbgetentities`.

        Raises:
            ValueError: the reply is not JSON, or has an unexpected structure.
        """
        try:
            entities = self._replies.decode(content).entities
        except RecursionError as error:
            raise ValueError("the JSON is nested too deeply") from error
        items = (
            self._item(entity)
            for entity in (entities.values() if isinstance(entities, dict) else ())
        )
        return [item for item in items if item]

    @cached_property
    def _entity(self) -> type[Struct]:
        """Struct type of an entity; lists are allowed, since PHP writes an empty object as `[]`."""
        text, texts = _Text | None, list[_Text]
        languages = {"local": self.language, "common": ANY_LANGUAGE}
        labels = msgspec.defstruct(
            "_Labels", [("local", text, None), ("common", text, None)], rename=languages, gc=False
        )
        aliases = msgspec.defstruct(
            "_Aliases", [("local", texts, []), ("common", texts, [])], rename=languages
        )
        page = [("page", _Sitelink | None, None)]
        sitelinks = msgspec.defstruct("_Sitelinks", page, rename={"page": self.site}, gc=False)
        claims = msgspec.defstruct(
            "_Claims", [(relation, list[_Statement], []) for relation in self.relations]
        )
        parts = {"labels": labels, "aliases": aliases, "sitelinks": sitelinks, "claims": claims}
        fields: list[Any] = [(name, form | list[Any], []) for name, form in parts.items()]
        heads = [
            ("type", str, "item"),
            ("id", str, ""),
            ("missing", Any, None),
            ("redirects", _Redirect | None, None),
        ]
        return msgspec.defstruct("_Entity", [*heads, *fields])

    @cached_property
    def _lines(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self._entity)

    @cached_property
    def _replies(self) -> msgspec.json.Decoder[Any]:
        entities: Any = dict[str, self._entity] | list[Any]  # type: ignore[name-defined]
        return msgspec.json.Decoder(msgspec.defstruct("_Reply", [("entities", entities)]))

    def _item(self, entity: Any) -> WikiItem | None:
        if entity.type != "item" or not is_item_id(entity.id) or entity.missing is not None:
            return None
        labels, page = _named_texts(entity.labels), getattr(entity.sitelinks, "page", None)
        aliases = dict.fromkeys(
            text for part in _named_texts(entity.aliases) for text in _plain(part)
        )
        label = next((text for part in labels for text in _plain([part] if part else [])), "")
        aliases.pop(label, None)
        return WikiItem(
            id=entity.id,
            label=label,
            aliases=tuple(aliases),
            page=page.title if page else "",
            statements={
                name: group
                for name in self.relations
                if (group := _statements(entity.claims, name))
            },
            former_id=entity.redirects.from_ if entity.redirects else "",
        )


def check_language(language: str) -> str:
    """Return the language if it is a valid language code.

    Raises:
        BadSettings: the language is not a language code.
    """
    if not _LANGUAGE.fullmatch(language) or language == ANY_LANGUAGE:
        raise BadSettings(f"'{language}' is not a language code: give one such as en, de or pt-br.")
    return language


def is_item_id(text: str) -> bool:
    """Return whether a text is an item id, such as Q145."""
    return bool(_ITEM.fullmatch(text))


def _named_texts(texts: Any) -> tuple[Any, ...]:
    return () if isinstance(texts, list) else (texts.local, texts.common)


def _plain(texts: Iterable[_Text]) -> Iterable[str]:
    """Yield non-empty texts with normalised white space, since labels are typed by volunteers."""
    return (plain for text in texts if (plain := " ".join(text.value.split())))


def _statements(claims: Any, relation: str) -> tuple[TimedStatement, ...]:
    return tuple(_timed(statement) for statement in getattr(claims, relation, ()))


def _timed(statement: _Statement) -> TimedStatement:
    snak, qualifiers = statement.mainsnak, statement.qualifiers
    if not isinstance(qualifiers, _Qualifiers):
        return TimedStatement(snak.snaktype, snak.item, statement.rank)
    return TimedStatement(
        kind=snak.snaktype,
        object=snak.item,
        rank=statement.rank,
        start=_latest(qualifiers.starts),
        end=_latest(qualifiers.ends),
        has_end=any(end.snaktype != NONE for end in qualifiers.ends),
        replaced_by=tuple(item for successor in qualifiers.successors if (item := successor.item)),
    )


def _latest(snaks: list[_Snak]) -> WikiDate | None:
    """Return the latest date; a statement has several starts if, say, an office was held twice."""
    return max((date for snak in snaks if (date := snak.date)), default=None)
