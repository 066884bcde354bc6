"""One probe put to an edited model: which of text and log-probabilities is asked for, and what the calls used."""

import time

from emend.agents.calls import record_calls
from emend.editors.base import Answerer, Retrievable, Scorable
from emend.evals.metrics.scorers import COMPARED, Ask, ask_of
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer, Probe, Step, Usage
from emend.memory.steps import usage_of_calls


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
