"""Built-in questions with choices, which need no download."""

import tomllib
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from emend.agents.scoring import ScoringModel, TextModel
from emend.evals.run.side_effects.ability_score import BUILT_IN, AbilityScore
from emend.memory.edit import FrozenModel
from emend.memory.errors import EmendError

QUESTIONS = Path(__file__).parent / "built_in_questions.toml"


class ChoiceQuestion(FrozenModel):
    """A prompt and its continuations, of which the first is right."""

    prompt: str = ""
    choices: tuple[str, ...]


class BuiltInTask:
    """Questions with two to four choices: right where the first has the highest probability, as in lm_eval's `acc`.

    Args:
        questions: those of `built_in_questions.toml`, or others.
    """

    def __init__(self, questions: Sequence[ChoiceQuestion]) -> None:
        self._questions = questions

    def measure(self, model: Any) -> list[AbilityScore]:
        """The share of right choices."""
        plain = model.plain() if isinstance(model, TextModel) else model
        if not isinstance(plain, ScoringModel):
            return [AbilityScore(task=BUILT_IN, unscored=f"{type(model).__name__} has no log-probabilities")]
        try:
            likelihoods = [plain.score(question.prompt, question.choices).log_probs for question in self._questions]
        except EmendError as error:
            return [AbilityScore(task=BUILT_IN, unscored=str(error))]
        if not all(isfinite(value) for values in likelihoods for value in values):
            return [AbilityScore(task=BUILT_IN, unscored="the edited model's log-probabilities are not finite")]
        scores = tuple(float(first > max(others)) for first, *others in likelihoods)
        return [AbilityScore(task=BUILT_IN, score=sum(scores) / len(scores), scores=scores)]


def built_in_questions() -> list[ChoiceQuestion]:
    """Questions on grammar, arithmetic, words, common sense and short texts."""
    kinds = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))
    return [ChoiceQuestion(**question) for questions in kinds.values() for question in questions]
