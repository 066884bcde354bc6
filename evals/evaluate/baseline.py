"""Questions to an edited model, and the unedited model's answers, asked once for all editors."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from emend.agents.calls import record_calls
from emend.agents.providers.journal import ReplyStore, unit_scope
from emend.agents.providers.repetition import repetition
from emend.agents.scoring import keep_likely_tokens
from emend.editors.base import Answerer, Editor, Retrievable, Scorable, gives_scores
from emend.evals.jobs.queues import map_in_order
from emend.evals.jobs.shared_answers import AnswerStore
from emend.evals.log.baseline import BaselineAnswer
from emend.evals.metrics.scorers import Ask, ask_of
from emend.evals.metrics.scoring.registry import scorer_of
from emend.memory.edit import content_id
from emend.memory.errors import BadSettings, ContextOverflow, ModelReplyError
from emend.memory.probe import Answer, Probe, Step, Usage
from emend.memory.steps import usage_of_calls, usage_until


def needs_baseline(probe: Probe) -> bool:
    """Return True if a scorer compares the answer with the unedited model's."""
    return any(scorer_of(name).compares for name in probe.scorers)


def ask_probe(answerer: Answerer, probe: Probe) -> Answer:
    """Ask for the text or the log-probabilities that the probe's scorers need, or for both.

    If they need neither, only retrieve.
    """
    needed: Ask = ask_of(probe, gives_scores(answerer))
    if not needed.targets:
        if needed.text:
            return answerer.answer(probe)
        return answerer.find(probe) if isinstance(answerer, Retrievable) else Answer()
    assert isinstance(answerer, Scorable)
    with keep_likely_tokens(needed.likely):
        if not needed.text:
            return answerer.score(probe, needed.targets)
        # first, since the scores use a chain of thought that it writes
        generated = answerer.answer(probe)
        scored = answerer.score(probe, needed.targets)
    return generated.but(
        log_probs=scored.log_probs,
        target_tokens=scored.target_tokens,
        greedy_tokens=scored.greedy_tokens,
        likely_tokens=scored.likely_tokens,
        cut_tokens=max(generated.cut_tokens, scored.cut_tokens),
        usage=generated.usage.plus(scored.usage),
        steps=(*generated.steps, *scored.steps),
    )


def ask_recorded(editor: str, answerer: Answerer, probe: Probe) -> Answer:
    """Ask the probe, and record its calls as one step if the editor reports no steps.

    Raises:
        BadSettings: the editor returned something else than an `Answer`.
    """
    at, start = time.time(), time.perf_counter()
    with record_calls() as recorder:
        answer: object = ask_probe(answerer, probe)
    if not isinstance(answer, Answer):
        raise BadSettings(
            f"editor '{editor}' answered with {answer!r:.80}, not with an Answer: see "
            "docs/how-to/extend.md."
        )
    calls = recorder.take()
    if answer.steps or not calls:
        return answer
    update = {} if answer.text is None else {"reply": answer.text}
    step = Step(
        node="answer",
        update=update,
        ms=(time.perf_counter() - start) * 1000,
        at=at,
        place=1,
        calls=calls,
    )
    usage = usage_of_calls(calls) if answer.usage == Usage() else answer.usage
    return answer.but(steps=(step,), usage=usage)


class Baseline:
    """Answers of the unedited model to probes that are scored by comparison with it.

    Args:
        unedited: editor without edits, on the model of the run.
        store: store of the answers, including those of earlier processes.
        model: fingerprint of the model.
        journal: the run's journal, in which each answer is its own unit, since timing decides which
            unit asks for it.
    """

    def __init__(
        self,
        unedited: Editor,
        store: AnswerStore,
        model: dict[str, Any],
        journal: ReplyStore | None = None,
    ) -> None:
        self._unedited, self._store, self._journal = unedited, store, journal
        self._content_id = content_id("before", model, unedited.fingerprint)
        self._failed: dict[str, Exception] = {}

    def prepare(self, probes: Sequence[Probe], repeat: int = 0, at_once: int = 1) -> None:
        """Ask for baseline answers, `at_once` concurrently, before the model's weights change.

        Errors other than unusable replies are raised later by `get`, for the unit that needs the
        answer.
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
        """Return the line of `baseline.jsonl` for a probe, and ask the model if there is none."""
        key = self._key(probe, repeat)
        if key in self._failed:
            raise self._failed[key]
        line = self._store.get(key, partial(self._ask, probe, key, repeat))
        return BaselineAnswer.model_validate_json(line)

    def _key(self, probe: Probe, repeat: int) -> str:
        return content_id(self._content_id, repeat, probe.content)

    def _ask(
        self, probe: Probe, key: str, repeat: int, store: Callable[[BaselineAnswer, Usage], bytes]
    ) -> bytes:
        with unit_scope(self._journal, key):
            start = time.perf_counter()
            outcome = self._outcome(probe, repeat)
            seconds = round(time.perf_counter() - start, 6)
            answer = BaselineAnswer.of(
                outcome, key=key, probe=probe.id, repeat=repeat, seconds=seconds
            )
            return store(
                answer, outcome.usage if isinstance(outcome, Answer) else usage_until(outcome)
            )

    def _outcome(self, probe: Probe, repeat: int) -> Answer | Exception:
        try:
            with repetition(repeat), self._unedited.edit(()) as answerer:
                return ask_probe(answerer, probe)
        except (ModelReplyError, ContextOverflow) as error:
            return error
