"""One probe put to an edited model: which of text and log-probabilities is asked for, and what the calls used."""

import time
from collections.abc import Sequence

from emend.agents.calls import record_calls
from emend.editors.base import Answerer, Retrievable, Scorable
from emend.evals.metrics.scorers import COMPARED, Ask, ask_of
from emend.graphs.execution import steps_of
from emend.memory.errors import BadSettings, ModelReplyError
from emend.memory.probe import Answer, ModelCall, Probe, Step, Usage


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


def usage_of_calls(calls: Sequence[ModelCall]) -> Usage:
    """Total usage of model calls."""
    return Usage(
        input_tokens=sum(call.input_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        calls=sum(not call.cached for call in calls),
        cached=sum(call.cached for call in calls),
        retries=sum(len(call.retries) for call in calls),
        untold=sum(not (call.cached or call.input_tokens or call.output_tokens) for call in calls),
    )


def usage_until(error: Exception) -> Usage:
    """Usage of an answer that ended in an error: all calls of its steps, failed ones too.

    The error's own usage may be that of several calls, which the steps hold as well: it counts where there are none.
    """
    reported = error.usage if isinstance(error, ModelReplyError) else Usage()
    calls = [call for step in steps_of(error) for call in step.calls]
    if not calls:
        return reported
    counted = [call for call in calls if call.error is None or call.input_tokens or call.output_tokens]
    refused = bool(reported.calls) and calls[-1] not in counted  # and the provider counted no tokens
    return usage_of_calls(counted).plus(Usage(calls=int(refused)))
