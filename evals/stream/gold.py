"""The state of a stream by its gold: what holds for a user on a date. It is a reference for scores, and not fast."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from emend.evals.stream.turn import FactClaim, StreamRule, Turn
from emend.evals.stream.wordings import QuestionTarget, read_turn

MAX_DEPTH = 8
"""Rules that are applied on one another; more are a circle."""


class HistoryEntry(NamedTuple):
    """A value of a fact: from when it holds, its number in the stream, the object, and the turns that state it."""

    since: str
    number: int
    object: str
    turns: tuple[str, ...]


class FactKey(NamedTuple):
    """A fact of one user."""

    user: str
    subject: str
    relation: str


class StateFact(NamedTuple):
    """A fact that holds for a user."""

    user: str
    subject: str
    relation: str
    object: str


class GoldState:
    """Histories of facts and the rules, turn by turn.

    Args:
        read_texts: read the turns' texts in place of their gold, to check one by the other.
    """

    def __init__(self, read_texts: bool = False) -> None:
        self._reads_texts = read_texts
        self.histories: dict[FactKey, list[HistoryEntry]] = defaultdict(list)
        self.rules: dict[FactKey, tuple[StreamRule, str]] = {}
        self.deletions: dict[FactKey, str] = {}
        """By fact, the turn that took it back."""
        self._subjects: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self.turns = 0

    def apply(self, turn: Turn) -> None:
        """Take one turn into account; what a document says is no statement of the user's."""
        self.turns += 1
        if turn.role == "document":
            return
        gold: tuple[FactClaim | StreamRule, ...] = (*turn.claims, *turn.rules)
        for each in read_turn(turn.text) if self._reads_texts else gold:
            key = FactKey(turn.user, each.subject, each.relation)
            if isinstance(each, StreamRule):
                self.rules[key] = each, turn.id
            else:
                self._apply_claim(key, each, turn)

    def _apply_claim(self, key: FactKey, claim: FactClaim, turn: Turn) -> None:
        history = self.histories[key]
        if claim.object is None:
            history.clear()
            self.deletions[key] = turn.id
            return
        self.deletions.pop(key, None)
        entry = HistoryEntry(claim.since or turn.date, self.turns, claim.object, (turn.id,))
        if claim.corrects and history:
            corrected = max(history)
            entry = entry._replace(since=corrected.since, turns=(*corrected.turns, turn.id))
            history.remove(corrected)
        history.append(entry)
        self._subjects[key.user, key.relation, claim.object].add(key.subject)

    def entry(self, key: FactKey, on: str = "") -> HistoryEntry | None:
        """The value that is stated of a fact, the last one or that of a date."""
        return max((each for each in self.histories.get(key, ()) if not on or each.since <= on), default=None)

    def value(self, key: FactKey, on: str = "", depth: int = 0) -> str | None:
        """The object of a fact that is stated or derived; None where it is not known."""
        if entry := self.entry(key, on):
            return entry.object
        if key not in self.rules or depth > MAX_DEPTH:
            return None
        rule = self.rules[key][0]
        if rule.condition is None:
            return self.follow(key.user, rule.subject, rule.path, on, depth + 1)
        first = FactKey(key.user, rule.subject, rule.path[0])
        return rule.object if self.value(first, on, depth + 1) == rule.condition else None

    def follow(self, user: str, subject: str, path: Iterable[str], on: str = "", depth: int = 0) -> str | None:
        """The object at the end of a path of relations; None where a part is not known."""
        value: str | None = subject
        for relation in path:
            if value is None:
                return None
            value = self.value(FactKey(user, value, relation), on, depth)
        return value

    def subjects(self, user: str, relation: str, value: str) -> tuple[str, ...]:
        """All subjects that have the value now, sorted."""
        candidates = self._subjects.get((user, relation, value), ())
        return tuple(sorted(each for each in candidates if self.value(FactKey(user, each, relation)) == value))

    def former_subjects(self, user: str, relation: str, value: str) -> tuple[str, ...]:
        """All subjects that once had the value, and have it no longer, sorted."""
        return tuple(
            sorted(self._subjects.get((user, relation, value), set()) - {*self.subjects(user, relation, value)})
        )

    def answer(self, user: str, target: QuestionTarget) -> tuple[str, ...]:
        """The answer to a question, of one about several subjects all of them; empty where it is not known."""
        if target.value:
            return self.subjects(user, target.path[0], target.value)
        value = self.follow(user, target.subject, target.path, target.on)
        return () if value is None else (value,)

    def evidence(self, user: str, target: QuestionTarget) -> tuple[str, ...]:
        """Ids of the turns that decide the answer, in no order."""
        if target.value:
            keys = [
                FactKey(user, each, target.path[0])
                for each in self._subjects.get((user, target.path[0], target.value), ())
            ]
            return tuple(dict.fromkeys(turn for key in sorted(keys) for turn in self._turns_of(key)))
        turns = self._turns_along(user, target.subject, target.path, target.on)
        return tuple(dict.fromkeys(turns))

    def _turns_along(
        self, user: str, subject: str | None, path: Iterable[str], on: str = "", depth: int = 0
    ) -> Iterator[str]:
        """Turns that decide the facts along a path of relations, as far as it is known."""
        for relation in path:
            if subject is not None:
                key = FactKey(user, subject, relation)
                yield from self._turns_of(key, on, depth)
                subject = self.value(key, on)

    def _turns_of(self, key: FactKey, on: str = "", depth: int = 0) -> Iterator[str]:
        """Turns that decide one fact: the one that states it or takes it back, or a rule with those that it needs."""
        if entry := self.entry(key, on):
            yield from entry.turns
        elif key in self.rules and depth <= MAX_DEPTH:
            rule, turn = self.rules[key]
            yield turn
            yield from self._turns_along(key.user, rule.subject, rule.path, on, depth + 1)
        elif key in self.deletions:
            yield self.deletions[key]

    def current(self) -> set[StateFact]:
        """All stated facts that hold now."""
        entries = ((key, self.entry(key)) for key in self.histories)
        return {StateFact(*key, entry.object) for key, entry in entries if entry}
