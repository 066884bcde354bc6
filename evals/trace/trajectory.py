"""A probe's way through its graph as a conversation, in the form in which OpenAI writes messages and tool calls.

It is the form that trajectory evaluators such as `agentevals` compare: a node is written as a call of a tool of its
name, so that two ways are alike when they call the same tools in the same order.
"""

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import convert_to_openai_messages, messages_from_dict

from emend.evals.case import Record
from emend.evals.log.events import passes_of

COUNTED = ("usage", "cut_tokens", "target_tokens")
"""Of a node's update, what is no result."""


def trajectory(record: Record, steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages of one probe: what was asked, each node with its result, and the answer.

    A probe that was asked for a text and for probabilities gives the walk to the text. The conversation of a model that
    called tools itself is given as it was.
    """
    walks = passes_of(steps)
    walk = next((one for one in walks if any("reply" in (step["update"] or {}) for step in one)), (walks or [[]])[-1])
    spoken = next((step["update"]["messages"] for step in reversed(walk) if "messages" in (step["update"] or {})), None)
    if spoken is not None:
        told: Any = convert_to_openai_messages(messages_from_dict(spoken))
        return list(told)
    messages: list[dict[str, Any]] = [{"role": "user", "content": record.prompt}]
    for number, step in enumerate(walk[:-1], 1):
        messages += _as_tool(number, step)
    return [*messages, {"role": "assistant", "content": record.reply or record.answer or ""}]


def _as_tool(number: int, step: dict[str, Any]) -> list[dict[str, Any]]:
    name = f"call_{number}"
    call = {"id": name, "type": "function", "function": {"name": step["node"], "arguments": "{}"}}
    result = {key: value for key, value in (step["update"] or {}).items() if key not in COUNTED}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": json.dumps(result, ensure_ascii=False)},
    ]
