"""Results of scorers, a number per output or why it has none: by log-probabilities, and of constructed items."""

import math
from collections.abc import Callable
from typing import NamedTuple

from pydantic import ValidationError

from emend.editors.built_item import BuiltItem
from emend.memory.probe import Answer, Probe

NO_TEXT = "the model was not asked for text"
EMPTY = "the reply is empty, or has no answer in it"
NO_PROBABILITIES = "the model gives no probabilities"
NO_RIVAL = "the probe has no rival answer"
NO_BASELINE = "the unedited model was not asked"


class ProbeScores(NamedTuple):
    """Scores of one answer: `values` holds a number per output, `unscored` a reason per output that has none."""

    values: dict[str, float]
    unscored: dict[str, str]


Scorer = Callable[[Probe, Answer, Answer | None], ProbeScores]
"""(probe, answer, the unedited model's answer to the same probe or None) -> scores."""


NNM_EPS = 1e-8


def success(gold: float, rival: float) -> float:
    """1.0 when `gold` is strictly more probable than `rival` (natural-log probabilities); a tie fails."""
    return float(gold > rival)


def magnitude(gold: float, rival: float) -> float:
    """Margin by which `gold` beats `rival`, as a share of the larger surprise.

    (gold - rival) / -min(gold, rival) on natural-log probabilities, in [-1, 1]: 1 when gold is certain and rival is
    not, 0 on a tie (both certain included), -1 when rival is certain and gold is not.
    """
    if gold == rival:
        return 0.0
    if math.isinf(min(gold, rival)):
        return 1.0 if gold > rival else -1.0
    return (gold - rival) / -min(gold, rival)


def original_success(gold: float, rival: float) -> float:
    """Success as in the released code, compared after exp(): two underflowed probabilities are a tie."""
    return float(math.exp(gold) > math.exp(rival))


def original_magnitude(gold: float, rival: float, eps: float = 0.0) -> float:
    """Magnitude as in the released code, computed from exp() and log() in float64.

    Its three exceptions give 0 and keep the pair in the denominator: either probability underflows to 0 (logarithm of
    zero) or both are 1 (division by zero). `eps` is added to log(gold), which the code does for NNM alone.
    """
    try:
        log_gold, log_rival = math.log(math.exp(gold)) + eps, math.log(math.exp(rival))
        return -(log_gold - log_rival) / min(log_gold, log_rival)
    except (ValueError, ZeroDivisionError):
        return 0.0


def difference(gold: float, rival: float) -> float:
    """p(gold) - p(rival) from natural-log probabilities, in [-1, 1]: CounterFact's EM, PM and NM (Meng et al. 2022).

    The released code compares the geometric means of the tokens' probabilities instead; both agree for targets of one
    token.
    """
    return math.exp(min(gold, 0.0)) - math.exp(min(rival, 0.0))


KEPT = "kept"
PASSES = "passes_"
"""Before a filter's name, the output that says whether an item that reached it passed it."""


def score_construction(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`kept`, and `passes_FILTER` for each filter that the item reached."""
    if answer.text is None:
        return ProbeScores({}, {KEPT: NO_TEXT})
    try:
        built = BuiltItem.model_validate_json(answer.text)
    except ValidationError:
        return ProbeScores({}, {KEPT: "the answer is not the outcome of a construction"})
    values = {f"{PASSES}{name}": float(passed) for name, passed in built.passed.items()}
    return ProbeScores({KEPT: float(built.result is not None)} | values, {})
