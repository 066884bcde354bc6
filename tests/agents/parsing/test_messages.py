"""Messages in OpenAI's form are those of LangChain's own conversion, whichever way they take."""

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
)

from emend.agents.parsing.messages import as_openai, plain_turn

CALL: dict[str, Any] = {"name": "search", "args": {"query": "Oslo"}, "id": "c1", "type": "tool_call"}
PLAIN = (HumanMessage("Who?"), AIMessage("Ana."), AIMessage(""), HumanMessage("a\n\nb"))
OTHERS = (
    SystemMessage("Be brief."),
    HumanMessage("Who?", name="ann"),
    HumanMessage([{"type": "text", "text": "Who?"}]),
    AIMessage("", tool_calls=[CALL]),
    AIMessage("Ana.", name="bot"),
    ToolMessage("Ana.", tool_call_id="c1"),
)


@pytest.mark.parametrize("message", [*PLAIN, *OTHERS], ids=repr)
def test_a_message_is_as_langchain_converts_it(message: BaseMessage) -> None:
    assert as_openai(message) == convert_to_openai_messages(message)


def test_texts_of_user_and_assistant_alone_are_plain() -> None:
    assert all(plain_turn(message) for message in PLAIN)
    assert not any(plain_turn(message) for message in OTHERS)
