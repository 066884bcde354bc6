"""From an answer to numbers: each scorer gives values, or the reason why there is none."""

import math
from collections.abc import Callable
from typing import NamedTuple

from emend.evals.metrics import elken
from emend.evals.metrics.likelihood import magnitude, success
from emend.evals.metrics.probability import difference
from emend.evals.metrics.recoe import correct_flip
from emend.evals.metrics.strict import strict_match
from emend.evals.metrics.text import exact_match, normalise, parse_choice, parse_truth
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer, Probe
from emend.memory.registry import nearest

NO_TEXT = "the model was not asked for text"
NO_PROBABILITIES = "the model gives no probabilities"


class Scores(NamedTuple):
    """What scorers made of one answer: a number per output, and a reason per output that has none."""

    values: dict[str, float]
    unscored: dict[str, str]


Scorer = Callable[[Probe, Answer, Answer | None], Scores]
"""(probe, answer, the unedited model's answer to the same probe or None) -> scores."""


class Ask(NamedTuple):
    """What a probe's scorers need of the model: a generated text, and the log-probabilities of these targets."""

    text: bool
    targets: tuple[str, ...]


def score_exact_match(probe: Probe, answer: Answer, before: Answer | None) -> Scores:
    """`em`: 1.0 when the text equals the gold answer or an alias after normalisation."""
    if answer.text is None:
        return Scores({}, {"em": NO_TEXT})
    return Scores({"em": exact_match(answer.text, probe.gold)}, {})


def score_strict_match(probe: Probe, answer: Answer, before: Answer | None) -> Scores:
    """`strict`: 1.0 when the text equals the gold answer or an alias letter for letter."""
    if answer.text is None:
        return Scores({}, {"strict": NO_TEXT})
    return Scores({"strict": strict_match(answer.text, probe.gold)}, {})


def score_choice(probe: Probe, answer: Answer, before: Answer | None) -> Scores:
    """`choice`: 1.0 when the one choice that the text names is the gold one; unscored when it names none or several."""
    if answer.text is None:
        return Scores({}, {"choice": NO_TEXT})
    golds = {normalise(gold) for gold in probe.gold}
    if not any(normalise(choice) in golds for choice in probe.choices):
        return Scores({}, {"choice": f"gold '{probe.gold[0]}' is none of the choices"})
    named, why = parse_choice(answer.text, probe.choices)
    if named is None:
        return Scores({}, {"choice": why})
    return Scores({"choice": float(normalise(named) in golds)}, {})


def score_likelihood(probe: Probe, answer: Answer, before: Answer | None) -> Scores:
    """`success` and `magnitude` of the gold answer against the rival, from the log-probabilities in that order."""
    gold, rival, why = _pair(probe, answer)
    if why:
        return Scores({}, {"success": why, "magnitude": why})
    return Scores({"success": success(gold, rival), "magnitude": magnitude(gold, rival)}, {})


def score_difference(probe: Probe, answer: Answer, before: Answer | None) -> Scores:
    """`difference`: probability of the gold answer less that of the rival."""
    gold, rival, why = _pair(probe, answer)
    return Scores({}, {"difference": why}) if why else Scores({"difference": difference(gold, rival)}, {})


def score_agreement(probe: Probe, answer: Answer, before: Answer | None) -> Scores:
    """`agreement`: 1.0 when the edited model says what the unedited one said.

    Texts are compared after normalisation; without texts, whether the same one of gold and rival is more probable.
    """
    if before is None:
        return Scores({}, {"agreement": "the unedited model was not asked"})
    if answer.text is not None and before.text is not None:
        return Scores({"agreement": float(normalise(answer.text) == normalise(before.text))}, {})
    now_gold, now_rival, why = _pair(probe, answer)
    then_gold, then_rival, why_before = _pair(probe, before)
    if why or why_before:
        return Scores({}, {"agreement": why or f"unedited model: {why_before}"})
    same = _order(now_gold, now_rival) == _order(then_gold, then_rival)
    return Scores({"agreement": float(same)}, {})


def score_reasoning(probe: Probe, answer: Answer, before: Answer | None) -> Scores:
    """`acc` of a yes/no question as DocTER scores it: the gold one of " true" and " false" is strictly more probable.

    A tie is the code's UNK, which is not correct. The whole word's joint probability is taken where the code takes the
    word's first token; for tokenizers that have both words as one token they are equal. For a model without
    probabilities the text is read instead, `yes` and `no` too (how DocTER read ChatGPT's replies is not published).
    """
    if not answer.log_probs and answer.text is not None:
        said, why = parse_truth(answer.text)
        return Scores({}, {"acc": why}) if said is None else Scores({"acc": float(said == probe.gold[0])}, {})
    gold, rival, why = _pair(probe, answer)
    return Scores({}, {"acc": why}) if why else Scores({"acc": success(gold, rival)}, {})


def score_correct_flip(probe: Probe, answer: Answer, before: Answer | None) -> Scores:
    """`pre_edit`: the unedited model was right; `correct_flip`: where it was, the edited model gives the new answer."""
    return Scores(*correct_flip(probe, answer, before))


SCORERS: dict[str, Scorer] = {
    "exact_match": score_exact_match,
    "strict_match": score_strict_match,
    "choice": score_choice,
    "likelihood": score_likelihood,
    "difference": score_difference,
    "agreement": score_agreement,
    "reasoning": score_reasoning,
    "elken_fact": elken.score_fact,
    "elken_fact_same": elken.score_fact_same,
    "elken_option": elken.score_option,
    "elken_option_same": elken.score_option_same,
    "correct_flip": score_correct_flip,
}

COMPARED = frozenset({"agreement", "correct_flip", "elken_fact_same", "elken_option_same"})
"""Scorers that look at what the unedited model says to the same probe."""
_PROBABILITIES = {"likelihood", "difference", "reasoning"}


def ask_of(probe: Probe, scorable: bool) -> Ask:
    """What to ask a model for, so that the probe's scorers have what they need and nothing is asked in vain.

    Args:
        probe: the probe; targets are its gold answer and its rival, in this order.
        scorable: whether the model gives probabilities; without them `reasoning` reads the text, and `likelihood`
            stays unscored.

    Raises:
        BadSettings: a scorer's name is unknown.
    """
    for name in probe.scorers:
        _known(name)
    names = set(probe.scorers)
    if scorable and probe.rival is not None and names & _PROBABILITIES:
        return Ask(bool(names - _PROBABILITIES - {"agreement"}), (probe.gold[0], probe.rival))
    return Ask(bool(names - {"likelihood", "difference"}), ())


def score(probe: Probe, answer: Answer, before: Answer | None = None) -> Scores:
    """All scorers of the probe on one answer.

    Raises:
        BadSettings: a scorer's name is unknown.
    """
    total = Scores({}, {})
    for name in probe.scorers:
        values, unscored = _known(name)(probe, answer, before)
        total.values.update(values)
        total.unscored.update(unscored)
    return total


def _known(name: str) -> Scorer:
    if name not in SCORERS:
        raise BadSettings(f"unknown scorer '{name}': {nearest(name, list(SCORERS))}")
    return SCORERS[name]


def _pair(probe: Probe, answer: Answer) -> tuple[float, float, str]:
    """Log-probabilities of gold and rival, and why there are none ("" when there are)."""
    if probe.rival is None:
        return 0.0, 0.0, "the probe has no rival answer"
    if not answer.log_probs:
        return 0.0, 0.0, NO_PROBABILITIES
    if len(answer.log_probs) < 2:
        return 0.0, 0.0, f"two log-probabilities expected, {len(answer.log_probs)} came"
    gold, rival = answer.log_probs[:2]
    if math.isnan(gold) or math.isnan(rival):
        return 0.0, 0.0, "a log-probability is not a number"
    return min(gold, 0.0), min(rival, 0.0), ""  # rounding may leave a certain answer a hair above 0


def _order(gold: float, rival: float) -> int:
    return (gold > rival) - (gold < rival)
