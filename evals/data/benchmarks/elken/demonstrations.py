"""ELKEN's demonstrations, from the training split: for each block a question in scope and one out of it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from emend.editors.base import Demonstration
from emend.evals.data.benchmarks.demonstrations import UniqueNames, of_first_rows
from emend.evals.data.benchmarks.elken.cases import FACT_PROMPT, OPTION_PROMPT
from emend.evals.data.benchmarks.elken.rows import EventRow, LocalFact, TendencyQuestion
from emend.evals.data.benchmarks.sampling import last_drawn
from emend.memory.edit import content_id

Q = TypeVar("Q", LocalFact, TendencyQuestion)


class TestedEvents:
    """Names and questions of the run's events, with which a demonstration must share nothing.

    Args:
        events: the events of the run's split.
        occurrences: number of these events that equal one that is shown: 1 if both are of one split, else 0.
    """

    def __init__(self, events: Sequence[EventRow], occurrences: int) -> None:
        self.names = UniqueNames(((row.event, *row.questions) for row in events), occurrences)
        self._subjects = {name for row in events for name in row.subjects}
        self._questions = Counter(question for row in events for question in set(row.questions))
        self._occurrences = occurrences

    def lack(self, row: EventRow) -> bool:
        """Return True if no tested event is about the subjects of this one."""
        return self.names.has_all(row.subjects) if row.subjects else self.names.has_in(row.event)

    def lack_question(self, row: EventRow, question: LocalFact | TendencyQuestion) -> bool:
        """Return True if no tested event has the question, or one about a fact's subject or a tendency's names."""
        if self._questions[question.question] != self._occurrences:
            return False
        if isinstance(question, LocalFact):
            return self.names.has(question.subject.name)
        return not any(name in question.question for name in self._subjects - row.subjects)


def event_demonstrations(
    candidates: Sequence[EventRow], tested: Sequence[EventRow], blocks: Collection[str], seed: int = 0
) -> Iterator[Demonstration]:
    """Demonstrations from events that share no subject and no question with the tested events.

    Args:
        candidates: the events that may be shown.
        tested: those of the run's split, which may be the same.
        blocks: the blocks that are asked; free answers (`tendency_g`) have no text to show.
        seed: the run's random seed, which chooses among an event's questions.
    """
    events = TestedEvents(tested, int(candidates is tested))
    rows = (candidates[index] for index in last_drawn(range(len(candidates)), seed))
    return of_first_rows(list(_of_event(row, blocks, events, seed)) for row in rows if events.lack(row))


def _of_event(row: EventRow, blocks: Collection[str], tested: TestedEvents, seed: int) -> Iterator[Demonstration]:
    def unshared(question: LocalFact | TendencyQuestion) -> bool:
        return tested.lack_question(row, question)

    def make(kind: str, prompt: str, target: str) -> Demonstration:
        return Demonstration(kind=kind, fact=row.event, prompt=prompt, style="raw", target=target)

    facts = (("update", row.fact.qas), ("retain", row.fact.local_qas)) if "fact" in blocks else ()
    for kind, questions in facts:
        for fact in _draw(questions, unshared, seed):
            yield make(kind, FACT_PROMPT.format(question=fact.question), fact.answer.name)
    options = (("update", row.tendency.qas), ("retain", row.tendency.local_qas)) if "tendency_m" in blocks else ()
    for kind, choices in options:
        for choice in _draw(choices, unshared, seed):
            prompt = OPTION_PROMPT.format(question=choice.question, candidate=choice.candidate)
            yield make(kind, prompt, choice.answer)


def _draw(questions: Sequence[Q], fits: Callable[[Q], bool], seed: int) -> list[Q]:
    """Draw a question that fits, if any; the first would always be about what the event says, and seldom unknown."""
    fitting = [question for question in questions if fits(question)]
    return sorted(fitting, key=lambda question: content_id("shown", seed, question.question))[:1]
