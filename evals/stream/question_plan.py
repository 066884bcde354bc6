"""Questions of a generated stream: kinds in turn, each about something that the story has."""

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta

from emend.evals.stream.gold import FactKey
from emend.evals.stream.story import FactSource, KeyPool, Story
from emend.evals.stream.turn import QuestionKind, StreamQuestion, WrongAnswer, WrongReason
from emend.evals.stream.wordings import EVERYTHING, HISTORIC, QuestionTarget, ask

TRIES = 20
MAX_ITEMS = 5
"""Number of items that the answer to a question of kind `set` has at most."""


class QuestionPlan:
    """Makes questions about a story.

    Args:
        story: so far; it grows.
        source: facts that were told or may be.
        rng: draws.
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
        """At most so many questions for a place in the stream, none twice."""
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
        """Number of stated facts along the path, those of rules included."""
        count, subject = 0, target.subject
        for relation in target.path:
            key = FactKey(self._user, subject, relation)
            rule = self._story.state.rules.get(key)
            inner = QuestionTarget(rule[0].subject, rule[0].path) if rule and depth < TRIES else None
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
        for _ in range(TRIES):
            key = self._story.random_key(self._rng)
            if key is None:
                return None
            path, value = [key.relation], self._story.state.value(key)
            while value and len(path) < 3 and (following := self._story.relations_of(key.user, value)):
                path.append(self._rng.choice(following))
                value = self._story.state.value(FactKey(key.user, value, path[-1]))
                if len(path) == 2 and self._rng.random() < 0.6:
                    break
            if len(path) > 1:
                self._user = key.user
                return QuestionTarget(key.subject, tuple(path))
        return None

    def _never_told(self) -> QuestionTarget | None:
        """A fact of a subject that the user spoke of, or of another one, that the user never told."""
        key = self._story.random_key(self._rng)
        self._user = key.user if key else "user"
        for _ in range(TRIES):
            near = self._source.by_subject.get(key.subject, ()) if key and self._rng.random() < 0.5 else ()
            fact = self._rng.choice(near or self._source.facts)
            if not self._story.is_known(self._user, fact.subject, fact.relation):
                return QuestionTarget(fact.subject, (fact.relation,))
        return None

    def _set(self) -> QuestionTarget | None:
        for _ in range(TRIES):
            key = self._story.random_key(self._rng)
            value = self._story.state.value(key) if key else None
            if key is None or value is None:
                return None
            self._user = key.user
            if len(self._story.state.subjects(key.user, key.relation, value)) <= MAX_ITEMS:
                return QuestionTarget("", (key.relation,), value=value)
        return None

    def _wrong(self, target: QuestionTarget, gold: Sequence[str]) -> Iterator[WrongAnswer]:
        """Answers that are wrong: former values, those of other users, and one that nobody gave."""
        if target.value:
            yield from self._wrong_items(target, gold)
            return
        key = self._last_key(target)
        past = self._former_values(target, key) if key else set()
        why: WrongReason = "deleted" if key and key in self._story.deleted else "other" if target.on else "stale"
        others = self._story.values_of_others(key) if key else []
        yield from (WrongAnswer(value=value, why=why) for value in sorted(past - {*gold}))
        yield from (WrongAnswer(value=value, why="other_user") for value in others if value not in {*gold, *past})
        barred = [*gold, *past, *others, target.subject]
        if key and (value := self._source.other_object(key.relation, self._rng, without=barred)):
            yield WrongAnswer(value=value)

    def _former_values(self, target: QuestionTarget, key: FactKey) -> set[str]:
        """Objects that the last fact had, or has where the first one has a former object."""
        story, first = self._story, FactKey(self._user, target.subject, target.path[0])
        former = sorted(story.past.get(first, ())) if len(target.path) > 1 else ()
        values = (story.state.follow(self._user, value, target.path[1:]) for value in former)
        return {*story.past.get(key, ()), *(value for value in values if value)}

    def _wrong_items(self, target: QuestionTarget, gold: Sequence[str]) -> Iterator[WrongAnswer]:
        former = self._story.state.former_subjects(self._user, target.path[0], target.value)
        yield from (WrongAnswer(value=each, why="stale") for each in former)
        for fact in self._rng.sample(self._source.facts, min(TRIES, len(self._source.facts))):
            if fact.subject not in {*gold, *former, target.value}:
                yield WrongAnswer(value=fact.subject)
                return

    def _last_key(self, target: QuestionTarget) -> FactKey | None:
        """The fact at the end of the path."""
        subject = self._story.state.follow(self._user, target.subject, target.path[:-1])
        return None if subject is None else FactKey(self._user, subject, target.path[-1])
