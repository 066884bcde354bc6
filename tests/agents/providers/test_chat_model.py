"""The real clients of three protocols, against a server on 127.0.0.1 that fails when it is told to."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from emend.agents.providers.chat_model import ProviderChatModel
from emend.agents.providers.policy import Backoff
from emend.memory.errors import (
    BudgetReached,
    CallDropped,
    ContextOverflow,
    ModelReplyError,
    ModelUnreachable,
    ProviderPaused,
    ReplyRefused,
)
from tests.fakes import InstantChatModel
from tests.params import mostly_slow
from tests.provider.models import PROTOCOLS, QUICK, asked_model, quick_policy
from tests.provider.outcomes import OUTCOMES
from tests.provider.protocols import Raw, Said, ToolCall
from tests.provider.server import FAULTS, Provider

EVERY = [(protocol, streaming) for protocol in PROTOCOLS for streaming in (False, True)]
KEY = "sk-planted-0123456789"

OUTCOME = {fault: (told.error, QUICK.attempts if told.passing else 1) for fault, told in OUTCOMES.items()}
"""What is raised when a fault does not pass, and after how many requests."""


pytestmark = pytest.mark.usefixtures("keys")


def test_every_fault_has_an_outcome():
    assert set(OUTCOME) | {"wrong_schema"} == set(FAULTS)


@pytest.mark.parametrize(("protocol", "streaming"), EVERY)
def test_a_reply_comes_whole_and_is_counted(protocol, streaming):
    with Provider(lambda asked: "Ostrim is the capital.") as provider:
        model = asked_model(provider, protocol, streaming=streaming)
        message: Any = model.invoke("Which town is it?")
    assert (str(message.text), message.usage_metadata["total_tokens"], provider.count) == (
        "Ostrim is the capital.",
        8,
        1,
    )
    spent = model.policy.ledger.total()
    assert (spent.requests, spent.replies, spent.input_tokens, spent.output_tokens) == (1, 1, 4, 4)
    assert bool(provider.requests[0].body.get("stream")) is streaming


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "streaming"), mostly_slow(EVERY, *EVERY[:2]))
def test_a_lasting_fault_is_named_after_as_many_requests_as_it_is_worth(protocol, streaming):
    with Provider(hang=1.0) as provider:
        for fault, (error, requests) in OUTCOME.items():
            if fault == "hang" and (protocol, streaming) != ("chat", False):
                continue  # the clients share their timeouts; one is waited for
            if fault == "refusal" and (protocol, streaming) == ("chat", True):
                error = ModelReplyError  # the client drops a streamed refusal: what is left is an empty reply
            provider.faults.extend([fault] * 9)
            timeout = 0.3 if fault == "hang" else 20.0
            before, model = provider.count, asked_model(provider, protocol, streaming=streaming, timeout=timeout)
            with pytest.raises(error) as caught:
                model.invoke("Which town is it?")
            provider.faults.clear()
            assert (type(caught.value), provider.count - before) == (error, requests), fault
            assert model.policy.ledger.total().requests == requests
            assert KEY not in str(caught.value) and provider.spec(protocol) in str(caught.value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", ["429", "500", "503", "reset", "truncated"])
def test_a_passing_fault_costs_one_request_more_and_no_answer(protocol, fault):
    with Provider(lambda asked: "Ostrim", faults=[fault, fault]) as provider:
        model = asked_model(provider, protocol)
        message = model.invoke("Which town is it?")
    assert (str(message.text), provider.count, message.response_metadata["tries"]) == ("Ostrim", 3, 3)
    spent = model.policy.ledger.total()
    assert (spent.requests, spent.retries, spent.replies) == (3, 2, 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_that_breaks_off_is_no_short_answer(protocol):
    with Provider(lambda asked: "Ostrim, not Halmen", faults=["truncated"]) as provider:
        message = asked_model(provider, protocol, streaming=True).invoke("Which town is it?")
    assert (str(message.text), provider.count) == ("Ostrim, not Halmen", 2)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_page_in_place_of_a_reply_is_shown(protocol):
    with Provider(choose=lambda number: "page") as provider:
        for streaming in (False, True):
            with pytest.raises(ModelUnreachable, match="the reply was not JSON: '<html>We are at work") as caught:
                asked_model(provider, protocol, streaming=streaming).invoke("x")
            assert "does not answer" not in str(caught.value)


def test_retry_after_is_waited_for():
    with Provider(faults=["429-after"], after="0.3") as provider:
        asked_model(provider).invoke("x")
        first, second = provider.requests
    assert 0.3 <= second.at - first.at < 20


def test_a_limit_is_waited_out_beyond_the_tries_of_a_fault():
    with Provider(lambda asked: "Ostrim", faults=["429"] * 8) as provider:
        policy = quick_policy(backoff=replace(QUICK, rate_limited=0.4))
        assert str(asked_model(provider, policy=policy).invoke("x").text) == "Ostrim"
    assert provider.count == 9


def test_a_pause_in_the_error_text_is_waited_for():
    limited = Raw({"error": {"message": "Rate limit reached. Please try again in 300ms.", "code": "rate_limit"}}, 429)
    replies: Any = iter([limited, "Ostrim"])
    with Provider(lambda asked: next(replies)) as provider:
        asked_model(provider).invoke("x")
        first, second = provider.requests
    assert 0.3 <= second.at - first.at < 20


@pytest.mark.parametrize("protocol", ["chat", "anthropic"])
def test_a_retry_after_beyond_patience_ends_the_call_at_once(protocol):
    with Provider(faults=["429-after"], after="3600") as provider:
        began = time.monotonic()
        with pytest.raises(ProviderPaused, match=r"429.*a pause of 1:00:00: resume after 2.* UTC"):
            asked_model(provider, protocol).invoke("x")
    assert provider.count == 1 and time.monotonic() - began < 60


def test_what_is_recorded_as_sent_is_what_was_sent():
    names = {"chat": "gpt-4.1-mini", "responses": "gpt-5-mini", "anthropic": "claude-any"}
    with Provider(lambda asked: "x") as provider:
        for protocol, name in names.items():
            model = asked_model(provider, protocol, name=name, max_tokens=77)
            model.invoke("Which town is it?", stop=["."] if protocol != "responses" else None)
            body = {key: value for key, value in provider.requests[-1].body.items() if key not in ("messages", "input")}
            sent = [
                {key: value for key, value in one.items() if value is not False}
                for one in model.policy.ledger.total().sent
            ]
            assert {key: value for key, value in body.items() if value is not False} in sent
    assert ["temperature" in request.body for request in provider.requests] == [True, False, True]
    assert provider.requests[0].body["max_completion_tokens"] == 77  # not max_tokens, as it was asked
    assert provider.requests[2].body["max_tokens"] == 77


def test_a_temperature_of_none_is_not_sent():
    with Provider(lambda asked: "x") as provider:
        for protocol in PROTOCOLS:
            asked_model(provider, protocol, temperature=None).invoke("x")
    assert not any("temperature" in request.body for request in provider.requests)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tools_are_bound_through_the_same_layer(protocol):
    def search_memory(query: str) -> str:
        """Search."""
        return query

    with Provider(
        lambda asked: Said(calls=[ToolCall(asked.tools[0], {"query": "Ostrim"})]), faults=["500"]
    ) as provider:
        model = asked_model(provider, protocol)
        message = model.bind_tools([search_memory]).invoke("Find it")
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("search_memory", {"query": "Ostrim"})]
    assert (provider.count, model.policy.ledger.total().requests) == (2, 2)


def test_equal_calls_are_all_made():
    with Provider(lambda asked: "x") as provider:
        model = asked_model(provider)
        for _ in range(3):
            model.invoke("Which town is it?")
    assert provider.count == 3


def test_a_call_beyond_the_limit_is_never_made():
    with Provider(lambda asked: "x", faults=["500"]) as provider:
        model = asked_model(provider, policy=quick_policy(max_calls=3))
        model.invoke("a")
        model.invoke("b")
        with pytest.raises(BudgetReached, match="--max-calls 3"):
            model.invoke("c")
    assert provider.count == 3


def test_a_cut_reply_is_an_answer_where_the_call_set_the_limit_itself():
    with Provider(lambda asked: "Ostrim and more", faults=["length"]) as provider:
        assert str(asked_model(provider).invoke("x", max_tokens=3).text) == "Ostrim an"


def test_nothing_listens_at_the_address():
    with Provider() as provider:
        model = asked_model(provider)
    with pytest.raises(ModelUnreachable, match="Check the provider and the address"):
        model.invoke("x")


def test_every_attempt_waits_for_its_turn():
    with Provider(faults=["500", "500"]) as provider:
        model = asked_model(provider, policy=quick_policy(rpm=300))
        began = time.monotonic()  # not from the first request, which a new client may be long about
        model.invoke("x")
        since = [request.at - began for request in provider.requests]
    assert len(since) == 3 and since[1] >= 0.199 and since[2] >= 0.399


def test_any_chat_model_can_be_wrapped_even_without_usage():
    class Plain(InstantChatModel):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            return ChatResult(generations=[ChatGeneration(message=AIMessage("Ostrim"))])

    policy = quick_policy()
    model = ProviderChatModel.wrap(Plain(), "plugin:plain", policy)
    assert str(model.invoke("x").text) == "Ostrim" and not model.supports_structure
    assert (policy.ledger.total().replies, policy.ledger.total().untold) == (1, 1)
    with pytest.raises(NotImplementedError):
        model.bind_tools([])


def test_an_error_that_is_no_providers_doing_comes_out_as_it_is():
    class Broken(InstantChatModel):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            raise ZeroDivisionError("a mistake of ours")

    policy = quick_policy()
    with pytest.raises(ZeroDivisionError):
        ProviderChatModel.wrap(Broken(), "plugin:broken", policy).invoke("x")
    assert policy.ledger.total().requests == 1


def test_a_call_that_waits_gives_up_when_the_run_ends():
    with Provider(choose=lambda number: "500") as provider:
        policy = quick_policy(backoff=Backoff(attempts=9, first=60, longest=60, total=600))
        model = asked_model(provider, policy=policy)
        threading.Timer(0.3, policy.stopped.set).start()
        began = time.monotonic()
        with pytest.raises(CallDropped):
            model.invoke("x")
    assert time.monotonic() - began < 20 and provider.count == 1


def test_the_provider_can_serve_a_model():
    with Provider.of_model(InstantChatModel(text="Halmen")) as provider:
        assert str(asked_model(provider, "anthropic").invoke("x").text) == "Halmen"


USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
NO_CHOICES = [
    {"choices": [], "usage": USAGE},
    {"choices": None, "usage": USAGE},
    {"id": "x", "choices": [], "usage": USAGE},
]


@pytest.mark.parametrize("body", NO_CHOICES)
def test_a_reply_without_choices_is_asked_for_once_more_and_its_tokens_are_counted(body):
    with Provider(lambda asked: Raw(body)) as provider:
        model = asked_model(provider)
        with pytest.raises(ModelReplyError, match="no choices") as caught:
            model.invoke("Where?")
        assert (provider.count, caught.value.usage.input_tokens, caught.value.usage.calls) == (2, 10, 2)
        assert model.policy.ledger.total().input_tokens == 10


def test_a_reply_without_choices_that_comes_at_the_second_time_is_an_answer():
    bodies: list[Raw | str] = [Raw({"choices": [], "usage": USAGE}), "Ostrim"]
    with Provider(lambda asked: bodies.pop(0)) as provider:
        assert asked_model(provider).invoke("Where?").text == "Ostrim"


def test_a_request_too_large_for_the_account_is_not_repeated():
    text = "Request too large for m on tokens per min (TPM): Limit 30000, Requested 41000."
    with Provider(lambda asked: Raw({"error": {"message": text, "code": "rate_limit_exceeded"}}, 429)) as provider:
        with pytest.raises(ContextOverflow, match="Requested 41000"):
            asked_model(provider).invoke("Where?")
        assert provider.count == 1


REASONS = ["content_filter", "SAFETY", "PROHIBITED_CONTENT", "content_filter: PROHIBITED_CONTENT", "RECITATION"]


@pytest.mark.parametrize("reason", REASONS)
def test_a_reply_that_a_filter_stopped_is_called_so(reason):
    choice = {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": reason}
    with Provider(lambda asked: Raw({"choices": [choice], "usage": USAGE})) as provider:
        with pytest.raises(ReplyRefused, match=f"content filter.*{reason}"):
            asked_model(provider).invoke("Where?")
        assert provider.count == 1


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
@pytest.mark.parametrize("text", ["The capi", ""])
def test_a_reply_that_the_provider_broke_off_is_asked_for_again(reason, text):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
    bodies: list[Raw | str] = [Raw({"choices": [choice], "usage": USAGE}), "Ostrim"]
    with Provider(lambda asked: bodies.pop(0)) as provider:
        assert asked_model(provider).invoke("Where?").text == "Ostrim" and provider.count == 2


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_text_beside_an_empty_content_is_mentioned(field):
    message = {"role": "assistant", "content": "", field: "Ostrim, I think."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    with (
        Provider(lambda asked: Raw({"choices": [choice], "usage": USAGE})) as provider,
        pytest.raises(ModelReplyError, match="reasoning_content 'Ostrim, I think.'"),
    ):
        asked_model(provider).invoke("Where?")


def test_the_time_of_exchanges_counts_for_the_deadline_of_a_call():
    def fail_late(asked: object) -> Raw:
        time.sleep(0.3)
        return Raw({"error": {"message": "The server had an error."}}, 500)

    with Provider(fail_late) as provider:
        policy = quick_policy(backoff=replace(QUICK, attempts=12, total=60.0))
        with pytest.raises(ModelUnreachable):
            asked_model(provider, policy=policy, deadline=1.0).invoke("Where?")
        assert provider.count <= 4
