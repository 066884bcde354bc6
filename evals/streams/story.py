"""State of a generated stream during generation, and the questions that it allows."""

import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta

from emend.evals.streams.fact_source import FactSource
from emend.evals.streams.gold import FactKey, GoldState
from emend.evals.streams.sentences.wordings import (
    EVERYTHING,
    HISTORIC,
    QuestionTarget,
    ask,
)
from emend.evals.streams.turn import (
    QuestionKind,
    StreamQuestion,
    StreamRule,
    Turn,
    WrongAnswer,
    WrongReason,
)

TRIES = 20


class KeyPool:
    """Pool of fact keys with random draws, additions and removals in constant time."""

    def __init__(self) -> None:
        self._keys: list[FactKey] = []
        self._places: dict[FactKey, int] = {}

    def add(self, key: FactKey) -> None:
        """Add a key unless it is in the pool."""
        if key not in self._places:
            self._places[key] = len(self._keys)
            self._keys.append(key)

    def discard(self, key: FactKey) -> None:
        """Remove a key if it is in the pool."""
        if (place := self._places.pop(key, None)) is not None:
            last = self._keys.pop()
            if last != key:
                self._keys[place], self._places[last] = last, place

    def draw(self, rng: random.Random) -> FactKey | None:
        """Return a random key; None if the pool is empty."""
        return rng.choice(self._keys) if self._keys else None

    def __contains__(self, key: object) -> bool:
        return key in self._places


class Story:
    """The state after the turns so far, and pools of facts that questions can be about."""

    def __init__(self) -> None:
        self.state = GoldState()
        self.numbers: dict[str, int] = {}
        """Position of each turn in the stream, by its id."""
        self.past: dict[FactKey, set[str]] = defaultdict(set)
        """All objects that a fact ever had, stated or derived."""
        self.known = KeyPool()
        self.updated = KeyPool()
        self.deleted = KeyPool()
        self.historic = KeyPool()
        self.derived = KeyPool()
        self.cascades = KeyPool()
        self.absent = KeyPool()
        self.upstream = KeyPool()
        self._relations: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._dependents: dict[FactKey, set[FactKey]] = defaultdict(set)
        self._values: dict[FactKey, str | None] = {}
        self._users: dict[tuple[str, str], set[str]] = defaultdict(set)

    def add(self, turn: Turn) -> None:
        """Update the state and the pools with one turn."""
        self.state.apply(turn)
        self.numbers[turn.id] = self.state.turns
        for rule in turn.rules:
            self._add_rule(FactKey(turn.user, rule.subject, rule.relation), rule)
        for claim in turn.claims:
            key = FactKey(turn.user, claim.subject, claim.relation)
            if claim.object is None:
                self._forget(key)
            else:
                self._learn(key, claim.object)
            self._update_dependents(key)

    def _learn(self, key: FactKey, value: str) -> None:
        self.known.add(key)
        self.deleted.discard(key)
        self._users[key.subject, key.relation].add(key.user)
        self._relations[key.user, key.subject].add(key.relation)
        if self.past[key] - {value}:
            self.updated.add(key)
        self.past[key].add(value)
        if len({entry.since for entry in self.state.histories[key]}) > 1:
            self.historic.add(key)

    def _forget(self, key: FactKey) -> None:
        for pool in (self.known, self.updated, self.historic, self.upstream):
            pool.discard(key)
        self.deleted.add(key)
        self._relations[key.user, key.subject].discard(key.relation)

    def _add_rule(self, key: FactKey, rule: StreamRule) -> None:
        self.derived.add(key)
        value = self._values[key] = self.state.value(key)
        self.past[key].update({value} if value else ())
        self._watch(key, rule)

    def _watch(self, key: FactKey, rule: StreamRule) -> None:
        """Record the facts that a derived fact depends on now."""
        subject: str | None = rule.subject
        for relation in rule.path:
            if subject is None:
                return
            step = FactKey(key.user, subject, relation)
            self._dependents[step].add(key)
            if step in self.known:
                self.upstream.add(step)
            subject = self.state.value(step)

    def _update_dependents(self, key: FactKey, depth: int = 0) -> None:
        for derived in sorted(self._dependents.get(key, ())):
            before, value = self._values[derived], self.state.value(derived)
            self._watch(derived, self.state.rules[derived][0])
            if value != before and depth < TRIES:
                self._values[derived] = value
                self.past[derived].update({value} if value else ())
                (self.absent.discard if value else self.absent.add)(derived)
                (self.cascades.add if value else self.cascades.discard)(derived)
                self._update_dependents(derived, depth + 1)

    def is_known(self, user: str, subject: str, relation: str) -> bool:
        """Return whether the user has ever stated the fact, or a rule for it."""
        key = FactKey(user, subject, relation)
        return key in self.past or key in self.state.rules

    def random_key(
        self, rng: random.Random, user: str = "", *, upstream: bool = False, derived: bool = False
    ) -> FactKey | None:
        """Return a random fact that holds, or None.

        Args:
            rng: random generator.
            user: owner of the fact; empty for any user.
            upstream: prefer a fact that a rule depends on.
            derived: draw a derived fact instead.
        """
        pools = (
            [self.derived] if derived else [self.upstream, self.known] if upstream else [self.known]
        )
        for pool in pools:
            for _ in range(TRIES):
                key = pool.draw(rng)
                if key is not None and user in ("", key.user):
                    return key
        return None

    def relations_of(self, user: str, subject: str) -> list[str]:
        """Return the relations of a subject that the user has stated and not retracted, sorted."""
        return sorted(self._relations.get((user, subject), ()))

    def values_of_others(self, key: FactKey) -> list[str]:
        """Return the objects that the fact has for other users, sorted."""
        users = self._users.get((key.subject, key.relation), set()) - {key.user}
        return sorted(
            {value for user in users if (value := self.state.value(key._replace(user=user)))}
        )

    def continues(self, user: str, key: FactKey, value: str) -> bool:
        """Return whether each rule that uses the fact can be followed further from the value."""
        rules = [self.state.rules[derived][0] for derived in self._dependents.get(key, ())]
        along = [
            rule.path[1]
            for rule in rules
            if rule.condition is None and rule.path[0] == key.relation
        ]
        return bool(along) and set(along) <= set(self.relations_of(user, value))

    def age(self, evidence: Iterable[str]) -> int:
        """Return the number of turns since the last evidence turn; 0 without evidence."""
        return self.state.turns - max(
            (self.numbers[turn] for turn in evidence), default=self.state.turns
        )


QUESTION_TRIES = 20
# Maximum number of items in the answer to a question of kind `set`.
MAX_ITEMS = 5


class QuestionPlan:
    """Generator of questions about a story.

    Args:
        story: the story so far; it grows.
        source: facts that were or may be stated.
        rng: random generator.
    """

    def __init__(self, story: Story, source: FactSource, rng: random.Random) -> None:
        self._story, self._source, self._rng = story, source, rng
        makers: dict[QuestionKind, Callable[[], QuestionTarget | None]] = {
            "current": self._current,
            "deleted": lambda: self._about(story.deleted),
            "cascade": lambda: self._about(story.cascades),
            "absence": lambda: self._about(story.absent),
            "historic": self._historic,
            "multi_hop": self._multi_hop,
            "abstention": self._never_told,
            "set": self._set,
        }
        self._makers = deque(makers.items())
        self._user = ""
        self._asked: set[tuple[str, QuestionTarget]] = set()

    def questions(self, count: int, day: str) -> Iterator[StreamQuestion]:
        """Yield at most `count` questions for a place in the stream, without repetition."""
        self._asked.clear()
        for _ in range(count):
            for _ in range(len(self._makers)):
                kind, make = self._makers[0]
                self._makers.rotate(-1)
                target = make()
                if target is not None and (self._user, target) not in self._asked:
                    self._asked.add((self._user, target))
                    yield self._question(kind, target, day)
                    break

    def _question(self, kind: QuestionKind, target: QuestionTarget, day: str) -> StreamQuestion:
        state = self._story.state
        gold, evidence = state.answer(self._user, target), state.evidence(self._user, target)
        return StreamQuestion(
            date=day,
            user=self._user,
            text=self._text(target),
            kind=kind,
            gold=gold,
            wrong=tuple(self._wrong(target, gold)),
            subject=target.subject,
            path=target.path,
            on=target.on,
            value=target.value,
            evidence=evidence,
            hops=self._hops(target),
            age=self._story.age(evidence),
            place=state.turns,
        )

    def _text(self, target: QuestionTarget) -> str:
        if target.value:
            return EVERYTHING.format(relation=target.path[0], value=target.value)
        if target.on:
            return HISTORIC.format(relation=target.path[0], subject=target.subject, date=target.on)
        return ask(target.subject, target.path)

    def _hops(self, target: QuestionTarget, depth: int = 0) -> int:
        """Return the number of stated facts along the path, including those that rules use."""
        count, subject = 0, target.subject
        for relation in target.path:
            key = FactKey(self._user, subject, relation)
            rule = self._story.state.rules.get(key)
            if rule and depth < QUESTION_TRIES:
                inner = QuestionTarget(rule[0].subject, rule[0].path)
            else:
                inner = None
            count += self._hops(inner, depth + 1) if inner else 1
            subject = self._story.state.value(key, target.on) or ""
        return max(1, count)

    def _about(self, pool: KeyPool) -> QuestionTarget | None:
        key = pool.draw(self._rng)
        if key is None:
            return None
        self._user = key.user
        return QuestionTarget(key.subject, (key.relation,))

    def _current(self) -> QuestionTarget | None:
        story = self._story
        return (self._rng.random() < 0.7 and self._about(story.updated)) or self._about(story.known)

    def _historic(self) -> QuestionTarget | None:
        key = self._story.historic.draw(self._rng)
        if key is None:
            return None
        self._user = key.user
        days = sorted({entry.since for entry in self._story.state.histories[key]})
        place = self._rng.randrange(len(days) - 1)
        first, end = (date.fromisoformat(day) for day in days[place : place + 2])
        day = first + timedelta(days=self._rng.randrange((end - first).days))
        return QuestionTarget(key.subject, (key.relation,), on=day.isoformat())

    def _multi_hop(self) -> QuestionTarget | None:
        for _ in range(QUESTION_TRIES):
            key = self._story.random_key(self._rng)
            if key is None:
                return None
            path, value = [key.relation], self._story.state.value(key)
            while (
                value and len(path) < 3 and (following := self._story.relations_of(key.user, value))
            ):
                path.append(self._rng.choice(following))
                value = self._story.state.value(FactKey(key.user, value, path[-1]))
                if len(path) == 2 and self._rng.random() < 0.6:
                    break
            if len(path) > 1:
                self._user = key.user
                return QuestionTarget(key.subject, tuple(path))
        return None

    def _never_told(self) -> QuestionTarget | None:
        """Return a fact that the user never stated, or None."""
        key = self._story.random_key(self._rng)
        self._user = key.user if key else "user"
        for _ in range(QUESTION_TRIES):
            if key and self._rng.random() < 0.5:
                near = self._source.by_subject.get(key.subject, ())
            else:
                near = ()
            fact = self._rng.choice(near or self._source.facts)
            if not self._story.is_known(self._user, fact.subject, fact.relation):
                return QuestionTarget(fact.subject, (fact.relation,))
        return None

    def _set(self) -> QuestionTarget | None:
        for _ in range(QUESTION_TRIES):
            key = self._story.random_key(self._rng)
            value = self._story.state.value(key) if key else None
            if key is None or value is None:
                return None
            self._user = key.user
            if len(self._story.state.subjects(key.user, key.relation, value)) <= MAX_ITEMS:
                return QuestionTarget("", (key.relation,), value=value)
        return None

    def _wrong(self, target: QuestionTarget, gold: Sequence[str]) -> Iterator[WrongAnswer]:
        """Yield wrong answers: former values, other users' values, and a value never stated."""
        if target.value:
            yield from self._wrong_items(target, gold)
            return
        key = self._last_key(target)
        past = self._former_values(target, key) if key else set()
        why: WrongReason = (
            "deleted" if key and key in self._story.deleted else "other" if target.on else "stale"
        )
        others = self._story.values_of_others(key) if key else []
        yield from (WrongAnswer(value=value, why=why) for value in sorted(past - {*gold}))
        yield from (
            WrongAnswer(value=value, why="other_user")
            for value in others
            if value not in {*gold, *past}
        )
        barred = [*gold, *past, *others, target.subject]
        if key and (value := self._source.other_object(key.relation, self._rng, without=barred)):
            yield WrongAnswer(value=value)

    def _former_values(self, target: QuestionTarget, key: FactKey) -> set[str]:
        """Return former objects of the last fact, and those that follow from the first one's."""
        story, first = self._story, FactKey(self._user, target.subject, target.path[0])
        former = sorted(story.past.get(first, ())) if len(target.path) > 1 else ()
        values = (story.state.follow(self._user, value, target.path[1:]) for value in former)
        return {*story.past.get(key, ()), *(value for value in values if value)}

    def _wrong_items(self, target: QuestionTarget, gold: Sequence[str]) -> Iterator[WrongAnswer]:
        former = self._story.state.former_subjects(self._user, target.path[0], target.value)
        yield from (WrongAnswer(value=each, why="stale") for each in former)
        for fact in self._rng.sample(
            self._source.facts, min(QUESTION_TRIES, len(self._source.facts))
        ):
            if fact.subject not in {*gold, *former, target.value}:
                yield WrongAnswer(value=fact.subject)
                return

    def _last_key(self, target: QuestionTarget) -> FactKey | None:
        """Return the fact at the end of the path, or None if the path is unknown."""
        subject = self._story.state.follow(self._user, target.subject, target.path[:-1])
        return None if subject is None else FactKey(self._user, subject, target.path[-1])
