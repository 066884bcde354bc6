"""What clients make of odd replies is put right: over the real clients, and a server that says what some models say."""

import json
import time
from typing import Any

import pytest

from emend.agents.providers.chat_model import ProviderChatModel
from emend.agents.providers.policy import CallPolicy
from emend.agents.providers.prices import Price, Prices
from emend.memory.errors import (
    BudgetReached,
    ContextOverflow,
    ModelError,
    ModelReplyError,
    ModelUnreachable,
    ReplyCutOff,
)
from tests.provider.models import PROTOCOLS, asked_model, quick_policy
from tests.provider.protocols import Asked, Raw, Said, ToolCall, whole
from tests.provider.server import Provider

pytestmark = pytest.mark.usefixtures("keys")


def search(query: str) -> str:
    """Search."""
    return query


def calling(arguments: Any) -> Any:
    """A responder that calls the tool with these arguments, as they stand in the body."""

    def says(asked: Asked) -> Raw:
        body = whole(asked, Said(calls=[ToolCall("search", {})]))
        if asked.protocol == "chat":
            body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = arguments
        elif asked.protocol == "responses":
            body["output"][0]["arguments"] = arguments
        else:
            body["content"][0]["input"] = arguments
        body["usage"] |= {name: 7 for name in body["usage"] if name in ("completion_tokens", "output_tokens")}
        return Raw(body)

    return says


def nested(depth: int) -> dict[str, Any]:
    """An object of so many levels."""
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize("depth", [199, 300, 700, 900])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arguments_that_are_nested_too_deeply_are_an_unreadable_reply_which_is_counted(protocol, depth):
    arguments = nested(depth - 5)  # Anthropic's stand in the body itself
    with Provider(calling(arguments if protocol == "anthropic" else json.dumps(arguments))) as provider:
        model = asked_model(provider, protocol)
        if depth < 200:
            assert model.bind_tools([search]).invoke("Find it").tool_calls[0]["args"] == arguments
            return
        problem = "the reply is nested" if protocol == "anthropic" else "and they are nested"
        kind = ModelUnreachable if protocol == "anthropic" else ModelReplyError
        with pytest.raises(kind, match=f"{problem} more than 200 levels deep"):
            model.bind_tools([search]).invoke("Find it")
    assert model.policy.ledger.total().requests == provider.count


@pytest.mark.parametrize("field", ["usage", "more"])
@pytest.mark.parametrize("depth", [300, 700, 900, 5000])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reply_that_is_nested_too_deeply_is_no_answer(protocol, depth, field):
    def says(asked: Asked) -> Raw:
        body = json.dumps(whole(asked, Said("Ostrim")) | {field: "deep"})
        levels = '{"a":' * depth + "1" + "}" * depth
        return Raw(body.replace('"deep"', levels), headers={"Content-Type": "application/json"})

    with Provider(says) as provider:
        with pytest.raises(ModelUnreachable, match="the reply is nested more than 200 levels deep"):
            asked_model(provider, protocol).invoke("Where?")


@pytest.mark.parametrize("role", ["x", "user", "system"])
def test_a_message_of_another_role_is_no_answer(role):
    def says(asked: Asked) -> Raw:
        body = whole(asked, Said("Ostrim"))
        body["choices"][0]["message"]["role"] = role
        return Raw(body)

    with Provider(says) as provider:
        with pytest.raises(ModelError, match="the reply cannot be read"):
            asked_model(provider).invoke("Where?")


def test_of_very_many_choices_only_the_first_is_converted():
    def says(asked: Asked) -> Raw:
        body = whole(asked, Said("Ostrim"))
        body["choices"] *= 30_000
        return Raw(body)

    with Provider(says) as provider:
        model, begin = asked_model(provider), time.thread_time()
        assert model.invoke("Where?").text == "Ostrim"
        assert time.thread_time() - begin < 2


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of Anthropic's client, which reads it first
@pytest.mark.parametrize(
    ("protocol", "arguments", "reply"),
    [
        ("chat", '["Ostrim"]', '["Ostrim"]'),
        ("chat", json.dumps(json.dumps({"query": "Ostrim"})), '{"query": "Ostrim"}'),
        ("chat", {"query": "Ostrim"}, '{"query": "Ostrim"}'),
        ("responses", '["Ostrim"]', '["Ostrim"]'),
        ("anthropic", "Ostrim", "Ostrim"),
        ("anthropic", ["Ostrim"], '["Ostrim"]'),
    ],
)
def test_arguments_that_are_no_object_are_an_unreadable_reply_which_is_counted(protocol, arguments, reply):
    with Provider(calling(arguments)) as provider:
        model = asked_model(provider, protocol)
        with pytest.raises(ModelReplyError, match="tool call whose arguments are a JSON object, at '") as caught:
            model.bind_tools([search]).invoke("Find it")
    assert (type(caught.value), caught.value.reply, provider.count) == (ModelReplyError, reply, 1)
    spent = model.policy.ledger.total()
    assert (spent.requests, spent.replies, spent.untold) == (1, 1, 0)
    assert (spent.input_tokens, spent.output_tokens) == (2, 7) and caught.value.usage.output_tokens == 7


def test_such_a_reply_without_numbers_of_tokens_is_counted_as_untold():
    def says(asked: Asked) -> Raw:
        told: Raw = calling('["Ostrim"]')(asked)
        return Raw(told.body | {"usage": None})  # type: ignore[operator]  # a mapping here

    with Provider(says) as provider:
        model = asked_model(provider)
        with pytest.raises(ModelReplyError) as caught:
            model.bind_tools([search]).invoke("Find it")
    assert caught.value.usage.untold == model.policy.ledger.total().untold == 1


def untold(asked: Asked) -> Raw:
    body = whole(asked, Said("Ostrim"))
    return Raw(body | {"usage": None if asked.protocol == "anthropic" else dict.fromkeys(body["usage"])})


@pytest.mark.parametrize("protocol", ["chat", "anthropic"])
def test_a_usage_of_nulls_is_none_and_stops_a_run_that_limits_its_cost(protocol):
    prices = Prices(models={"m": Price(input=1, output=1)})
    with Provider(untold) as provider:
        free = asked_model(provider, protocol)
        message = free.invoke("Which town is it?")
        assert (message.text, message.usage_metadata, free.policy.ledger.total().untold) == ("Ostrim", None, 1)
        limited: CallPolicy = quick_policy()
        limited.ledger.prices = Prices(models={provider.spec(protocol): prices.models["m"]})
        limited.ledger.max_cost = 1.0
        with pytest.raises(BudgetReached, match="does not report its tokens"):
            asked_model(provider, protocol, limited).invoke("Which town is it?")


def test_thoughts_that_the_total_alone_counts_are_paid_for():
    usage = {"prompt_tokens": 37, "completion_tokens": 5, "total_tokens": 800}
    with Provider(lambda asked: Raw(whole(asked, Said("Ostrim")) | {"usage": usage})) as provider:
        model = asked_model(provider)
        message: Any = model.invoke("Which town is it?")
        spent = model.policy.ledger.total()
    assert message.usage_metadata["output_tokens"] == spent.output_tokens == 763 and spent.input_tokens == 37


def with_status(status: str) -> Any:
    def says(asked: Asked) -> Raw:
        return Raw(whole(asked, Said("Ostrim is")) | {"status": status, "incomplete_details": None})

    return says


@pytest.mark.parametrize("status", ["cancelled", "in_progress", "queued"])
def test_a_response_that_has_not_ended_is_no_answer(status):
    with Provider(with_status(status)) as provider:
        with pytest.raises(ModelUnreachable, match=f"the reply is '{status}'"):
            asked_model(provider, "responses").invoke("Which town is it?")
        assert provider.count == 3


def test_a_response_that_is_incomplete_without_details_is_cut_off():
    with Provider(with_status("incomplete")) as provider, pytest.raises(ReplyCutOff) as caught:
        asked_model(provider, "responses").invoke("Which town is it?")
    assert (caught.value.reply, provider.count) == ("Ostrim is", 1)


@pytest.mark.parametrize("streaming", [False, True])
def test_of_several_messages_of_a_response_the_last_is_the_answer(streaming):
    with Provider(lambda asked: Said("Ostrim", lead="Let me see.")) as provider:
        assert asked_model(provider, "responses", streaming=streaming).invoke("Which town is it?").text == "Ostrim"


def test_a_message_before_tool_calls_stays():
    said = Said("Now I look.", calls=[ToolCall("search", {"query": "x"})], lead="Let me see.")
    with Provider(lambda asked: said) as provider:
        message = asked_model(provider, "responses").bind_tools([search]).invoke("Find it")
    assert message.text == "Let me see.Now I look." and message.tool_calls


def test_the_message_of_an_error_that_is_a_string_has_no_body_around_it():
    said = "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096."
    for protocol in PROTOCOLS:
        with Provider(lambda asked: Raw({"error": said, "error_type": "validation"}, 422)) as provider:
            model: ProviderChatModel = asked_model(provider, protocol)
            with pytest.raises(ContextOverflow, match="HTTP 422.: Input validation error: `inputs`"):
                model.invoke("x")
