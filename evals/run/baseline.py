"""A probe put to an edited model, and answers of the unedited one, asked once for all editors and forms."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from emend.agents.calls import record_calls
from emend.agents.providers.journal import ReplyStore, unit_scope
from emend.agents.providers.repetition import repetition
from emend.editors.base import Answerer, Editor, Retrievable, Scorable
from emend.evals.log.baseline import BaselineAnswer, baseline_offsets, is_baseline_answer
from emend.evals.log.lines import BASELINE
from emend.evals.log.records import RunLog, json_line
from emend.evals.metrics.scorers import COMPARED, Ask, ask_of
from emend.evals.run.units import map_in_order
from emend.memory.edit import content_id
from emend.memory.errors import BadSettings, ContextOverflow, ModelReplyError
from emend.memory.files import open_file
from emend.memory.probe import Answer, Probe, Step, Usage
from emend.memory.steps import usage_of_calls, usage_until


def needs_baseline(probe: Probe) -> bool:
    """Return whether a scorer compares the answer with the unedited model's."""
    return not COMPARED.isdisjoint(probe.scorers)


def ask_probe(answerer: Answerer, probe: Probe) -> Answer:
    """Ask for what the probe's scorers need: a text, log-probabilities, or both; with neither, only retrieve."""
    needed: Ask = ask_of(probe, isinstance(answerer, Scorable))
    if not needed.targets:
        if needed.text:
            return answerer.answer(probe)
        return answerer.find(probe) if isinstance(answerer, Retrievable) else Answer()
    assert isinstance(answerer, Scorable)
    scored = answerer.score(probe, needed.targets)
    if not needed.text:
        return scored
    generated = answerer.answer(probe)
    return generated.but(
        log_probs=scored.log_probs,
        target_tokens=scored.target_tokens,
        greedy_tokens=scored.greedy_tokens,
        cut_tokens=max(generated.cut_tokens, scored.cut_tokens),
        usage=generated.usage.plus(scored.usage),
        steps=(*generated.steps, *scored.steps),
    )


def ask_recorded(editor: str, answerer: Answerer, probe: Probe) -> Answer:
    """Ask the probe; an editor that reports no steps gets one step with the calls that it made, and their usage.

    Raises:
        BadSettings: the editor returned something else than an `Answer`.
    """
    at, start = time.time(), time.perf_counter()
    with record_calls() as recorder:
        answer: object = ask_probe(answerer, probe)
    if not isinstance(answer, Answer):
        raise BadSettings(
            f"editor '{editor}' answered with {answer!r:.80}, and not with an Answer: see docs/how-to/extend.md."
        )
    calls = recorder.take()
    if answer.steps or not calls:
        return answer
    update = {} if answer.text is None else {"reply": answer.text}
    step = Step(node="answer", update=update, ms=(time.perf_counter() - start) * 1000, at=at, place=1, calls=calls)
    usage = usage_of_calls(calls) if answer.usage == Usage() else answer.usage
    return answer.but(steps=(step,), usage=usage)


STRIPES = 64
"""Number of locks: different probes are asked at the same time, the same probe is asked once."""
AskUnedited = Callable[[Callable[[BaselineAnswer, Usage], bytes]], bytes]
"""Asks the unedited model, gives the answer and what it used to a function that stores it, and returns its line."""


class BaselineStore(Protocol):
    """Where the unedited model's answers are, by key; safe for many threads."""

    def get(self, key: str, ask: AskUnedited) -> bytes:
        """Return an answer's line; `ask` is called if there is none, by one thread at a time for each key."""
        ...


class BaselineFile:
    """The answers in the run folder; only their offsets are in memory.

    Args:
        log: of the run.
        others: folders of other runs, whose answers to the same probes by the same model are copied.
    """

    def __init__(self, log: RunLog, others: Iterable[Path] = ()) -> None:
        self._log, self._lock = log, threading.Lock()
        self._others = {key: (folder, offset) for folder in others for key, offset in baseline_offsets(folder).items()}
        self._offsets = baseline_offsets(log.folder)
        self._key_locks = [threading.Lock() for _ in range(STRIPES)]
        self.usage = Usage()
        """Usage of the answers that this process added."""

    @property
    def keys(self) -> Set[str]:
        """Keys of the answers."""
        return self._offsets.keys()

    def get(self, key: str, ask: AskUnedited) -> bytes:
        """Return an answer's line."""
        line = self.find(key)
        if line is None:
            with self._key_locks[int(key, 16) % STRIPES]:
                line = self.find(key) or self.copy(key)
                line = line or ask(lambda answer, usage: self.add_line(key, json_line(answer), usage))
        return line

    def copy(self, key: str) -> bytes | None:
        """Copy the line of an answer from another run; None if there is none."""
        if key not in self._others:
            return None
        folder, offset = self._others[key]
        with suppress(OSError), open_file(folder / BASELINE) as file:
            file.seek(offset)
            line = file.readline()
            if is_baseline_answer(line, key):
                return self.add_line(key, line, Usage())
        return None

    def find(self, key: str) -> bytes | None:
        """Return an answer's line; None if there is none, or one that was damaged by other hands."""
        offset = self._offsets.get(key)
        line = None if offset is None else self._log.baseline_at(offset)
        return line if line and is_baseline_answer(line, key) else None

    def add_line(self, key: str, line: bytes, usage: Usage) -> bytes:
        """Write an answer's line, and count what it used; return the line as it is stored."""
        offset = self._offsets[key] = self._log.baseline(line)
        with self._lock:
            self.usage = self.usage.plus(usage)
        return self._log.baseline_at(offset)


class Baseline:
    """The unedited model's answers to the probes that are scored by a comparison with it.

    Args:
        unedited: the editor that changes nothing, on the model of the run.
        store: has the answers, those of an earlier process too.
        model: the model's fingerprint.
        journal: the run's, in which every answer is a unit of its own: which unit asks for it depends on timing.
    """

    def __init__(
        self,
        unedited: Editor,
        store: BaselineStore,
        model: dict[str, Any],
        journal: ReplyStore | None = None,
    ) -> None:
        self._unedited, self._store, self._journal = unedited, store, journal
        self._content_id = content_id("before", model, unedited.fingerprint)
        self._failed: dict[str, Exception] = {}

    def prepare(self, probes: Sequence[Probe], repeat: int = 0, at_once: int = 1) -> None:
        """Ask now what will be needed, `at_once` at the same time, because the model's weights are about to change.

        An error other than an unusable reply is raised by `get` instead, for the unit that needs the answer.
        """

        def ask(probe: Probe) -> None:
            key = self._key(probe, repeat)
            self._failed.pop(key, None)
            try:
                self.get(probe, repeat)
            except Exception as error:  # noqa: BLE001
                self._failed[key] = error

        for _ in map_in_order(ask, [probe for probe in probes if needs_baseline(probe)], at_once):
            pass

    def answer(self, probe: Probe, repeat: int = 0) -> Answer:
        """Return the unedited model's answer.

        Raises:
            ModelReplyError: the reply was unusable.
            ContextOverflow: the prompt did not fit.
        """
        return self.get(probe, repeat).result()

    def get(self, probe: Probe, repeat: int = 0) -> BaselineAnswer:
        """Return the line of `baseline.jsonl`; the model is asked only if there is none."""
        key = self._key(probe, repeat)
        if key in self._failed:
            raise self._failed[key]
        line = self._store.get(key, partial(self._ask, probe, key, repeat))
        return BaselineAnswer.model_validate_json(line)

    def _key(self, probe: Probe, repeat: int) -> str:
        return content_id(self._content_id, repeat, probe.model_dump(mode="json"))

    def _ask(self, probe: Probe, key: str, repeat: int, store: Callable[[BaselineAnswer, Usage], bytes]) -> bytes:
        with unit_scope(self._journal, key):
            start = time.perf_counter()
            outcome = self._outcome(probe, repeat)
            seconds = round(time.perf_counter() - start, 6)
            answer = BaselineAnswer.of(outcome, key=key, probe=probe.id, repeat=repeat, seconds=seconds)
            return store(answer, outcome.usage if isinstance(outcome, Answer) else usage_until(outcome))

    def _outcome(self, probe: Probe, repeat: int) -> Answer | Exception:
        try:
            with repetition(repeat), self._unedited.edit(()) as answerer:
                return ask_probe(answerer, probe)
        except (ModelReplyError, ContextOverflow) as error:
            return error
