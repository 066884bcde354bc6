"""Scorers by the log-probabilities of the right answer and its rival."""

import math

from emend.evals.metrics.scores import (
    NNM_EPS,
    NO_PROBABILITIES,
    NO_RIVAL,
    AnswerReading,
    ProbeScores,
    difference,
    magnitude,
    original_magnitude,
    original_success,
    success,
)
from emend.evals.metrics.scoring.base import Output, ReasonedScorer, Result, Value
from emend.evals.metrics.text.choices import parse_truth
from emend.memory.probe import Answer, Probe


def gold_and_rival(probe: Probe, answer: Answer) -> tuple[float, float, str]:
    """Return the log-probabilities of gold and rival, and the reason if they are missing ("" if
    not).
    """
    if probe.rival is None:
        return 0.0, 0.0, NO_RIVAL
    if not answer.log_probs:
        return 0.0, 0.0, NO_PROBABILITIES
    if len(answer.log_probs) < 2:
        return 0.0, 0.0, f"two log-probabilities expected, {len(answer.log_probs)} came"
    gold, rival = answer.log_probs[:2]
    if math.isnan(gold) or math.isnan(rival):
        return 0.0, 0.0, "a log-probability is not a number"
    return min(gold, 0.0), min(rival, 0.0), ""  # rounding may leave a certain answer a hair above 0


class LikelihoodScorer(ReasonedScorer):
    """Base of the scorers that compare the probabilities of gold and rival."""

    needs = ("log_probs",)
    protocol = "likelihood"


class LikelierGold(LikelihoodScorer):
    """`success` and `magnitude`: whether the right answer is more probable than its rival, and by
    how much.
    """

    outputs = (Output("success", is_right=True), Output("magnitude", share=False))

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare the probabilities."""
        gold, rival, why = gold_and_rival(probe, answer)
        return why or {"success": success(gold, rival), "magnitude": magnitude(gold, rival)}


class LikelihoodCode(LikelihoodScorer):
    """`success_code` and `magnitude_code`: as `likelihood`, computed as in DocTER's released code.

    No output where there is nothing to compare; the scorer `likelihood` gives the reason.
    """

    outputs = (Output("success_code"), Output("magnitude_code", share=False))

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare the probabilities."""
        gold, rival, why = gold_and_rival(probe, answer)
        if why:
            return ProbeScores({}, {})
        eps = 0.0 if probe.in_scope else NNM_EPS
        return {
            "success_code": original_success(gold, rival),
            "magnitude_code": original_magnitude(gold, rival, eps),
        }


class Difference(LikelihoodScorer):
    """`difference`: p(gold) - p(rival), CounterFact's EM, PM and NM."""

    outputs = (Output("difference", share=False),)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare the probabilities."""
        gold, rival, why = gold_and_rival(probe, answer)
        return why or difference(gold, rival)


class PerToken(LikelihoodScorer):
    """`success_token` and `difference_token`: CounterFact's, by the geometric mean of the tokens'
    probabilities.
    """

    outputs = (Output("success_token", is_right=True), Output("difference_token", share=False))

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare the means."""
        from emend.evals.metrics.published.counterfact import per_token

        why = gold_and_rival(probe, answer)[2]
        means, uncounted = per_token(answer)
        if why or uncounted:
            return why or uncounted
        return {"success_token": success(*means[:2]), "difference_token": difference(*means[:2])}


class TeacherForced(ReasonedScorer):
    """`token_accuracy`: share of the gold answer's tokens that are the most probable ones after the
    tokens before.

    EasyEdit's accuracy (Wang et al. 2024), in which the model is given the right tokens so far and
    not its own.
    """

    outputs = (Output("token_accuracy", is_right=True),)
    needs = ("log_probs",)
    protocol = "teacher_forced"

    def targets(self, probe: Probe) -> tuple[str, ...]:
        """The right answer, and its rival if it has one."""
        return (probe.gold[0], *(() if probe.rival is None else (probe.rival,)))

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Count the tokens."""
        if not answer.log_probs:
            return NO_PROBABILITIES
        if not answer.greedy_tokens:
            return "the model does not say which tokens are the most probable ones"
        return answer.greedy_tokens[0] / answer.target_tokens[0]


class Reasoning(ReasonedScorer):
    """`acc` of a yes/no question as DocTER scores it: the gold one of " true" and " false" is
    strictly more probable.

    A tie is the code's UNK, which is not correct. The whole word's joint probability is taken where
    the code takes the word's first token; for tokenizers that have both words as one token they are
    equal. For a model without probabilities the text is read instead, `yes` and `no` too (how
    DocTER read ChatGPT's replies is not published). Further outputs: `acc_true` or `acc_false`, the
    accuracy within the label's own block, and `constant`, the score of a model that always says
    true, because the data's blocks differ in size.
    """

    outputs = (
        Output("acc", is_right=True, protocol="likelihood", reads="answer"),
        Output("acc_true", protocol="likelihood"),
        Output("acc_false", protocol="likelihood"),
        Output("constant"),
    )
    needs = ("log_probs_or_text",)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare the probabilities of the words, or read the text."""
        label = f"acc_{probe.gold[0]}"
        value = self._verdict(probe, answer)
        if isinstance(value, str):
            return {"acc": value, label: value}
        right = value.right if isinstance(value, AnswerReading) else value
        constant = float(probe.gold[0] == "true")
        return {"acc": value, label: float(right), "constant": constant}

    def _verdict(self, probe: Probe, answer: Answer) -> Value:
        """Return whether the answer is right, or the reason why it is unscored."""
        if not answer.log_probs and answer.text is not None:
            verdict, rule = parse_truth(answer.text, probe.prompt)
            if verdict is None:
                return rule
            return AnswerReading(verdict == probe.gold[0], verdict, rule)
        gold, rival, why = gold_and_rival(probe, answer)
        return why or success(gold, rival)
