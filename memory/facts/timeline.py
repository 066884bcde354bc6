"""Timeline of statements, which decides what holds when by the kind of the relation."""

from collections.abc import Iterable
from typing import NamedTuple

from emend.memory.facts.fact import fact_key
from emend.memory.relations.relation_table import RelationKind
from emend.memory.typography import fold_text


class Statement(NamedTuple):
    """A stored fact.

    Instants are in one UTC format, so that they compare as strings; empty ones are unknown.
    `number` is the position in the order of statements, and `operation` the number of the
    operation. `replaces` holds the numbers of the statements that end where this one starts.
    `erased` is the number of the operation that erased the text, or 0.
    """

    id: str
    subject: str
    relation: str
    object: str
    user: str
    source: str
    start: str
    end: str
    recorded_at: str
    operation: int
    number: int = 0
    retracted_at: str = ""
    corrects: int = 0
    replaces: tuple[int, ...] = ()
    erased: int = 0

    @property
    def key(self) -> str:
        """The key of the fact that the statement is about."""
        return fact_key(self.user, self.subject, self.relation)

    @property
    def text(self) -> str:
        """The text by which a search finds the statement."""
        return f"{self.subject} {self.relation} {self.object}"


class Timeline:
    """The statements of one user about one relation of a subject, as known at a time.

    Args:
        statements: all statements ever made about it.
        kind: the kind of the relation.
        known_at: ignore later statements and retractions; empty for no limit.
    """

    def __init__(
        self, statements: Iterable[Statement], kind: RelationKind, known_at: str = ""
    ) -> None:
        self.kind = kind
        self.known = [each for each in statements if not known_at or each.recorded_at <= known_at]
        self._retracted = {
            each.number
            for each in self.known
            if each.retracted_at and (not known_at or each.retracted_at <= known_at)
        }
        self._by_number = {each.number: each for each in self.known}
        self._corrections: dict[int, list[Statement]] = {}
        for each in self.known:
            if each.corrects:
                self._corrections.setdefault(each.corrects, []).append(each)
        live = [
            each
            for each in self.known
            if not self.is_retracted(each) and not self.is_corrected(each)
        ]
        self.live = self._occupying(live)

    def _occupying(self, live: Iterable[Statement]) -> list[Statement]:
        """Return the statements in the order of their starts, without superseded erased ones.

        An erased statement still ends what it replaced, and occupies its period unless the one that
        would hold instead was stated after the erasure.
        """
        ordered = sorted(live, key=lambda each: (each.start, each.number))
        if self.kind != "functional":
            return ordered
        occupying: list[Statement] = []
        latest = 0
        for each in ordered:
            if not each.erased:
                latest = each.operation
            elif latest > each.erased:
                continue
            occupying.append(each)
        return occupying

    def is_retracted(self, statement: Statement) -> bool:
        """Return whether the statement was retracted."""
        return statement.number in self._retracted

    def is_corrected(self, statement: Statement) -> bool:
        """Return whether a correction of the statement, or of that correction, is in force."""
        return any(
            not self.is_retracted(each) or self.is_corrected(each)
            for each in self._corrections.get(statement.number, ())
        )

    def holding(self, at: str) -> list[Statement]:
        """Return the statements that hold at an instant, oldest first, without equal objects."""
        return list({fold_text(each.object): each for each in self.standing(at)}.values())

    def standing(self, at: str) -> list[Statement]:
        """Return the statements that hold at an instant, oldest first, also of equal objects."""
        started = [each for each in self.live if each.start <= at]
        if self.kind == "functional":
            started = started[-1:]
        replaced = {number for each in started for number in each.replaces}
        return [
            each
            for each in started
            if each.object
            and not replaced.intersection(self._numbers(each))
            and (not each.end or at < each.end)
        ]

    def decides(self, at: str) -> bool:
        """Return whether anything is stated for an instant, including that nothing holds."""
        return any(each.start <= at for each in self.live)

    def end_of(self, statement: Statement) -> str:
        """Return when a statement ends, by itself or by a successor; empty if it is open."""
        key = (statement.start, statement.number)
        followers = [each for each in self.live if (each.start, each.number) > key]
        if self.kind != "functional":
            numbers = self._numbers(statement)
            followers = [each for each in followers if numbers.intersection(each.replaces)]
        ends = [statement.end, *(each.start for each in followers)]
        return min((end for end in ends if end), default="")

    def _numbers(self, statement: Statement) -> set[int]:
        """Return the numbers of the statement and of those it corrects, which end with it."""
        numbers = {statement.number}
        while corrected := self._by_number.get(statement.corrects):
            statement = corrected
            numbers.add(statement.number)
        return numbers
