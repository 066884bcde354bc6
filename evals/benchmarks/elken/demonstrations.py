"""ELKEN's demonstrations, out of the training split: for each block a question in scope and one out of it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from emend.editors.base import Demonstration
from emend.evals.benchmarks.demonstrations import Names, gathered, last_drawn
from emend.evals.benchmarks.elken.rows import FACT_PROMPT, OPTION_PROMPT, EventRow, LocalFact, TendencyQuestion
from emend.memory.edit import content_id

Q = TypeVar("Q", LocalFact, TendencyQuestion)


class _Tested(NamedTuple):
    """What the events of the run name and ask; `own` is how often an event that is shown is among them."""

    names: Names
    subjects: frozenset[str]
    questions: Counter[str]
    own: int

    def lack(self, row: EventRow) -> bool:
        """Whether no other event tells of whom this one tells."""
        subjects = _subjects(row)
        return all(map(self.names.alone, subjects)) if subjects else self.names.alone_in(row.event)

    def fresh(self, row: EventRow, question: LocalFact | TendencyQuestion) -> bool:
        """Whether no other event asks it, nor of the subject of a fact or of anyone whom a tendency names."""
        if self.questions[question.question] != self.own:
            return False
        if isinstance(question, LocalFact):
            return self.names.alone(question.subject.name)
        return not any(name in question.question for name in self.subjects - _subjects(row))


def event_examples(
    shown: Sequence[EventRow], tested: Sequence[EventRow], blocks: Collection[str], seed: int = 0
) -> Iterator[Demonstration]:
    """Those of events that share no subject and no question with the events tested.

    Args:
        shown: the events that may be shown.
        tested: those of the run's split, which may be the same.
        blocks: which are asked; free answers (`tendency_g`) have no text to show.
        seed: the run's, which chooses among an event's questions.
    """
    own = int(shown is tested)
    asked = Counter(question for row in tested for question in set(_questions(row)))
    subjects = frozenset(name for row in tested for name in _subjects(row))
    known = _Tested(Names(map(_texts, tested), own), subjects, asked, own)
    fitting = (place for place in last_drawn(range(len(shown)), lambda place: place, seed) if known.lack(shown[place]))
    return gathered(list(_examples(shown[place], blocks, known, seed)) for place in fitting)


def _examples(row: EventRow, blocks: Collection[str], tested: _Tested, seed: int) -> Iterator[Demonstration]:
    fits = partial(tested.fresh, row)

    def made(kind: str, prompt: str, target: str) -> Demonstration:
        return Demonstration(kind=kind, fact=row.event, prompt=prompt, style="raw", target=target)

    facts = (("update", row.fact.qas), ("retain", row.fact.local_qas)) if "fact" in blocks else ()
    for kind, questions in facts:
        for fact in _one(questions, fits, seed):
            yield made(kind, FACT_PROMPT.format(question=fact.question), fact.answer.name)
    options = (("update", row.tendency.qas), ("retain", row.tendency.local_qas)) if "tendency_m" in blocks else ()
    for kind, choices in options:
        for one in _one(choices, fits, seed):
            yield made(kind, OPTION_PROMPT.format(question=one.question, candidate=one.candidate), one.answer)


def _one(questions: Sequence[Q], fits: Callable[[Q], bool], seed: int) -> list[Q]:
    """Any one that fits: the first is always of what the event says, and seldom unknown."""
    fitting = [question for question in questions if fits(question)]
    return sorted(fitting, key=lambda question: content_id("shown", seed, question.question))[:1]


def _subjects(row: EventRow) -> set[str]:
    """Whom an event's questions in scope are about."""
    return {name for question in row.fact.qas if (name := question.subject.name.strip())}


def _questions(row: EventRow) -> Iterator[str]:
    parts: tuple[Iterable[LocalFact | TendencyQuestion], ...] = (
        row.fact.qas,
        row.fact.local_qas,
        row.tendency.qas,
        row.tendency.local_qas,
    )
    return (question.question for part in parts for question in part)


def _texts(row: EventRow) -> Iterator[str]:
    yield row.event
    yield from _questions(row)
