import pytest

from emend.agents.scoring import ScoringModel, join_target
from emend.memory.errors import BadData
from tests.fakes import InstantChatModel, ScriptedChatModel, ScriptedScoringModel


@pytest.mark.parametrize(
    ("prompt", "target", "whole"),
    [
        ("The capital is", "Paris", "The capital is Paris"),
        ("Q: Where?\nA:", "Paris", "Q: Where?\nA: Paris"),
        ("assistant\n", "Paris", "assistant\nParis"),
        ("It is ", "Paris", "It is Paris"),
        ("It is", " Paris", "It is Paris"),
        ("", "Paris", "Paris"),
    ],
)
def test_prompt_and_target_are_one_space_apart(prompt, target, whole):
    assert join_target(prompt, target) == whole


@pytest.mark.parametrize("target", ["", " ", "\n"])
def test_blank_target_is_refused(target):
    with pytest.raises(BadData, match="no tokens"):
        join_target("The capital is", target)


def test_only_models_with_probabilities_are_scoring_models():
    assert isinstance(ScriptedScoringModel(reply=str, log_prob=lambda prompt, target: -1.0), ScoringModel)
    assert isinstance(InstantChatModel(), ScoringModel)
    assert not isinstance(ScriptedChatModel(reply=str), ScoringModel)
