"""HalluEditBench's comparison of two texts, of which one has to hold the other."""

from emend.evals.metrics.scoring.base import Output, ReasonedScorer
from emend.memory.probe import Answer, Probe


def partial_match(answer: str, right: str) -> bool:
    """True if one text holds the other in any case, as HalluEditBench's code compares them before
    it asks a model; never for an empty answer.
    """
    reply, gold = answer.strip().lower(), right.strip().lower()
    return bool(reply) and (reply in gold or gold in reply)


class PartialMatch(ReasonedScorer):
    """`partial`: the answer holds the right one, or is a part of it (HalluEditBench)."""

    outputs = (Output("partial", is_right=True),)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> float:
        """Compare with each gold text."""
        return float(any(partial_match(answer.text or "", gold) for gold in probe.gold))


class PartialSame(ReasonedScorer):
    """`partial_same`: the answer holds the one before the edit, or is a part of it."""

    outputs = (Output("partial_same", agrees_with_unedited=True),)
    needs = ("text", "baseline")

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> float | str:
        """Compare both answers."""
        if before is None or before.text is None:
            return "the unedited model has no answer"
        return float(partial_match(answer.text or "", before.text))
