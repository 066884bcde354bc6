"""Results of scorers (a number per output, or the reason why it is unscored), and scores of two
probabilities.

By likelihood, ES, PS, CES and NEM, NPM, CEM compare the new target with the old one (is the edit
recalled?); NS and NNM compare the old one with the new one under unrelated prompts (is the rest
unchanged?). Defined as in DocTER's scoring code (H-shw/DocTER-Data-and-Code, eval_base/). Two
details differ: the ratio uses log-probabilities instead of logarithms of products that may have
underflowed, and the 1e-8 that the code adds in NNM is omitted, because it makes the ratio unbounded
if both probabilities are nearly 1. `original_success` and `original_magnitude` reproduce the code's
numbers, including its exceptions.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

NO_TEXT = "the model was not asked for text"
EMPTY = "the reply is empty, or has no answer in it"
NO_PROBABILITIES = "the model gives no probabilities"
NO_RIVAL = "the probe has no rival answer"
NO_CHOICES = "the probe has no choices"
NO_BASELINE = "the unedited model was not asked"


class AnswerReading(NamedTuple):
    """The reading of an answer: whether it is correct (or as the output defines), the compared
    words, and the deciding rule.
    """

    right: bool
    value: str
    rule: str


def lacks_score(values: Mapping[str, float], unscored: Mapping[str, str]) -> bool:
    """Return True if a score is missing for another reason than a model without probabilities."""
    reasons = unscored.values()
    return bool(reasons) and (
        not values or any(not why.startswith(NO_PROBABILITIES) for why in reasons)
    )


class ProbeScores(NamedTuple):
    """Scores of one answer: `values` has a number per output, `unscored` a reason per output
    without a number, and `readings` the readings of outputs that parse a text.
    """

    values: dict[str, float]
    unscored: dict[str, str]
    readings: Mapping[str, AnswerReading] = MappingProxyType({})


NNM_EPS = 1e-8


def success(gold: float, rival: float) -> float:
    """Return 1.0 if `gold` is strictly more probable than `rival` (natural-log probabilities), else
    0.0.
    """
    return float(gold > rival)


def magnitude(gold: float, rival: float) -> float:
    """Return the margin of `gold` over `rival`, relative to the larger negative log-probability.

    (gold - rival) / -min(gold, rival) on natural-log probabilities, in [-1, 1]: 1 when gold is
    certain and rival is not, 0 on a tie (both certain included), -1 when rival is certain and gold
    is not.
    """
    if gold == rival:
        return 0.0
    if math.isinf(min(gold, rival)):
        if gold > rival:
            return 1.0
        return -1.0
    return (gold - rival) / -min(gold, rival)


def original_success(gold: float, rival: float) -> float:
    """Return success as in the released code, compared after exp(): two underflowed probabilities
    are a tie.
    """
    return float(math.exp(gold) > math.exp(rival))


def original_magnitude(gold: float, rival: float, eps: float = 0.0) -> float:
    """Return magnitude as in the released code, computed from exp() and log() in float64.

    Its three exceptions give 0 and keep the pair in the denominator: either probability underflows
    to 0 (logarithm of zero) or both are 1 (division by zero). `eps` is added to log(gold), which
    the code does for NNM alone.
    """
    try:
        log_gold, log_rival = math.log(math.exp(gold)) + eps, math.log(math.exp(rival))
        return -(log_gold - log_rival) / min(log_gold, log_rival)
    except (ValueError, ZeroDivisionError):
        return 0.0


def difference(gold: float, rival: float) -> float:
    """Return p(gold) - p(rival) from natural-log probabilities, in [-1, 1]: CounterFact's EM, PM
    and NM (Meng et al. 2022).

    The released code compares the geometric means of the tokens' probabilities instead; both agree
    for targets of one token.
    """
    return math.exp(min(gold, 0.0)) - math.exp(min(rival, 0.0))
