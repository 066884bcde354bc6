"""Success and magnitude from log-probabilities, as DocTER's scoring code defines them, in log space.

ES, PS, CES and NEM, NPM, CEM compare the new target with the old one (is the edit recalled?); NS and NNM compare the
old one with the new one under unrelated prompts (is the rest unchanged?). Defined as in DocTER's scoring code
(H-shw/DocTER-Data-and-Code, eval_base/). Two things are ours: the ratio is taken on log-probabilities and not on
logarithms of products that may have underflowed, and the 1e-8 that the code adds in NNM is left out, because it makes
the ratio unbounded where both probabilities are nearly 1. `original_success` and `original_magnitude` give the code's
own numbers, its exceptions included.
"""

import math

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
