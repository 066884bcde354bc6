"""Contract tests for scorers, to be subclassed by authors of plug-ins."""

# ruff: noqa: D102  (the name of a test says what it holds)

import math
from collections.abc import Callable
from typing import Any, get_args

from emend.evals.metrics.scores import ProbeScores
from emend.evals.metrics.scoring.base import Need, Output, Scorer
from emend.evals.metrics.scoring.registry import own_outputs
from emend.memory.probe import Answer, Probe


class ScorerContract:
    """Tests that pytest collects from a subclass named `Test...`, which says what `factory` is.

    If the scorer needs other fields of probe or answer, override `probe`, `right` and `wrong`.

    Example:
        class TestMine(ScorerContract): def factory(self): return MyScorer
    """

    def factory(self) -> Callable[[], Scorer]:
        """Return the scorer's class under test."""
        raise NotImplementedError("return the scorer's class")

    def probe(self) -> Probe:
        """Return a probe that the scorer supports."""
        return Probe(
            kind="efficacy",
            prompt="The capital of Veldania is",
            gold=("Ostrim",),
            rival="Kravigrad",
            choices=("Ostrim", "Kravigrad"),
        )

    def right(self) -> Answer:
        """Return a correct answer to the probe."""
        return self._answer("Ostrim", -0.1, -3.0)

    def wrong(self) -> Answer:
        """Return a wrong answer to the probe."""
        return self._answer("Kravigrad", -3.0, -0.1)

    def _answer(self, text: str, gold: float, others: float) -> Answer:
        targets = self.factory()().targets(self.probe())
        log_probs = tuple(gold if target in self.probe().gold else others for target in targets)
        counts = tuple(1 for _ in targets)
        return Answer(text=text, log_probs=log_probs, target_tokens=counts, greedy_tokens=counts)

    def _scores(self, answer: Answer, before: Answer | None = None) -> ProbeScores:
        return self.factory()()(self.probe(), answer, before or self.right())

    def test_it_declares_needs_and_outputs(self) -> None:
        scorer = self.factory()()
        assert isinstance(scorer, Scorer), "derive it from emend.extend.Scorer"
        assert scorer.outputs and all(isinstance(output, Output) for output in scorer.outputs)
        assert set(scorer.needs) <= set(get_args(Need)), f"needs are of {get_args(Need)}"

    def test_output_names_are_unique(self) -> None:
        names = [output.name for output in self.factory()().outputs]
        assert len(set(names)) == len(names), f"two outputs have one name: {names}"
        assert not own_outputs().keys() & set(names), "a built-in scorer has an output of that name"

    def test_every_output_has_a_number_or_a_reason(self) -> None:
        names = {output.name for output in self.factory()().outputs}
        for answer in (self.right(), self.wrong()):
            scores = self._scores(answer)
            assert scores.values.keys() | scores.unscored.keys() == names
            assert not scores.values.keys() & scores.unscored.keys()
            assert all(scores.unscored.values()), "a reason is empty"

    def test_shares_are_from_0_to_1_and_verdicts_0_or_1(self) -> None:
        for answer in (self.right(), self.wrong()):
            values = self._scores(answer).values
            for output in self.factory()().outputs:
                value = values.get(output.name, 0.0)
                assert math.isfinite(value) and (0 <= value <= 1 or not output.share), (
                    f"{output.name} is {value}"
                )
                assert not output.is_right or value in (0, 1), (
                    f"{output.name} is {value}: say 0 or 1"
                )

    def test_a_right_answer_has_a_value(self) -> None:
        assert self._scores(self.right()).values, self._scores(self.right()).unscored

    def test_the_verdict_separates_right_from_wrong_answers(self) -> None:
        verdict = self.factory()().verdict
        if verdict is not None:
            assert self._scores(self.right()).values[verdict.name] == 1
            assert self._scores(self.wrong()).values[verdict.name] == 0

    def test_missing_inputs_leave_it_unscored(self) -> None:
        scorer, missing = self.factory()(), Answer()
        names = {output.name for output in scorer.outputs}
        if {"text", "log_probs", "log_probs_or_text", "either"} & set(scorer.needs):
            assert scorer(self.probe(), missing, self.right()).unscored.keys() == names
        if scorer.compares:
            assert scorer(self.probe(), self.right(), None).unscored.keys() == names

    def test_the_same_answer_has_the_same_scores(self) -> None:
        assert self._scores(self.wrong()) == self._scores(self.wrong())

    def test_it_needs_no_arguments_and_keeps_no_state(self) -> None:
        scorer: Any = self.factory()()
        first = scorer(self.probe(), self.right(), self.right())
        scorer(self.probe(), self.wrong(), self.right())
        assert scorer(self.probe(), self.right(), self.right()) == first
