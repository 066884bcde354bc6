"""Scoring of answers by a probe's scorers: their requests to the model, and their scores."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from emend.evals.metrics.scores import AnswerReading, ProbeScores
from emend.evals.metrics.scoring.base import Scorer
from emend.evals.metrics.scoring.registry import SCORERS, is_own, scorer_of
from emend.memory.probe import Answer, Probe


class Ask(NamedTuple):
    """The request to the model for a probe's scorers: a generated text, the log-probabilities of
    `targets`, and whether their most `likely` tokens are kept.
    """

    text: bool
    targets: tuple[str, ...]
    likely: bool = False


def ask_of(probe: Probe, scorable: bool) -> Ask:
    """Return the minimal request for a probe's scorers.

    Args:
        probe: the probe.
        scorable: whether the model supports log-probabilities.

    Raises:
        BadSettings: a scorer's name is unknown.
    """
    scorers = [scorer_of(name) for name in probe.scorers]
    targets = targets_of(scorers, probe) if scorable else ()
    if targets:
        likely = any(getattr(scorer, "compares_tokens", False) for scorer in scorers)
        return Ask(any(scorer.requires_text for scorer in scorers), targets, likely)
    return Ask(any(scorer.reads_text for scorer in scorers), ())


def targets_of(scorers: Sequence[Scorer], probe: Probe) -> tuple[str, ...]:
    """Return the distinct texts whose log-probabilities the scorers need, in the order of the
    scorers.
    """
    targets: tuple[str, ...] = ()
    for scorer in scorers:
        needed = scorer.targets(probe) if scorer.prefers_log_probs else ()
        added = tuple(text for text in needed if text not in targets)
        targets = (*targets, *added) if targets else needed
    return targets


def score(probe: Probe, answer: Answer, before: Answer | None = None) -> ProbeScores:
    """Run all scorers of the probe on one answer.

    Raises:
        BadSettings: a scorer's name is unknown, or a plug-in's scorer failed.
    """
    values, unscored = dict[str, float](), dict[str, str]()
    readings = dict[str, AnswerReading]()
    scorers = {name: scorer_of(name) for name in probe.scorers}
    are_own = all(map(is_own, scorers))
    for name, scorer in scorers.items():
        if are_own:
            scores = scorer(probe, answer, before)
        else:
            request = targets_of(list(scorers.values()), probe)
            scores = _score_alone(name, scorer, request, probe, answer, before)
        values |= scores.values
        unscored |= scores.unscored
        readings |= scores.readings
    return ProbeScores(values, unscored, readings)


def _score_alone(
    name: str,
    scorer: Scorer,
    request: tuple[str, ...],
    probe: Probe,
    answer: Answer,
    before: Answer | None,
) -> ProbeScores:
    """Run a scorer next to a plug-in's, with the log-probabilities of its own targets only."""
    with SCORERS.plugin_errors(name):
        needed = scorer.targets(probe)
        edited = _with_targets(answer, request, needed)
        if before is None:
            unedited = None
        else:
            unedited = _with_targets(before, request, needed)
        return scorer(probe, edited, unedited)


Number = TypeVar("Number")


def _with_targets(answer: Answer, request: tuple[str, ...], needed: tuple[str, ...]) -> Answer:
    """Return the answer with only the log-probabilities of the needed texts."""
    if request == needed or len(answer.log_probs) != len(request):
        return answer
    positions = [request.index(text) for text in needed if text in request]
    return answer.but(
        log_probs=_picked(answer.log_probs, positions),
        target_tokens=_picked(answer.target_tokens, positions),
        greedy_tokens=_picked(answer.greedy_tokens, positions),
        likely_tokens=_picked(answer.likely_tokens, positions),
    )


def _picked(numbers: tuple[Number, ...], positions: Sequence[int]) -> tuple[Number, ...]:
    if numbers:
        return tuple(numbers[position] for position in positions)
    return ()


def without_blank(answer: Answer) -> Answer:
    """Return the answer without its text if that is blank."""
    if answer.text is None or answer.text.strip():
        return answer
    return answer.but(text=None, exact_text=None, passage=None)
