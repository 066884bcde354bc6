"""What a model was asked and said, as attributes of a span: in OpenTelemetry's form, and in OpenInference's."""

import json
from typing import Any


def messages_of(call: dict[str, Any]) -> dict[str, str]:
    """Attributes with what was asked and said, in the form of either convention."""
    asked, said = list(call["messages"]), [call["reply"]] if call["reply"] else []
    spoken = [_parts(message) | {"finish_reason": call["finish"] or "stop"} for message in said]
    return {
        "gen_ai.input.messages": json.dumps([_parts(message) for message in asked], ensure_ascii=False),
        "gen_ai.output.messages": json.dumps(spoken, ensure_ascii=False),
        "input.value": "\n".join(_text(message) for message in asked),
        "output.value": "\n".join(_text(message) for message in said),
    }


def _parts(message: dict[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"type": "text", "content": _text(message)}] if _text(message) else []
    for call in message.get("tool_calls", ()):
        parts.append({"type": "tool_call", "id": call["id"], **call["function"]})
    if message["role"] == "tool":
        parts = [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": _text(message)}]
    return {"role": message["role"], "parts": parts}


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
