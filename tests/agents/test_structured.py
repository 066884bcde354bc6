"""Structured replies: through the real clients of three protocols, and read out of text."""

from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from emend.agents.parsing.messages import ReplySchema, parse_message, parse_text
from emend.agents.structured import ask_structured
from emend.memory.errors import ModelReplyError, ReplyCutOff, ReplyRefused, RequestRefused
from tests.fakes import ScriptedChatModel
from tests.provider.models import PROTOCOLS, asked_model
from tests.provider.protocols import Raw, Said, ToolCall
from tests.provider.server import Provider

pytestmark = pytest.mark.usefixtures("keys")

YES, NO = '{"reason": "it says so", "verdict": "yes"}', '{"reason": "it does not", "verdict": "no"}'


class Verdict(BaseModel):
    """What is found."""

    reason: str
    verdict: Literal["yes", "no"]


def scripted(*replies):
    left = list(replies)
    return ScriptedChatModel(reply=lambda prompt: left.pop(0))


@pytest.mark.parametrize(
    "reply",
    [
        YES,
        f"```json\n{YES}\n```",
        f"Here it is: {YES} I hope {{that}} helps.",
        f"<think>perhaps {NO}</think>{YES}",
        f"{YES}\n{YES}",
    ],
)
def test_a_verdict_is_parsed_whatever_surrounds_it(reply):
    asked = ask_structured(scripted(reply), "Does it?", Verdict)
    assert (asked.value.verdict, asked.reply, asked.usage.calls) == ("yes", reply, 1)


@pytest.mark.parametrize(
    "reply",
    [
        f"{YES}\n{NO}",
        f"{NO} or rather {YES}",
        f'{YES} {{"reason": "no", "ver',
        '{"a": ' + YES,
        "yes",
        "{}",
        '["yes"]',
        "",
    ],
)
def test_a_reply_that_says_two_things_or_none_is_never_a_verdict(reply):
    with pytest.raises(ModelReplyError) as caught:
        ask_structured(scripted(reply), "Does it?", Verdict, retries=0)
    assert (caught.value.reply, caught.value.usage.calls) == (reply, 1)


def test_the_form_in_a_prompt_has_the_letters_of_the_values():
    class Named(BaseModel):
        name: Literal["Zoë", "城"]

    assert ReplySchema(Named).form == '{"name": "Zoë" or "城"}'


def test_an_unparsable_reply_is_asked_for_again_with_the_problem():
    model = scripted("maybe", '{"reason": "r", "verdict": "perhaps"}', YES)
    asked = ask_structured(model, [SystemMessage("Judge."), HumanMessage("Does it?")], Verdict, retries=2)
    assert (asked.value.verdict, asked.usage.calls, asked.usage.output_tokens) == ("yes", 3, 1 + 4 + 6)
    assert "holds none that is whole" in model.calls[1] and "maybe" in model.calls[1]
    assert "at 'verdict'" in model.calls[2]


def test_the_error_has_the_last_reply_and_the_usage_of_all():
    with pytest.raises(ModelReplyError) as caught:
        ask_structured(scripted("a b", "c"), "Does it?", Verdict)
    assert (caught.value.reply, caught.value.usage.calls, caught.value.usage.output_tokens) == ("c", 2, 3)


def test_a_model_without_structured_output_gets_the_form_in_its_prompt():
    model = scripted(YES)
    ask_structured(model, "Does it?", Verdict)
    assert '{"reason": string, "verdict": "yes" or "no"}' in model.calls[0]


class Limited(ScriptedChatModel):
    """Takes a limit of new tokens, as a local model does."""

    max_new_tokens: int = 2
    given: dict[str, Any] = {}

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.given |= kwargs | {"stop": stop}
        return super()._generate(messages, stop, run_manager)


def test_a_local_model_may_write_more_than_an_answer_of_a_few_words():
    model = Limited(reply=lambda prompt: YES)
    assert ask_structured(model, "Does it?", Verdict).value.verdict == "yes"
    assert model.given == {"max_new_tokens": 256, "stop": []}


def test_the_schema_that_is_sent_requires_all_and_allows_no_more():
    class Inner(BaseModel):
        title: str = "x"

    class Outer(BaseModel):
        inner: list[Inner]
        free: int | None = None

    schema = ReplySchema(Outer).json_schema
    assert schema["strict"] and schema["required"] == ["inner", "free"] and schema["additionalProperties"] is False
    assert schema["$defs"]["Inner"]["properties"] == {"title": {"type": "string"}}

    class Open(BaseModel):
        named: dict[str, int]

    assert "strict" not in ReplySchema(Open).json_schema
    assert parse_text('{"named": {"a": 1}}', ReplySchema(Open)).named == {"a": 1}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_provider_holds_the_model_to_the_schema(protocol):
    with Provider(lambda asked: YES) as provider:
        asked = ask_structured(asked_model(provider, protocol), "Does it?", Verdict)
        body: Any = provider.requests[0].body
    assert (asked.value, asked.usage.calls) == (Verdict(reason="it says so", verdict="yes"), 1)
    if protocol == "anthropic":
        assert body["tool_choice"]["name"] == body["tools"][0]["name"] == "Verdict"
    else:
        sent = body["response_format"]["json_schema"] if protocol == "chat" else body["text"]["format"]
        assert sent["strict"] and sent["schema"]["additionalProperties"] is False


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("said", ["no JSON at all", '{"reason": "r"}', '{"reason": "r", "verdict": "perhaps"}'])
def test_an_unreadable_reply_loses_neither_text_nor_cost(protocol, said):
    with Provider(lambda asked: said) as provider:
        model = asked_model(provider, protocol)
        with pytest.raises(ModelReplyError) as caught:
            ask_structured(model, "Does it?", Verdict)
    assert caught.value.reply == said and caught.value.usage.calls == provider.count == 2
    spent = model.policy.ledger.total()
    assert caught.value.usage.output_tokens == spent.output_tokens > 0
    assert "could not be read" in str(provider.requests[1].body)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cut_reply_keeps_its_cost_and_is_not_asked_for_again(protocol):
    with Provider(lambda asked: YES, faults=["length"]) as provider:
        model = asked_model(provider, protocol)
        with pytest.raises(ReplyCutOff) as caught:
            ask_structured(model, "Does it?", Verdict)
    assert (caught.value.reply, provider.count) == (YES[:9], 1)
    assert caught.value.usage.output_tokens == model.policy.ledger.total().output_tokens == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_refusal_raises_its_own_error(protocol):
    with Provider(lambda asked: YES, faults=["refusal"]) as provider, pytest.raises(ReplyRefused) as caught:
        ask_structured(asked_model(provider, protocol), "Does it?", Verdict)
    assert (caught.value.reply, provider.count) == ("I will not say that.", 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_empty_reply_is_asked_for_again(protocol):
    with Provider(lambda asked: YES, faults=["empty"]) as provider:
        asked = ask_structured(asked_model(provider, protocol), "Does it?", Verdict)
    assert (asked.value.verdict, asked.usage.calls, provider.count) == ("yes", 2, 2)


def test_two_calls_that_differ_and_another_rejection_are_no_verdict():
    calls = [ToolCall("Verdict", {"reason": "a", "verdict": v}) for v in ("yes", "no")]
    with Provider(lambda asked: Said(calls=calls)) as provider, pytest.raises(ModelReplyError, match="2 that differ"):
        ask_structured(asked_model(provider, "anthropic"), "Does it?", Verdict, retries=0)
    with Provider(faults=["400"]) as provider, pytest.raises(RequestRefused):
        ask_structured(asked_model(provider), "Does it?", Verdict)
    assert provider.count == 1


def test_a_server_without_schemas_is_asked_in_text_from_then_on():
    with Provider(lambda asked: YES, faults=["no-schema"]) as provider:
        model = asked_model(provider)
        for _ in range(2):
            assert ask_structured(model, "Does it?", Verdict).value.verdict == "yes"
    assert ["response_format" in request.body for request in provider.requests] == [True, False, False]


@pytest.mark.parametrize("schema", [Verdict, Verdict.model_json_schema()])
def test_with_structured_output_works_and_keeps_the_raw_reply(schema):
    with Provider(lambda asked: YES) as provider:
        told = asked_model(provider).with_structured_output(schema, include_raw=True).invoke("Does it?")
    assert dict(told["parsed"]) == {"reason": "it says so", "verdict": "yes"} and str(told["raw"].text) == YES
    with Provider(lambda asked: "no") as provider:
        model = asked_model(provider)
        told = model.with_structured_output(schema, include_raw=True).invoke("Does it?")
        with pytest.raises(ModelReplyError):
            model.with_structured_output(schema).invoke("Does it?")
    assert told["parsed"] is None and isinstance(told["parsing_error"], ModelReplyError)


def test_a_model_s_name_is_not_what_a_provider_says_about_schemas():
    with Provider(lambda asked: YES, faults=["404"]) as provider:
        model = asked_model(provider, name="llama-3-tool-use")
        with pytest.raises(RequestRefused):
            ask_structured(model, "Does it?", Verdict)
    assert provider.count == 1 and model.supports_structure


def test_a_cut_reply_of_a_local_model_names_the_setting_that_it_has():
    told = {"finish_reason": "length", "cut_tokens": 0}
    with pytest.raises(ReplyCutOff, match="model.max_new_tokens="):
        parse_message(AIMessage('{"verdict": "y', response_metadata=told), ReplySchema(Verdict))


def test_a_server_that_fails_over_tools_alone_is_asked_in_text(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    failed = Raw({"error": {"message": "tools param requires --jinja flag", "type": "server_error"}}, 500)

    def says(asked):
        return failed if asked.tools or "response_format" in asked.body else YES

    with Provider(says) as provider:
        assert ask_structured(asked_model(provider), "Does it?", Verdict).value.verdict == "yes"
    assert provider.count == 2
