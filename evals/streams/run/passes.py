"""A pass of a memory system over a stream, which observes turns and asks questions."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from emend.agents.calls import record_calls
from emend.agents.providers.journal import UnitCalls, calls_scope
from emend.agents.providers.repetition import repetition
from emend.editors.cost import Meter
from emend.evals.evaluate.edit_groups import TRANSIENT
from emend.evals.jobs.failures import FATAL, Stopped
from emend.evals.jobs.job import JobContext
from emend.evals.log.lines import TURNS
from emend.evals.streams.run.answers import AnsweredQuestion
from emend.evals.streams.run.line import MODE, StoreMeasure
from emend.evals.streams.run.session import StreamSession
from emend.evals.streams.run.setup import StreamPass, StreamSetup
from emend.evals.streams.run.source import StreamPlace
from emend.evals.streams.run.store import StoreMeter
from emend.evals.streams.system import HasUsage
from emend.evals.streams.turn import StreamQuestion
from emend.memory.edit import content_id
from emend.memory.probe import Usage
from emend.memory.steps import usage_of_calls

# Maximum number of ids in a line of `costs.jsonl`.
MAX_COST_IDS = 100


class Observation(NamedTuple):
    """Cost of observing the turns of a place: model usage, seconds and processor seconds."""

    usage: Usage
    seconds: float
    cpu_seconds: float


class PlaceAnswers(NamedTuple):
    """The answers at a place, and the measures of the store after its turns."""

    answers: list[AnsweredQuestion]
    store: StoreMeasure


class PassSession:
    """State that is shared by the consecutive units of a pass.

    Args:
        setup: set-up of the run.
        stream_pass: the pass.
        memory: the system with the turns so far.
        context: context of the job.
    """

    def __init__(
        self,
        setup: StreamSetup,
        stream_pass: StreamPass,
        memory: StreamSession,
        context: JobContext,
    ) -> None:
        self._setup, self._pass, self._memory = setup, stream_pass, memory
        self._context = context
        self._meter = StoreMeter(memory)
        journal, labels = context.journal, pass_labels(stream_pass)
        self._calls = None if journal is None else UnitCalls(journal, content_id("turns", labels))
        """Journal of the calls made while observing turns: a later process observes all turns again
        from it, without paying again.
        """
        self.failures = 0
        """Number of failed places."""
        self._interruption: Exception | None = None
        """The error that stopped the observation of turns; all later places fail with it and are
        retried by the next run.
        """

    @classmethod
    @contextmanager
    def open(
        cls, setup: StreamSetup, stream_pass: StreamPass, context: JobContext
    ) -> Iterator[Self]:
        """Open the system of a pass, with its stores in the job's folder."""
        systems, name = setup.systems, stream_pass.system
        make: Callable[[Path | None], Any] = partial(systems.make, name)
        with StreamSession(make, systems.store_folder(name, context.folder)) as memory:
            yield cls(setup, stream_pass, memory, context)

    def observe(self, place: StreamPlace, again: bool = False) -> Observation:
        """Give the turns of a place to the system, and record their cost.

        Args:
            place: the next place.
            again: whether an earlier process answered its questions.

        Raises:
            Exception: any error of the system; after a transient error, every later call raises
                that error again.
        """
        if self._interruption is not None:
            raise self._interruption
        system, before = self._memory.system, self._own_usage()
        try:
            with Meter(False) as meter, calls_scope(self._calls), record_calls() as recorder:
                for turn in place.turns:
                    self._memory.observe(turn)
        except TRANSIENT as error:
            self._interruption = error
            raise
        unseen = self._own_usage()
        if self._memory.system is system:
            unseen = _difference(unseen, before)
        usage = usage_of_calls(recorder.take()).plus(unseen)
        seconds, cpu_seconds = round(meter.seconds, 6), round(meter.cpu_seconds, 6)
        observation = Observation(usage, seconds, cpu_seconds)
        self._write_cost(place, observation, again)
        return observation

    def observe_again(self, place: StreamPlace) -> None:
        """Observe the turns of a place whose questions an earlier process answered.

        A turn that the system fails on is skipped, as it was then.
        """
        try:
            self.observe(place, again=True)
        except FATAL:
            raise
        except Exception:  # noqa: BLE001  any error of a system
            logging.getLogger(__name__).debug("turns could not be observed again", exc_info=True)

    @contextmanager
    def counting_failures(self) -> Iterator[None]:
        """Count an error as a failed place, and raise it."""
        try:
            yield
        except Exception:
            self.failures += 1
            raise

    def _own_usage(self) -> Usage:
        """Return the usage of the calls that the system records by itself."""
        system = self._memory.system
        return system.usage if isinstance(system, HasUsage) else Usage()

    def _write_cost(self, place: StreamPlace, observation: Observation, again: bool) -> None:
        usage = observation.usage
        line = {
            "act": TURNS,
            **pass_labels(self._pass),
            "turns": len(place.turns),
            "seconds": observation.seconds,
            "cpu_seconds": observation.cpu_seconds,
            "calls": usage.calls,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "again": again,
            "of": [turn.id for turn in place.turns[:MAX_COST_IDS]],
        }
        self._context.results.cost(line)

    def ask(self, place: StreamPlace, on_answer: Callable[[], None]) -> PlaceAnswers:
        """Ask the questions of a place, whose turns have been observed.

        Args:
            place: the place.
            on_answer: called after each answer.

        Raises:
            Stopped: the run is ending.
            Exception: any error of asking a question, with the question's id as `probe_id`.
        """
        answers: list[AnsweredQuestion] = []
        store: StoreMeasure | None = None
        for question in place.questions:
            answered = self._ask(question)
            if store is None and answered.error is None:
                store = self._measure(question)
                answered.scores.values.update(store.values)
            answers.append(answered)
            on_answer()
        return PlaceAnswers(answers, store or self._measure(place.questions[0]))

    def _ask(self, question: StreamQuestion) -> AnsweredQuestion:
        if self._context.stop.is_set():
            raise Stopped
        try:
            with repetition(self._pass.repeat):
                return self._setup.reader.ask(question, self._memory)
        except Exception as error:
            error.probe_id = question.id  # type: ignore[attr-defined]
            raise

    def _measure(self, question: StreamQuestion) -> StoreMeasure:
        system = self._memory.system_at(question)
        return self._meter.measure(system, self._setup.source.is_last(question))

    def forget_calls(self) -> None:
        """Delete the journal of observation calls, once every place of the pass is answered."""
        if self._calls is not None and self._calls.counts:
            self._calls.journal.forget(self._calls.unit)


def pass_labels(stream_pass: StreamPass) -> dict[str, Any]:
    """Return the fields that all lines of a pass share."""
    return {
        "editor": stream_pass.system,
        "setting": TURNS,
        "mode": MODE,
        "repeat": stream_pass.repeat,
    }


def _difference(now: Usage, before: Usage) -> Usage:
    names = Usage.model_fields
    return Usage(**{name: getattr(now, name) - getattr(before, name) for name in names})
