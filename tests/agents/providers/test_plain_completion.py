"""A plain chat completion is the request that OpenAI's client sends, and its reply and errors are the client's."""

import pytest
from langchain_core.messages import HumanMessage

from emend.agents.llm import load_model
from emend.agents.providers import plain_completion, request
from emend.agents.providers.chat_model import ProviderChatModel
from emend.memory.errors import ModelError
from tests.provider.models import quick_policy
from tests.provider.server import Provider

pytestmark = pytest.mark.usefixtures("keys")
OWN = {"x-stainless-raw-response", "host", "content-length"}
"""Headers of the client's way of reading replies, and of a body whose parts have another order."""


def inner_of(provider: Provider, **settings):
    model = load_model(provider.spec("chat"), quick_policy(), **settings)
    assert isinstance(model, ProviderChatModel)
    return model, model.inner


@pytest.mark.parametrize(
    ("settings", "is_plain"),
    [
        ({}, True),
        ({"seed": 3, "max_tokens": 9, "default_headers": {"x-team": "four"}, "stop": ["!"]}, True),
        ({"extra_body": {"top_k": 2}}, False),
        ({"default_query": {"api-version": "7"}}, True),
        ({"use_responses_api": True}, False),
        ({"include_response_headers": True}, False),
    ],
)
def test_a_request_and_its_reply_are_those_of_the_client(settings, is_plain):
    with Provider(lambda asked: "Ostrim – it is") as provider:
        model, inner = inner_of(provider, **settings)
        message, prompt = model.invoke("Where? é"), [HumanMessage("Where? é")]
        own = inner._generate(prompt).generations[0].message
        assert plain_completion.is_plain(inner, inner._get_request_payload(prompt)) is is_plain
        ours, theirs = provider.requests
    assert (ours.path, ours.body) == (theirs.path, theirs.body)
    assert header_lines(ours.headers) == header_lines(theirs.headers)
    assert str(message.text) == str(own.text) and message.usage_metadata == own.usage_metadata
    assert message.additional_kwargs == own.additional_kwargs


def header_lines(headers):
    return {name.lower(): text for name, text in headers.items() if name.lower() not in OWN}


@pytest.mark.parametrize(
    "fault",
    ["401", "402", "400", "overflow", "500", "200", "page", "closed", "truncated", "plain-text", "list", "redirect"],
)
def test_errors_are_those_of_a_request_through_the_client(fault, monkeypatch):
    with Provider(choose=lambda number: fault) as provider:
        model, _ = inner_of(provider)
        errors = []
        for choice in (plain_completion.is_plain, lambda client, payload: False):
            monkeypatch.setattr(request, "is_plain", choice)
            with pytest.raises(ModelError) as raised:
                model.invoke("Where?")
            errors.append((type(raised.value), str(raised.value), provider.count))
    ours, theirs = errors
    assert ours[0] is theirs[0] and 2 * ours[2] == theirs[2]
    assert ours[1] == theirs[1] or "cannot be read" in ours[1] or "Connection error. (" in ours[1]  # with the cause


def test_a_key_that_is_asked_for_anew_and_values_that_are_no_json_go_through_the_client():
    keys = iter(["first-key", "second-key"])
    with Provider() as provider:
        model, inner = inner_of(provider, api_key=lambda: next(keys))
        assert plain_completion._request(inner.root_client, {}) is None
        for _ in range(2):
            model.invoke("Where?")
        assert [asked.headers["authorization"] for asked in provider.requests] == [
            "Bearer first-key",
            "Bearer second-key",
        ]
        _, other = inner_of(provider)
        assert plain_completion._request(other.root_client, {"logit_bias": object()}) is None
