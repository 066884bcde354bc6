"""Scorers that compare an answer with the unedited model's."""

from emend.agents.parsing.passages import without_question
from emend.evals.metrics.scores import NO_BASELINE, NO_TEXT, AnswerReading
from emend.evals.metrics.scoring.base import Output, ReasonedScorer, Result
from emend.evals.metrics.scoring.likelihood import gold_and_rival
from emend.evals.metrics.scoring.text import passage_of, read_passage_for
from emend.evals.metrics.text.exact import normalise
from emend.memory.probe import Answer, Probe


class SameAsUnedited(ReasonedScorer):
    """`agreement`: 1.0 when the edited model answers as the unedited one.

    Texts are the same if equal after normalisation, if both assert the gold answer by the rule of
    `contains`, or, for a probe without gold, if their passages are equal without the question that
    they say again; without texts, whether the same one of gold and rival is more probable.
    """

    outputs = (Output("agreement", agrees_with_unedited=True, reads="passage"),)
    needs = ("either", "baseline")

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare the answers."""
        if before is None:
            return NO_BASELINE
        if None in (answer.text, before.text) and not (answer.log_probs or before.log_probs):
            return NO_TEXT
        if answer.text is not None and before.text is not None:
            if normalise(answer.text) == normalise(before.text):
                return AnswerReading(True, normalise(answer.text), "the unedited model's answer")
            return _read_passages(probe, answer, before)
        now_gold, now_rival, why = gold_and_rival(probe, answer)
        then_gold, then_rival, why_before = gold_and_rival(probe, before)
        if why or why_before:
            return why or f"unedited model: {why_before}"
        return float(_order(now_gold, now_rival) == _order(then_gold, then_rival))


def _read_passages(probe: Probe, answer: Answer, before: Answer) -> AnswerReading:
    """Return whether the passages of two answers say the same to a reader who looks for the answer
    only.
    """
    now, then = passage_of(answer), passage_of(before)
    if any(probe.gold):
        readings = [read_passage_for(probe, passage) for passage in (now, then)]
        if readings[0].right and readings[1].right:
            return AnswerReading(True, readings[0].value, "both assert the right answer")
        return AnswerReading(False, readings[0].value, "another text, and one is not right")
    now, then = _without_question(now, probe.prompt), _without_question(then, probe.prompt)
    if now and now == then:
        return AnswerReading(True, now, "the same passage, without the question")
    return AnswerReading(False, now, "another passage")


def _without_question(text: str, question: str) -> str:
    return normalise(" ".join(without_question(text, question).split()))


def _order(gold: float, rival: float) -> int:
    return (gold > rival) - (gold < rival)


class WrongBefore(ReasonedScorer):
    """`right_before`: 1.0 when the unedited model's answer is right by the first scorer of the
    probe's that says so.

    A magnitude says it by its sign, a token accuracy by 1.
    """

    outputs = (Output("right_before"),)
    needs = ("either", "baseline")

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Score the unedited model's answer."""
        from emend.evals.metrics.scorers import score  # lazily: it scores by all others
        from emend.evals.metrics.scoring.registry import scorer_of

        if before is None:
            return NO_BASELINE
        verdicts = {name: verdict for name in probe.scorers if (verdict := scorer_of(name).verdict)}
        others = probe.model_copy(update={"scorers": tuple(verdicts)})
        values = score(others, before).values
        right = [values[verdict.name] for verdict in verdicts.values() if verdict.name in values]
        if right:
            return float(right[0] == 1.0)
        return f"the unedited model: {NO_TEXT}"
