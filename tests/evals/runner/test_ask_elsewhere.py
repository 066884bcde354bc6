"""Which configurations ask a provider besides the model under test, so that limits have somebody to hold for."""

from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

from emend.evals.log.manifest import RunConfig
from emend.evals.runner.components import asks_elsewhere, model_with_policy
from emend.memory.errors import BadSettings
from tests.fakes import ScriptedScoringModel

READY = FakeListChatModel(responses=["Ostrim"])
SURE = ScriptedScoringModel(reply=lambda prompt: "Ostrim", log_prob=lambda prompt, target: -1.0)
NUMBER = 3


class Made(FakeListChatModel):
    """Made without any setting."""

    responses: list[str] = ["Ostrim"]


def made() -> FakeListChatModel:
    return READY


def config(value: Any, **more: Any) -> RunConfig:
    told = {"serac": {"counterfactual": value}}
    return RunConfig(benchmark="tinyworld", editors=("serac",), model="tiny", overrides=told, **more)


@pytest.mark.parametrize(
    ("value", "asks"),
    [
        ("openai:m", True),
        ("hf:somebody/small", False),
        (f"{__name__}:READY", True),
        (f"{__name__}:Made", True),
        (f"{__name__}:made", True),
        (f"{__name__}:SURE", False),
        (f"{__name__}:ScriptedScoringModel", False),
        (f"{__name__}:NUMBER", False),
        (f"{__name__}:RunConfig", False),
        (f"{__name__}:absent", False),
        ("no_such_module:READY", False),
        ("C:\\models\\small", False),
        ("", False),
        (0.5, False),
    ],
)
def test_a_second_model_of_a_provider_or_of_ones_own_is_asked(value, asks):
    assert asks_elsewhere(config(value)) is asks


def test_limits_are_taken_for_a_second_model_of_ones_own():
    _, policy = model_with_policy(config(f"{__name__}:READY", max_calls=5))
    assert policy.ledger.max_calls == 5
    with pytest.raises(BadSettings, match="--max-calls with model 'tiny': a model on this machine"):
        model_with_policy(config("", max_calls=5))
