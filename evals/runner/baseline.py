"""Answers of the unedited model, asked once and kept in the run folder for all editors and for a resumed run."""

import threading
import time
from collections.abc import Iterable
from typing import Any

from emend.agents.providers.journal import CallJournal, unit_scope
from emend.agents.providers.repetition import repetition
from emend.editors.base import Editor
from emend.evals.log.baseline import BaselineAnswer, read_baseline
from emend.evals.log.records import RunLog
from emend.evals.runner.ask_probe import ask_probe, needs_baseline
from emend.memory.edit import content_id
from emend.memory.errors import ContextOverflow, ModelReplyError
from emend.memory.probe import Answer, Probe, Usage
from emend.memory.steps import usage_until

STRIPES = 64
"""Number of locks: different probes are asked at the same time, the same probe is asked once."""


class Baseline:
    """The unedited model's answers to the probes that are scored by a comparison with it.

    Answers are read back from the file that keeps them, so that memory grows by a key per answer only.

    Args:
        unedited: the editor that changes nothing, on the model of the run.
        log: of the run, which has the answers of an earlier process too.
        model: the model's fingerprint.
        journal: the run's, in which every answer is a unit of its own: which unit asks for it depends on timing.
    """

    def __init__(
        self,
        unedited: Editor,
        log: RunLog,
        model: dict[str, Any],
        journal: CallJournal | None = None,
    ) -> None:
        self._unedited, self._log, self._journal = unedited, log, journal
        self._content_id = content_id("before", model, unedited.fingerprint)
        self._offsets = {answer.key: offset for offset, answer in read_baseline(log.folder)}
        self._probe_locks = [threading.Lock() for _ in range(STRIPES)]
        self._usage_lock = threading.Lock()
        self._failed: dict[str, Exception] = {}
        self.usage = Usage()
        """Usage of the answers that this process asked for."""

    def prepare(self, probes: Iterable[Probe], repeat: int = 0) -> None:
        """Ask now what will be needed, because the model's weights are about to change.

        An error other than an unusable reply is raised by `get` instead, for the unit that needs the answer.
        """
        for probe in probes:
            if needs_baseline(probe):
                key = self._key(probe, repeat)
                self._failed.pop(key, None)
                try:
                    self.get(probe, repeat)
                except Exception as error:  # noqa: BLE001
                    self._failed[key] = error

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
        if key not in self._offsets:
            with self._probe_locks[int(key, 16) % STRIPES]:
                if key not in self._offsets:
                    with unit_scope(self._journal, key):
                        self._offsets[key] = self._log.baseline(self._ask(probe, key, repeat))
        return BaselineAnswer.model_validate_json(self._log.baseline_at(self._offsets[key]))

    def _key(self, probe: Probe, repeat: int) -> str:
        return content_id(self._content_id, repeat, probe.model_dump(mode="json"))

    def _ask(self, probe: Probe, key: str, repeat: int) -> BaselineAnswer:
        start = time.perf_counter()
        outcome: Answer | Exception
        try:
            with repetition(repeat), self._unedited.edit(()) as answerer:
                outcome = ask_probe(answerer, probe)
        except (ModelReplyError, ContextOverflow) as error:
            outcome = error
        seconds = round(time.perf_counter() - start, 6)
        line = BaselineAnswer.of(outcome, key=key, probe=probe.id, repeat=repeat, seconds=seconds)
        with self._usage_lock:
            self.usage = self.usage.plus(outcome.usage if isinstance(outcome, Answer) else usage_until(outcome))
        return line
