"""Text format of the values in a trace: state entries, numbers, messages and costs."""

import json
from typing import Any

from emend.editors.base import EditCost
from emend.evals.case import Record
from emend.evals.log.lines import retries_of
from emend.memory.escape import one_line

# Maximum number of characters of a text that counts as short value.
SHORT_LENGTH = 16


def is_conversation(state: dict[str, Any]) -> bool:
    """Return True if the field `messages` of a state has a conversation with the model."""
    messages = state.get("messages")
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(isinstance(m, dict) and "data" in m for m in messages)
    )


def entry_texts(entry: dict[str, Any]) -> tuple[str, str]:
    """Return the short values and the texts of an entry of a list in the state.

    The entry is, for example, a message, a judged passage or a demonstration. For a message in
    LangChain's form, return its role, and its content with tool calls. Ids are left out, and the
    name of a `text` that is the only one.
    """
    if isinstance(data := entry.get("data"), dict) and "content" in data:
        tools = [
            f"{call.get('name')}({json.dumps(call.get('args'), ensure_ascii=False)})"
            for call in data.get("tool_calls") or ()
            if isinstance(call, dict)
        ]
        if isinstance(data["content"], str):
            content = data["content"]
        else:
            content = json.dumps(data["content"])
        if content:
            tools = [content, *tools]
        return str(entry.get("type", "")), "\n".join(tools)
    fields = {name: value for name, value in entry.items() if not name.endswith("_id")}
    long = {
        name: value
        for name, value in fields.items()
        if isinstance(value, str) and len(value) > SHORT_LENGTH
    }
    aside = {name: value for name, value in fields.items() if name not in long}
    if list(long) == ["text"]:
        texts = [long["text"]]
    else:
        texts = [f"{name}: {value}" for name, value in long.items()]
    return "  ".join(f"{name} {brief(value)}" for name, value in aside.items()), "\n".join(texts)


def brief(value: Any) -> str:
    """Format a value: floats with 4 digits, flat mappings as names and values, others as JSON."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict) and all(
        isinstance(part, (str, int, float)) for part in value.values()
    ):
        return "  ".join(f"{name} {brief(part)}" for name, part in value.items())
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def grown_by(value: Any, before: Any) -> tuple[bool, Any]:
    """Compare a value with an earlier one: return True and its new part, or False and all of it.

    The value is a text that was appended to, or a list that starts with the same entries.
    """
    if (
        isinstance(value, str)
        and isinstance(before, str)
        and before
        and value.startswith(before)
        and value != before
    ):
        return True, value[len(before) :].strip("\n")
    if (
        isinstance(value, list)
        and isinstance(before, list)
        and before
        and len(value) >= len(before)
    ):
        common = next(
            (n for n, (old, new) in enumerate(zip(before, value, strict=False)) if old != new),
            len(before),
        )
        return common > 0, value[common:]
    return False, value


# Maximum number of characters of a target's name.
NAME_LENGTH = 60
# Seconds of editing below which the cost is not shown.
MIN_REPORTED_SECONDS = 0.01


def step_cost(step: dict[str, Any]) -> str:
    """Format the time of a step, and the tokens and retries of its model calls."""
    calls = step["calls"]
    phrase = [f"{step['ms'] or 0:,.1f} ms"]
    if calls:
        sent = sum(call["input_tokens"] for call in calls)
        received = sum(call["output_tokens"] for call in calls)
        names = dict.fromkeys(one_line(call["model"]) for call in calls if call["model"])
        models = ", ".join(names) or "model"
        if len(calls) > 1:
            models += f", {len(calls)} calls"
        phrase.append(f"{models}: {sent} in, {received} out")
    retries = len(retries_of(step))
    if retries == 1:
        phrase.append("1 retry")
    elif retries:
        phrase.append(f"{retries} retries")
    return " · ".join(phrase)


def content_of(message: dict[str, Any]) -> str:
    """Return the text of a message with its tool calls."""
    content = message.get("content") or ""
    if isinstance(content, str):
        text = content
    else:
        text = json.dumps(content, ensure_ascii=False)
    calls = [
        f"{call['function']['name']}({call['function']['arguments']})"
        for call in message.get("tool_calls", ())
    ]
    if text:
        calls = [text, *calls]
    return "\n".join(calls)


def log_probs(record: Record) -> str:
    """Format each target with its log-probability.

    The targets are gold answer and rival, or all gold answers followed by the other choices.
    """
    names = [
        *record.gold,
        *(f"choice {number}" for number in range(1, len(record.log_probs) - len(record.gold) + 1)),
    ]
    if record.rival is not None and len(record.log_probs) == 2:
        names = [record.gold[0], record.rival]
    pairs = zip(names, record.log_probs, strict=False)
    return ", ".join(f"{one_line(name, NAME_LENGTH)} {value:.3f}" for name, value in pairs)


def probe_cost(record: Record) -> str:
    """Format tokens, calls and time of a probe, and the cost of its edits unless negligible."""
    usage = record.usage
    tokens = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
    retries = ""
    if usage.retries:
        retries = f", {usage.retries} retries"
    phrase = f"{tokens}, {usage.calls} calls{retries}, {record.seconds * 1000:.1f} ms"
    if record.cut_tokens:
        phrase += f", {record.cut_tokens} tokens of the prompt cut"
    return phrase + edit_cost(record.edit_cost)


def edit_cost(cost: EditCost) -> str:
    """Format seconds and tokens of edits that were applied together; empty if negligible."""
    if cost.seconds < MIN_REPORTED_SECONDS:
        return ""
    what = "its edit"
    if cost.edits > 1:
        what = f"its group of {cost.edits} edits"
    tokens = ""
    if cost.tokens:
        tokens = f", {cost.tokens:,} tokens through the model"
    return f"; {what} {cost.seconds:.2f} s{tokens}"
