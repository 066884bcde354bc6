"""Gold state of a stream: the facts that hold for a user on a date.

It is the reference for scores, and not optimised for speed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from emend.evals.streams.sentences.wordings import QuestionTarget, read_turn
from emend.evals.streams.turn import FactClaim, StreamRule, Turn

# Maximum depth of nested rules; deeper nesting is treated as a cycle.
MAX_DEPTH = 8


class HistoryEntry(NamedTuple):
    """A value of a fact: its start, position in the stream, object, and stating turns."""

    since: str
    number: int
    object: str
    turns: tuple[str, ...]


class FactKey(NamedTuple):
    """Identity of a fact: user, subject and relation."""

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
    """Histories of facts and rules, updated turn by turn.

    Args:
        read_texts: parse the turns' texts instead of using their gold, to check one against the
            other.
    """

    def __init__(self, read_texts: bool = False) -> None:
        self._reads_texts = read_texts
        self.histories: dict[FactKey, list[HistoryEntry]] = defaultdict(list)
        self.rules: dict[FactKey, tuple[StreamRule, str]] = {}
        self.deletions: dict[FactKey, str] = {}
        """The turn that retracted each fact."""
        self._subjects: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self.turns = 0

    def apply(self, turn: Turn) -> None:
        """Apply one turn; a document's text does not count as a statement of the user."""
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
        """Return the stated value of a fact, the last one or that on a date, or None."""
        return max(
            (each for each in self.histories.get(key, ()) if not on or each.since <= on),
            default=None,
        )

    def value(self, key: FactKey, on: str = "", depth: int = 0) -> str | None:
        """Return the object of a stated or derived fact; None if it is unknown."""
        if entry := self.entry(key, on):
            return entry.object
        if key not in self.rules or depth > MAX_DEPTH:
            return None
        rule = self.rules[key][0]
        if rule.condition is None:
            return self.follow(key.user, rule.subject, rule.path, on, depth + 1)
        first = FactKey(key.user, rule.subject, rule.path[0])
        return rule.object if self.value(first, on, depth + 1) == rule.condition else None

    def follow(
        self, user: str, subject: str, path: Iterable[str], on: str = "", depth: int = 0
    ) -> str | None:
        """Return the object at the end of a path of relations; None if it is unknown."""
        value: str | None = subject
        for relation in path:
            if value is None:
                return None
            value = self.value(FactKey(user, value, relation), on, depth)
        return value

    def subjects(self, user: str, relation: str, value: str) -> tuple[str, ...]:
        """Return all subjects that have the value now, sorted."""
        candidates = self._subjects.get((user, relation, value), ())
        return tuple(
            sorted(
                each for each in candidates if self.value(FactKey(user, each, relation)) == value
            )
        )

    def former_subjects(self, user: str, relation: str, value: str) -> tuple[str, ...]:
        """Return all subjects that once had the value and no longer have it, sorted."""
        return tuple(
            sorted(
                self._subjects.get((user, relation, value), set())
                - {*self.subjects(user, relation, value)}
            )
        )

    def answer(self, user: str, target: QuestionTarget) -> tuple[str, ...]:
        """Return the answer to a question, with all subjects for kind `set`; empty if unknown."""
        if target.value:
            return self.subjects(user, target.path[0], target.value)
        value = self.follow(user, target.subject, target.path, target.on)
        return () if value is None else (value,)

    def evidence(self, user: str, target: QuestionTarget) -> tuple[str, ...]:
        """Return the ids of the turns that decide the answer, in no particular order."""
        if target.value:
            keys = [
                FactKey(user, each, target.path[0])
                for each in self._subjects.get((user, target.path[0], target.value), ())
            ]
            return tuple(
                dict.fromkeys(turn for key in sorted(keys) for turn in self._turns_of(key))
            )
        turns = self._turns_along(user, target.subject, target.path, target.on)
        return tuple(dict.fromkeys(turns))

    def _turns_along(
        self, user: str, subject: str | None, path: Iterable[str], on: str = "", depth: int = 0
    ) -> Iterator[str]:
        """Yield the turns that decide the facts along a path of relations."""
        for relation in path:
            if subject is not None:
                key = FactKey(user, subject, relation)
                yield from self._turns_of(key, on, depth)
                subject = self.value(key, on)

    def _turns_of(self, key: FactKey, on: str = "", depth: int = 0) -> Iterator[str]:
        """Yield the turns that decide a fact: those that state or retract it, or its rule's."""
        if entry := self.entry(key, on):
            yield from entry.turns
        elif key in self.rules and depth <= MAX_DEPTH:
            rule, turn = self.rules[key]
            yield turn
            yield from self._turns_along(key.user, rule.subject, rule.path, on, depth + 1)
        elif key in self.deletions:
            yield self.deletions[key]

    def current(self) -> set[StateFact]:
        """Return all stated facts that hold now."""
        entries = ((key, self.entry(key)) for key in self.histories)
        return {StateFact(*key, entry.object) for key, entry in entries if entry}
