"""CounterFact's magnitudes: differences of probabilities."""

import math


def difference(gold: float, rival: float) -> float:
    """p(gold) - p(rival) from natural-log probabilities, in [-1, 1]: EM, PM and NM of CounterFact (Meng et al. 2022).

    The released code has for each target the geometric mean of its tokens' probabilities; from joint probabilities, as
    here, the result is the same where both targets are one token.
    """
    return math.exp(min(gold, 0.0)) - math.exp(min(rival, 0.0))
