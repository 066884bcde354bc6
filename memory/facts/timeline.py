"""The rule that decides what holds when, by the kind of the relation."""

from collections.abc import Iterable
from typing import NamedTuple

from emend.memory.facts.fact import fact_key
from emend.memory.relations.relation_table import RelationKind
from emend.memory.typography import fold_text


class Statement(NamedTuple):
    """A stored fact. Instants are in UTC and of one form, so that they compare as texts; empty ones are unknown.

    `number` is the order in which statements were made, and `operation` that of the operations. `replaces` are the
    numbers of statements that end where this one starts. `erased` is the operation that erased its text, or 0.
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
        """The key of the fact that it is about."""
        return fact_key(self.user, self.subject, self.relation)

    @property
    def text(self) -> str:
        """The text by which it is found."""
        return f"{self.subject} {self.relation} {self.object}"


class Timeline:
    """The statements of one user about one relation of one subject, as they were known at a time.

    Args:
        statements: all that were ever made.
        kind: the kind of the relation.
        known_at: later statements and retractions are left out; empty for none.
    """

    def __init__(self, statements: Iterable[Statement], kind: RelationKind, known_at: str = "") -> None:
        self.kind = kind
        self.known = [each for each in statements if not known_at or each.recorded_at <= known_at]
        self._retracted = {
            each.number for each in self.known if each.retracted_at and (not known_at or each.retracted_at <= known_at)
        }
        self._by_number = {each.number: each for each in self.known}
        self._corrections: dict[int, list[Statement]] = {}
        for each in self.known:
            if each.corrects:
                self._corrections.setdefault(each.corrects, []).append(each)
        live = [each for each in self.known if not self.is_retracted(each) and not self.is_corrected(each)]
        latest = max((each.operation for each in live if not each.erased), default=0)
        # The place of an erased statement stays empty, unless something was said about it later.
        present = (each for each in live if not each.erased or each.erased > latest)
        self.live = sorted(present, key=lambda each: (each.start, each.number))

    def is_retracted(self, statement: Statement) -> bool:
        """Return whether the statement was taken back."""
        return statement.number in self._retracted

    def is_corrected(self, statement: Statement) -> bool:
        """Return whether a correction stands in its place, or the correction of one."""
        return any(
            not self.is_retracted(each) or self.is_corrected(each)
            for each in self._corrections.get(statement.number, ())
        )

    def holding(self, at: str) -> list[Statement]:
        """The statements that hold at an instant, oldest first; of equal objects the latest."""
        return list({fold_text(each.object): each for each in self.standing(at)}.values())

    def standing(self, at: str) -> list[Statement]:
        """The statements that hold at an instant, oldest first, those of equal objects too."""
        started = [each for each in self.live if each.start <= at]
        if self.kind == "functional":
            started = started[-1:]
        replaced = {number for each in started for number in each.replaces}
        return [
            each
            for each in started
            if each.object and not replaced.intersection(self._numbers(each)) and (not each.end or at < each.end)
        ]

    def decides(self, at: str) -> bool:
        """Return whether anything was said that bears on an instant, be it that nothing holds."""
        return any(each.start <= at for each in self.live)

    def end_of(self, statement: Statement) -> str:
        """The instant at which a statement ceases to hold: its own end, or the start of what follows; empty if open."""
        key = (statement.start, statement.number)
        followers = [each for each in self.live if (each.start, each.number) > key]
        if self.kind != "functional":
            numbers = self._numbers(statement)
            followers = [each for each in followers if numbers.intersection(each.replaces)]
        ends = [statement.end, *(each.start for each in followers)]
        return min((end for end in ends if end), default="")

    def _numbers(self, statement: Statement) -> set[int]:
        """The statement's number, and those of what it corrects, whose end is its own."""
        numbers = {statement.number}
        while corrected := self._by_number.get(statement.corrects):
            statement = corrected
            numbers.add(statement.number)
        return numbers
