"""Scorers that one benchmark defines for itself: ELKEN's and HalluEditBench's."""

from emend.evals.metrics.scores import ProbeScores
from emend.evals.metrics.scoring.base import Output, ReasonedScorer
from emend.memory.probe import Answer, Probe


class ElkenFact(ReasonedScorer):
    """`right` and `overall` of ELKEN's fact questions, see `metrics.published.elken`."""

    outputs = (Output("right", is_right=True, reads="answer"), Output("overall"))
    protocol = "exact"

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        """Compare the answer with the gold ones."""
        from emend.evals.metrics.published.elken import score_elken_fact  # lazily: numpy

        return score_elken_fact(probe, answer, before)


class ElkenFactSame(ReasonedScorer):
    """`same`: a fact question out of scope is answered as before."""

    outputs = (Output("same", agrees_with_unedited=True),)
    needs = ("text", "baseline")

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        """Compare both answers."""
        from emend.evals.metrics.published.elken import score_elken_fact_same  # lazily: numpy

        return score_elken_fact_same(probe, answer, before)


class ElkenOption(ReasonedScorer):
    """`option` and `option_lenient` of ELKEN's tendency questions."""

    outputs = (
        Output("option", protocol="exact", reads="answer"),
        Output("option_lenient", protocol="exact", reads="answer"),
        Output("overall"),
    )

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        """Read the option."""
        from emend.evals.metrics.published.elken import score_elken_option  # lazily: numpy

        return score_elken_option(probe, answer, before)


class ElkenOptionSame(ReasonedScorer):
    """`same` and `same_option`: a tendency question out of scope is answered as before."""

    outputs = (
        Output("same", agrees_with_unedited=True),
        Output("same_option", agrees_with_unedited=True),
    )
    needs = ("text", "baseline")

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        """Compare both answers."""
        from emend.evals.metrics.published.elken import score_elken_option_same  # lazily: numpy

        return score_elken_option_same(probe, answer, before)


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
