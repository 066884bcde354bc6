"""Limits, prices and a cache concern models of providers: where none is called they are refused."""

from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

from emend.evals.log.config import RunConfig
from emend.evals.runner.components import RunComponents, load_components, refuse_unused_limits
from emend.memory.errors import BadSettings
from tests.fakes import ScriptedScoringModel

READY = FakeListChatModel(responses=["Ostrim"])
SURE = ScriptedScoringModel(reply=lambda prompt: "Ostrim", log_prob=lambda prompt, target: -1.0)


class Ready(FakeListChatModel):
    """Takes no settings."""

    responses: list[str] = ["Ostrim"]


def make_ready() -> FakeListChatModel:
    return READY


def components(tmp_path: Any, counterfactual: str, **more: Any) -> RunComponents:
    overrides = {"serac": {"counterfactual": counterfactual}}
    config = RunConfig(benchmark="tinyworld", editors=("serac",), model="tiny", overrides=overrides, **more)
    return load_components(config, tmp_path)


@pytest.mark.parametrize(
    ("counterfactual", "calls"),
    [
        (f"{__name__}:READY", True),
        (f"{__name__}:Ready", True),
        (f"{__name__}:make_ready", True),
        (f"{__name__}:SURE", False),
        ("", False),
    ],
)
def test_a_second_model_is_called_through_the_policy_unless_it_is_local(tmp_path, counterfactual, calls):
    assert components(tmp_path, counterfactual).calls_providers is calls


def test_limits_are_taken_for_a_second_model_of_ones_own(tmp_path):
    remote = components(tmp_path, f"{__name__}:READY", max_calls=5)
    assert remote.calls_providers and remote.policy.ledger.max_calls == 5
    refuse_unused_limits(remote.config, remote.policy)
    local = components(tmp_path, "", max_calls=5)
    assert local.passes
    with pytest.raises(BadSettings, match="--max-calls with model 'tiny': a model on this machine"):
        refuse_unused_limits(local.config, local.policy)
