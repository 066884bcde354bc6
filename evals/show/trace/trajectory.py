"""A probe's path through its graph as a conversation, in OpenAI's format of messages and tool calls.

Trajectory evaluators such as `agentevals` compare this format: a node is written as a call of a tool of its name, so
that two paths are alike when they call the same tools in the same order.
"""

import json
from collections.abc import Sequence
from typing import Any

from emend.evals.case import Record
from emend.evals.log.events import split_passes

BOOKKEEPING = ("usage", "cut_tokens", "target_tokens", "greedy_tokens")
"""Fields of a node's update that are no result."""


def trajectory(record: Record, steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make the messages of one probe: the prompt, each node with its result, and the answer.

    A probe that was asked for a text and for probabilities gives the pass to the text. The conversation of a model that
    called tools itself is given as it was.
    """
    passes = split_passes(steps) or [[]]
    with_reply = (part for part in passes if any("reply" in (step["update"] or {}) for step in part))
    chosen = next(with_reply, passes[-1])
    stored = (step["update"]["messages"] for step in reversed(chosen) if "messages" in (step["update"] or {}))
    if conversation := _conversation(next(stored, None)):
        return conversation
    messages: list[dict[str, Any]] = [{"role": "user", "content": record.prompt}]
    for number, step in enumerate(chosen[:-1], 1):
        messages += _tool_messages(number, step)
    return [*messages, {"role": "assistant", "content": record.reply or record.answer or ""}]


def _conversation(stored: Any) -> list[dict[str, Any]]:
    """Convert a state's messages as LangChain stores them; empty for what a user's graph keeps under that name."""
    if not stored:
        return []
    from langchain_core.messages import convert_to_openai_messages, messages_from_dict

    try:
        return list(convert_to_openai_messages(messages_from_dict(stored)))
    except Exception:  # anything may stand there, also in a stranger's folder
        return []


def _tool_messages(number: int, step: dict[str, Any]) -> list[dict[str, Any]]:
    name = f"call_{number}"
    call = {"id": name, "type": "function", "function": {"name": step["node"], "arguments": "{}"}}
    result = {key: value for key, value in (step["update"] or {}).items() if key not in BOOKKEEPING}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": json.dumps(result, ensure_ascii=False)},
    ]
