"""A chat model of the user's own, named as `module:attribute`, is asked like any provider's."""

import pytest
from langchain_core.language_models import FakeListChatModel

from emend.agents.llm import load_model
from emend.agents.providers.chat_model import ProviderChatModel
from emend.agents.providers.policy import CallPolicy
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.records import read_records
from emend.memory.errors import BadSettings
from emend.memory.registry import trust_typed
from tests.fakes import ScriptedScoringModel

READY = FakeListChatModel(responses=["Ostrim"])


SURE = ScriptedScoringModel(reply=lambda prompt: "Ostrim", log_prob=lambda prompt, target: -1.0)


def slow(sleep: float = 0.0) -> FakeListChatModel:
    """Made with a setting."""
    return FakeListChatModel(responses=["Ostrim"], sleep=sleep)


def broken() -> FakeListChatModel:
    raise OSError("no line")


def text() -> str:
    return "Ostrim"


@pytest.mark.parametrize("attribute", ["READY", "slow"])
def test_an_instance_or_its_factory_is_called_under_the_policy(attribute):
    policy = CallPolicy(max_calls=2)
    model = load_model(f"{__name__}:{attribute}", policy)
    assert isinstance(model, ProviderChatModel) and model.spec == f"{__name__}:{attribute}"
    assert model.invoke("Where?").text == "Ostrim"
    assert policy.ledger.total().requests == 1


def test_settings_go_to_what_makes_it():
    model = load_model(f"{__name__}:slow", sleep=0.5)
    assert (
        isinstance(model, ProviderChatModel) and isinstance(model.inner, FakeListChatModel) and model.inner.sleep == 0.5
    )


def test_one_that_scores_is_taken_as_it_is():
    assert load_model(f"{__name__}:SURE") is SURE


@pytest.mark.parametrize(
    ("spec", "settings", "says"),
    [
        (f"{__name__}:READY", {"sleep": 1}, r"is an instance, and takes no settings \(got sleep\)"),
        (f"{__name__}:slow", {"speed": 1}, "cannot be created or used .TypeError.*'speed'"),
        (f"{__name__}:broken", {}, "cannot be created or used .OSError: no line"),
        (f"{__name__}:text", {}, "gives 'Ostrim', which is not a LangChain chat model"),
        (f"{__name__}:absent", {}, "unknown model .* cannot be loaded: module .* has no attribute 'absent'"),
        ("opnai:gpt", {}, "unknown model 'opnai:gpt': did you mean 'openai'.* No module named 'opnai'"),
        ("opnai", {}, "unknown model 'opnai': did you mean 'openai'.* named module:attribute"),
        ("./my_model.py", {}, "did you mean my_model:ATTRIBUTE"),
    ],
)
def test_what_is_no_model_is_refused_by_name(spec, settings, says):
    trust_typed(spec)
    with pytest.raises(BadSettings, match=says):
        load_model(spec, **settings)


@pytest.mark.slow
def test_a_run_calls_it_counts_its_calls_and_records_its_name(tmp_path):
    spec = f"{__name__}:slow"
    config = RunConfig(benchmark="tinyworld", editors=("rag",), model=spec, limit=2, overrides={"model": {"sleep": 0}})
    run(config, tmp_path / "run")
    records = list(read_records(tmp_path / "run"))
    assert {record.answer for record in records} == {"Ostrim"}
    assert sum(record.usage.calls for record in records) == len(records)
