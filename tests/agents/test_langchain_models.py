"""Models of any LangChain provider, through the real class of one against a local server."""

from typing import Any

import pytest

from emend.agents.langchain_models import load_langchain
from emend.agents.llm import load_model
from emend.agents.providers.chat_model import ProviderChatModel
from emend.memory.errors import BadSettings, KeyRefused, MissingExtra
from tests.provider.models import quick_policy
from tests.provider.server import Provider

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k-sesame-0123456789")


def test_calls_are_counted_retried_and_within_the_policy_as_those_of_built_in_providers():
    with Provider(faults=["500", "429"]) as provider:
        policy = quick_policy()
        model = load_model(f"langchain:openai:any@{provider.openai}", policy, max_tokens=9)
        assert isinstance(model, ProviderChatModel)
        message = model.invoke("Where?")
        total = policy.ledger.total()
        usage = message.usage_metadata
        assert message.text and usage and usage["input_tokens"] == total.input_tokens > 0
        assert (provider.count, total.requests, total.retries) == (3, 3, 2)
        sent = provider.requests[-1].body
        assert (sent["temperature"], sent["model"]) == (0, "any") and 9 in sent.values()


def test_a_refused_key_is_named_by_its_error_and_never_shown():
    with Provider(faults=["401"]) as provider, pytest.raises(KeyRefused) as error:
        load_model(f"langchain:openai:any@{provider.openai}", quick_policy()).invoke("Where?")
    assert "sesame" not in str(error.value)


def test_a_class_gets_the_defaults_that_it_has_and_the_users_settings():
    model: Any = load_langchain("openai:any", seed=3, temperature=None)
    assert (model.max_retries, model.temperature, model.seed, model.request_timeout) == (0, None, 3, 120)


@pytest.mark.parametrize(
    ("name", "settings", "error", "says"),
    [
        ("openai", {}, BadSettings, "write langchain:PROVIDER:NAME"),
        ("opnai:x", {}, BadSettings, "LangChain knows no such provider: did you mean 'openai'"),
        (
            "openai:x",
            {"sede": 1},
            BadSettings,
            "unknown setting 'sede' of model 'langchain:openai:x': did you mean 'seed'",
        ),
        ("openai:x@http://u:p@h/v1", {}, BadSettings, "has a password"),
        ("openai:x", {"deadline": "soon"}, BadSettings, "setting 'deadline' is 'soon': give a number above 0"),
        ("ollama:llama3", {}, MissingExtra, "pip install langchain-ollama"),
        ("google_genai:gemini-2.5-pro", {}, MissingExtra, "pip install langchain-google-genai"),
    ],
)
def test_what_is_missing_or_wrong_is_named(name, settings, error, says):
    with pytest.raises(error, match=says):
        load_langchain(name, **settings)


def test_a_missing_key_is_named(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(BadSettings, match="OPENAI_API_KEY"):
        load_langchain("openai:any")
