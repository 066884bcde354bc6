"""What the unedited model says, asked once and kept in the run folder for every editor, and for a resumed run."""

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Self

from emend.agents.providers.policy import repetition
from emend.editors.base import Answerer, Editor, Finding, Scorable
from emend.evals.log.records import RunFiles
from emend.evals.metrics.scorers import COMPARED, Ask, ask_of
from emend.graphs.running import keep_steps, steps_of
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import ContextOverflow, ModelReplyError
from emend.memory.probe import Answer, ModelCall, Probe, Step, Usage
from emend.memory.redaction import hide_keys

STRIPES = 64
"""So many probes can be asked at the same time without one waiting for another that is not the same."""


class Kept(FrozenModel):
    """A line of `baseline.jsonl`: the answer to one probe, or why the model's reply was no use, and what it took."""

    key: str
    probe: str
    repeat: int = 0
    answer: Answer | None = None
    error: str = ""
    kind: str = ""
    """Class of the error."""
    reply: str | None = None
    steps: tuple[Step, ...] = ()
    """Those that led to the error."""
    seconds: float = 0.0

    @classmethod
    def of(cls, answer: Answer | Exception, **told: Any) -> Self:
        """An answer, or an error that was one."""
        if isinstance(answer, Answer):
            return cls(answer=answer, **told)
        reply = answer.reply if isinstance(answer, ModelReplyError) else None
        error, steps = hide_keys(str(answer)), getattr(answer, "steps", ())
        return cls(error=error, kind=type(answer).__name__, reply=reply, steps=steps, **told)

    @property
    def usage(self) -> Usage:
        """What it cost, whatever came of it."""
        try:
            return self.said().usage
        except (ModelReplyError, ContextOverflow) as error:
            return spent_until(error)

    def said(self) -> Answer:
        """The answer.

        Raises:
            ModelReplyError: the reply could not be used.
            ContextOverflow: the prompt did not fit.
        """
        if self.answer is not None:
            return self.answer
        overflow = self.kind == ContextOverflow.__name__
        error = ContextOverflow(self.error) if overflow else ModelReplyError(self.error, self.reply or "", Usage())
        keep_steps(error, self.steps)
        raise error


class Baseline:
    """The unedited model's answers to the probes that are scored by a comparison with it.

    Answers are read back from the file that keeps them, so that memory grows by a key per answer only.

    Args:
        unedited: the editor that changes nothing, on the model of the run.
        files: of the run folder, where the answers of an earlier process are found too.
        model: the model's fingerprint.
    """

    def __init__(self, unedited: Editor, files: RunFiles, model: dict[str, Any]) -> None:
        self._unedited, self._files = unedited, files
        self._asker = content_id("before", model, unedited.fingerprint)
        self._places = dict(files.baseline_places())
        self._asking = [threading.Lock() for _ in range(STRIPES)]
        self._counting = threading.Lock()
        self._broken: dict[str, Exception] = {}
        self.spent = Usage()
        """Of the answers that were asked for since this was made."""

    def prepare(self, probes: Iterable[Probe], repeat: int = 0) -> None:
        """Ask now what will be needed, because the model's weights are about to be changed.

        An error that is no answer is raised by `kept` instead, for the unit that needs the answer.
        """
        for probe in probes:
            if needs_baseline(probe):
                key = self._key(probe, repeat)
                self._broken.pop(key, None)
                try:
                    self.kept(probe, repeat)
                except Exception as error:  # noqa: BLE001
                    self._broken[key] = error

    def take(self, probe: Probe, repeat: int = 0) -> Answer:
        """The unedited model's answer.

        Raises:
            ModelReplyError: the reply could not be used.
            ContextOverflow: the prompt did not fit.
        """
        return self.kept(probe, repeat).said()

    def kept(self, probe: Probe, repeat: int = 0) -> Kept:
        """The answer as it is kept; asked for only if it is not there."""
        key = self._key(probe, repeat)
        if key in self._broken:
            raise self._broken[key]
        if key not in self._places:
            with self._asking[int(key, 16) % STRIPES]:
                if key not in self._places:
                    self._places[key] = self._files.baseline(self._ask(probe, key, repeat).model_dump_json())
        return Kept.model_validate_json(self._files.baseline_at(self._places[key]))

    def _key(self, probe: Probe, repeat: int) -> str:
        return content_id(self._asker, repeat, probe.model_dump(mode="json"))

    def _ask(self, probe: Probe, key: str, repeat: int) -> Kept:
        began = time.perf_counter()
        said: Answer | Exception
        try:
            with repetition(repeat), self._unedited.edit(()) as answerer:
                said = ask(answerer, probe, ask_of(probe, isinstance(answerer, Scorable)))
            with self._counting:
                self.spent = self.spent.plus(said.usage)
        except (ModelReplyError, ContextOverflow) as error:
            said = error
            with self._counting:
                self.spent = self.spent.plus(spent_until(error))
        seconds = round(time.perf_counter() - began, 6)
        return Kept.of(said, key=key, probe=probe.id, repeat=repeat, seconds=seconds)


def spent_until(error: Exception) -> Usage:
    """What was spent before an answer ended in an error: all calls of its steps, those among them that failed too.

    The error's own cost may be that of several calls, which the steps hold as well: it counts where there are none.
    """
    own = error.usage if isinstance(error, ModelReplyError) else Usage()
    calls = [call for step in steps_of(error) for call in step.calls]
    if not calls:
        return own
    told = [call for call in calls if call.error is None or call.input_tokens or call.output_tokens]
    silent = bool(own.calls) and calls[-1] not in told  # refused, and the provider counted no tokens
    return usage_over(told).plus(Usage(calls=int(silent)))


def usage_over(calls: Sequence[ModelCall]) -> Usage:
    """What calls cost together."""
    return Usage(
        input_tokens=sum(call.input_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        calls=sum(not call.cached for call in calls),
        cached=sum(call.cached for call in calls),
        retries=sum(len(call.retries) for call in calls),
        untold=sum(not (call.cached or call.input_tokens or call.output_tokens) for call in calls),
    )


def needs_baseline(probe: Probe) -> bool:
    """Whether the probe is compared with what the unedited model says."""
    return not COMPARED.isdisjoint(probe.scorers)


def ask(answerer: Answerer, probe: Probe, wanted: Ask) -> Answer:
    """The text, the log-probabilities, or both, as one answer; without either, what is found for the probe."""
    if not wanted.targets:
        if wanted.text:
            return answerer.answer(probe)
        return answerer.find(probe) if isinstance(answerer, Finding) else Answer()
    assert isinstance(answerer, Scorable)
    scored = answerer.score(probe, wanted.targets)
    if not wanted.text:
        return scored
    said = answerer.answer(probe)
    return said.but(
        log_probs=scored.log_probs,
        target_tokens=scored.target_tokens,
        cut_tokens=max(said.cut_tokens, scored.cut_tokens),
        usage=said.usage.plus(scored.usage),
        steps=(*said.steps, *scored.steps),
    )
