"""The result of a scorer: a number per output, or the reason why an output has none."""

from collections.abc import Callable
from typing import NamedTuple

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
