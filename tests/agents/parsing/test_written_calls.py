"""Calls of tools that are left standing in the text of a message, as compatible servers leave them there."""

import json

import pytest
from langchain_core.messages import AIMessage

from emend.agents.parsing.tool_calls import with_calls_from_text

NAMES = {"lookup", "search_memory"}
CALL = {"subject": "Vouna", "relation": "capital"}
GIVEN = json.dumps(CALL)
TAGS = "<parameter=subject>\nVouna\n</parameter>\n<parameter=relation>\ncapital\n</parameter>\n"
HERMES = f'<tool_call>\n{{"name": "lookup", "arguments": {GIVEN}}}\n</tool_call>'


@pytest.mark.parametrize(
    "text",
    [
        HERMES,
        f"I look it up.\n{HERMES}",
        f"<think>A {{brace.</think>{HERMES}",
        f'<tool_call>{{"arguments": {GIVEN}, "name": "lookup"}}',
        f"<tool_call>\n<function=lookup>\n{TAGS}</function>\n</tool_call>",
        f"<function=lookup>{GIVEN}</function>",
        f"[TOOL_CALLS]lookup[ARGS]{GIVEN}",
        f"[TOOL_CALLS]lookup[CALL_ID]a1b2c3d4e[ARGS]{GIVEN}",
        f'[TOOL_CALLS] [{{"name": "lookup", "arguments": {GIVEN}}}]',
        f'{{"name": "lookup", "parameters": {GIVEN}}}',
        f'{{"type": "function", "name": "lookup", "parameters": {GIVEN}}}',
        f'{{"type": "function", "function": {{"name": "lookup", "arguments": {GIVEN}}}}}',
        f'{{"tool_calls": [{{"function": {{"name": "lookup", "arguments": {json.dumps(GIVEN)}}}}}]}}',
        f'```json\n{{"tool": "lookup", "arguments": {GIVEN}}}\n```',
    ],
)
def test_a_call_is_parsed_from_the_text_in_any_form(text):
    message = with_calls_from_text(AIMessage(text, response_metadata={"model_name": "m"}), NAMES, "2")
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("lookup", CALL)]
    assert not message.text and not message.invalid_tool_calls and message.response_metadata == {"model_name": "m"}


def test_calls_have_different_ids_in_a_message_and_between_messages():
    first, second = (with_calls_from_text(AIMessage(HERMES * 2), NAMES, place) for place in "24")
    assert len({call["id"] for message in (first, second) for call in message.tool_calls}) == 4


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "lookup", "argu</tool_call>',
        f"{HERMES}<tool_call>{{half</tool_call>",
        "<tool_call>[1]</tool_call>",
        "<tool_call>",
        "<function=lookup>Vouna</function>",
        "[TOOL_CALLS]lookup[ARGS]Vouna",
        '[TOOL_CALLS]lookup[ARGS]{"subject": ',
        '{"name": "lookup", "arguments": {',
        '{"name": "lookup", "arguments": [1]}',
    ],
)
def test_an_unparsable_call_is_kept_as_invalid_beside_the_text(text):
    message = with_calls_from_text(AIMessage(text), NAMES, "2")
    assert message.invalid_tool_calls and not message.tool_calls and message.text == text
    assert message.invalid_tool_calls[0]["error"]


@pytest.mark.parametrize(
    "text", ["Meburg", "", '{"name": "Karo"}', '{"capital": "Meburg"}', "{Meburg}", "<think>[TOOL_CALLS]</think>Meburg"]
)
def test_a_text_without_calls_stays_an_answer(text):
    message = with_calls_from_text(AIMessage(text), NAMES, "2")
    assert message == AIMessage(text)


def test_behind_a_mark_a_call_of_a_tool_that_is_not_there_is_a_call():
    message = with_calls_from_text(AIMessage('<tool_call>{"name": "web", "arguments": {}}</tool_call>'), NAMES, "2")
    assert [call["name"] for call in message.tool_calls] == ["web"]
