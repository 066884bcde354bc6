"""Values of a graph's state as texts of a trace: messages, judged passages, demonstrations, what grew."""

import json
from typing import Any

SHORT = 16
"""Characters of a text that stands beside others."""


def is_conversation(state: dict[str, Any]) -> bool:
    """True if the state holds the messages to and from the model, which are shown as its field."""
    messages = state.get("messages")
    return isinstance(messages, list) and bool(messages) and all(isinstance(m, dict) and "data" in m for m in messages)


def entry_texts(entry: dict[str, Any]) -> tuple[str, str]:
    """Short values and texts of an entry of a list in the state: a message, a judged passage, a demonstration.

    A message in LangChain's form has its role and its content with tool calls; ids are left out.
    """
    if isinstance(data := entry.get("data"), dict) and "content" in data:
        tools = [
            f"{call.get('name')}({json.dumps(call.get('args'), ensure_ascii=False)})"
            for call in data.get("tool_calls") or ()
            if isinstance(call, dict)
        ]
        content = data["content"] if isinstance(data["content"], str) else json.dumps(data["content"])
        return str(entry.get("type", "")), "\n".join([*([content] if content else []), *tools])
    fields = {name: value for name, value in entry.items() if not name.endswith("_id")}
    long = {name: value for name, value in fields.items() if isinstance(value, str) and len(value) > SHORT}
    aside = {name: value for name, value in fields.items() if name not in long}
    texts = list(long.values()) if len(long) == 1 else [f"{name}: {value}" for name, value in long.items()]
    return "  ".join(f"{name} {brief(value)}" for name, value in aside.items()), "\n".join(texts)


def brief(value: Any) -> str:
    """A value in short: numbers with four digits, a flat mapping as names and values, anything else as JSON."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict) and all(isinstance(part, (str, int, float)) for part in value.values()):
        return "  ".join(f"{name} {brief(part)}" for name, part in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def grown_by(value: Any, before: Any) -> tuple[bool, Any]:
    """Return whether a text or list only grew or changed at its end, with the new part; else with all of it."""
    if isinstance(value, str) and isinstance(before, str) and before and value.startswith(before) and value != before:
        return True, value[len(before) :].strip("\n")
    if isinstance(value, list) and isinstance(before, list) and before and len(value) >= len(before):
        common = next((n for n, (old, new) in enumerate(zip(before, value, strict=False)) if old != new), len(before))
        return common > 0, value[common:] if common else value
    return False, value
