"""A model of the user's own is told apart by what it was made with: in the key of a kept reply, and in the manifest."""

from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from pydantic import Field, SecretStr

from emend.agents.llm import load_model
from emend.agents.providers.chat_model import ProviderChatModel
from emend.agents.providers.request import build_payload, client_settings
from emend.evals.evaluate.resources import model_fingerprint
from tests.fakes import InstantChatModel
from tests.provider.models import quick_policy


class Counting(FakeListChatModel):
    """Says what it was made with; it tells nothing of that to LangChain."""

    responses: list[str] = ["x"]
    end: str = "."
    stop: list[str] | None = None
    service_api_key: SecretStr = SecretStr("sk-held-0123456789")
    gateway_token: str = "tk-held-0123456789"
    address: str = "http://me:pw-of-mine@127.0.0.1/v1"
    options: dict[str, Any] = {"depth": 2, "headers": {"x": "hd-held-0123456789"}}
    client: Any = None
    number: str = Field(default_factory=lambda: str(uuid4()))

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {}

    def _call(self, *asked: Any, **more: Any) -> str:
        return f"Ostrim{self.end}"


def made(end: str = ".", **more: Any) -> Counting:
    return Counting(end=end, **more)


DOT, BANG = Counting(end="."), Counting(end="!")


def of(attribute: str, policy: Any, **settings: Any) -> ProviderChatModel:
    model = load_model(f"{__name__}:{attribute}", policy, **settings)
    assert isinstance(model, ProviderChatModel)
    return model


@pytest.mark.parametrize("attribute", ["Counting", "made"])
def test_another_setting_is_another_reply(attribute, tmp_path):
    policy = quick_policy(cache=tmp_path)
    said = [of(attribute, policy, end=end).invoke("Where?").text for end in (".", "!", ".")]
    assert said == ["Ostrim.", "Ostrim!", "Ostrim."]
    assert policy.ledger.total().cached == 1
    policy.close()


def test_settings_make_a_difference_even_if_the_model_does_not_keep_them(tmp_path):
    policy = quick_policy(cache=tmp_path)
    models = [ProviderChatModel.wrap(InstantChatModel(text=end), "a:b", policy, {"end": end}) for end in ".!"]
    assert [model.invoke("Where?").text for model in models] == [".", "!"]
    policy.close()


def test_an_instance_is_identified_by_its_fields(tmp_path):
    policy = quick_policy(cache=tmp_path)
    for model in (DOT, BANG):
        asked = ProviderChatModel.wrap(model, "mine:model", policy)
        assert asked.invoke("Where?").text == f"Ostrim{model.end}"
    assert policy.ledger.total().cached == 0
    policy.close()


def test_the_manifest_has_the_settings_and_no_key():
    model = of("made", quick_policy(), end="!", service_api_key="sk-given-0123456789")
    told = model_fingerprint(model.spec, model)["parameters"]
    assert (told["end"], told["class"], told["stop"]) == ("!", f"{__name__}:Counting", None)
    held = client_settings(
        model.inner, {"service_api_key": "sk-given-0123456789", "options": {"api_key": "sk-deep-0123456789"}}
    )
    assert not any(secret in repr((told, held)) for secret in ("sk-", "tk-", "hd-", "pw-of-mine"))
    assert told["address"] == "http://127.0.0.1/v1"


def test_values_that_are_not_plain_are_identified_by_their_class():
    class Client:
        """Its text has its place in memory."""

    assert client_settings(made(client=Client()), {}) == client_settings(made(client=Client()), {})
    assert client_settings(made(client=made), {})["client"] == f"{__name__}:made"
    assert client_settings(made(client=partial(made)), {})["client"] == "functools:partial"
    assert client_settings(made(number="7"), {})["number"] == "7"


def test_the_stop_texts_of_a_call_are_not_those_of_the_model(tmp_path):
    policy = quick_policy(cache=tmp_path)
    model = of("made", policy, stop=["\n"])
    for stop in (None, [";"], ["\n"]):
        model.invoke("Where?", stop=stop)
    assert (policy.ledger.total().cached, model.sent_parameters()["stop"]) == (1, ["\n"])
    policy.close()


TURNS: list[BaseMessage] = [HumanMessage("a"), AIMessage("b"), HumanMessage("c")]


@pytest.mark.parametrize("settings", [{}, {"use_responses_api": True}, {"model": "o3-mini"}, {"model": "gpt-5-pro"}])
@pytest.mark.parametrize("messages", [TURNS, TURNS[:1], [SystemMessage("s"), *TURNS]], ids=len)
def test_turns_are_sent_as_the_client_would_send_them(messages, settings):
    client = ChatOpenAI(**{"model": "gpt-4o-mini", "api_key": SecretStr("sk-none"), "temperature": 1} | settings)
    built = client._get_request_payload(messages, stop=["x"], seed=1)
    assert build_payload(client, {}, messages, ["x"], {"seed": 1}) == built
