"""How chat models write calls of tools: what chat templates of local ones are given, and how replies are read.

Replies are read by transformers' response templates. Few tokenizers bring one yet; for the others the forms below are
told apart by the marks that stand in the chat template, so that a fine-tuned model is read as its base is.
"""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from jinja2 import TemplateError
from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall, ToolMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call

from emend.agents.parsing.reasoning_text import strip_reasoning
from emend.memory.edit import content_id
from emend.memory.errors import ModelError

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
BARE = re.compile(r'\{\s*"name"\s*:\s*"([^"]*)"')
MARKS = ("<tool_call>", "[TOOL_CALLS]", "<function=")
"""Where one of them stands in a reply, a call was meant."""
NAME_FIRST = re.compile(
    r"<function=(?P<name>[^>\n]+)>(?P<inside>.*?)(?:</function>|\Z)"  # Qwen 3.5, Qwen3-Coder; Llama with JSON inside
    r"|\[TOOL_CALLS\]\s*(?P<mistral>[\w.-]+)\s*(?:\[CALL_ID\]\w*)?(?:\[ARGS\])?\s*(?=\{)",
    re.DOTALL,
)
PARAMETER = re.compile(r"<parameter=([^>\n]+)>\s*(.*?)\s*</parameter>", re.DOTALL)
ID_LENGTH = 9
"""Of a call's id: letters and digits, as many as Mistral's templates insist on."""
THOUGHTS = {"open": "<think>", "close": "</think>"}
NAMED = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
FORMS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    # Qwen 3.5, Qwen3-Coder
    (
        ("<tool_call>", "<function="),
        {
            "open_pattern": r"\s*<tool_call>\s*<function=(?P<name>[^>\n]+)>",
            "close_pattern": r"</function>\s*</tool_call>",
            "content": "xml-inline",
            "content_args": {"tag_pattern": r"<parameter=(?P<key>[^>\n]+)>\s*(?P<value>.*?)\s*</parameter>"},
            "transform": NAMED,
        },
    ),
    # Qwen 2.5 and 3, Hermes
    (("<tool_call>",), {"open_pattern": r"\s*<tool_call>", "close": "</tool_call>", "content": "json"}),
    # Mistral, tokenizers since v11, and before
    (
        ("[TOOL_CALLS]", "[ARGS]"),
        {
            "open_pattern": r"\[TOOL_CALLS\]\s*(?P<name>[\w.-]+)\s*(?:\[CALL_ID\]\w*)?\[ARGS\]",
            "close_pattern": r"(?=\[TOOL_CALLS\])",
            "content": "json",
            "transform": NAMED,
        },
    ),
    (("[TOOL_CALLS]",), {"open": "[TOOL_CALLS]", "content": "json"}),
    # Llama 3: the whole reply is the call, see `_bare`
    (('"parameters"',), {}),
)
"""Marks of a chat template, all of which stand there, and how a call is written; the first that fits counts."""


def response_template(tokenizer: Any) -> dict[str, Any] | None:
    """How the model's replies are read: as its tokenizer says, else by the form that its chat template shows."""
    own = getattr(tokenizer, "response_template", None)
    if own:
        return dict(own)
    shown = str(tokenizer.chat_template or "")
    call = next((call for marks, call in FORMS if all(mark in shown for mark in marks)), None)
    if call is None:
        return None
    fields: dict[str, Any] = {"thinking": THOUGHTS, "content": {}}
    fields |= {"tool_calls": call | {"repeats": True}} if call else {}
    return {"start_anchor_pattern": r"\A(?!)", "fields": fields}  # the prompt is not read: no anchor is ever found


def supports_tools(tokenizer: Any) -> bool:
    """Whether the chat template shows tools to the model, and its calls can be read."""
    if not tokenizer.chat_template or response_template(tokenizer) is None:
        return False
    asked = [{"role": "user", "content": "x"}]
    name = "a_tool_to_look_for"
    tool = {"type": "function", "function": {"name": name, "description": "x", "parameters": {"type": "object"}}}
    try:
        return name in tokenizer.apply_chat_template(asked, tools=[tool], tokenize=False)
    except (TemplateError, ValueError, TypeError, KeyError):
        return False


def render_chat(tokenizer: Any, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]] = ()) -> str:
    """The conversation as the chat template writes it, up to where the reply begins.

    Raises:
        ModelError: the template refuses it.
    """
    said = [_as_chat(message) for message in messages]
    given = {"tools": list(tools)} if tools else {}
    try:
        return str(tokenizer.apply_chat_template(said, **given, tokenize=False, add_generation_prompt=True))
    except TemplateError as error:
        roles = ", ".join(told["role"] for told in said)
        raise ModelError(
            f"the model's chat template refuses messages of {roles}: {error}. Take another model, or model.chat=false."
        ) from error


def _as_chat(message: BaseMessage) -> dict[str, Any]:
    told: dict[str, Any] = {"role": ROLES.get(message.type, message.type), "content": str(message.text)}
    if isinstance(message, AIMessage) and message.tool_calls:
        told["tool_calls"] = [
            {"type": "function", "id": call["id"], "function": {"name": call["name"], "arguments": call["args"]}}
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        told |= {"name": message.name, "tool_call_id": message.tool_call_id}
    return told


def parse_reply(
    tokenizer: Any, ids: Sequence[int], plain: str, prompt: str, tools: Sequence[dict[str, Any]]
) -> AIMessage:
    """A reply's text, and the calls in it; calls in a broken form are kept as they stand.

    Args:
        tokenizer: of a model that `supports_tools`.
        ids: the reply's tokens but for the end token; marks of calls are special tokens in some models.
        plain: its text without special tokens.
        prompt: what was asked.
        tools: those that were offered.
    """
    own = bool(getattr(tokenizer, "response_template", None))
    names = {tool["function"]["name"] for tool in tools}
    raw = tokenizer.decode(list(ids), skip_special_tokens=False)
    try:
        told = tokenizer.parse_response(
            raw, response_template(tokenizer), prefix=prompt if own else "", tools=list(tools)
        )
        found = [call for one in told.get("tool_calls") or () for call in (one if isinstance(one, list) else [one])]
        calls = [_call(call, f"{place} {prompt}") for place, call in enumerate(found or _bare(plain, names))]
    except ValueError as error:
        broken = invalid_tool_call(name=None, args=raw, id=_id(prompt), error=str(error)[:300])
        return AIMessage(content="", invalid_tool_calls=[broken])
    said = str(told.get("content") or "") if own or found else "" if calls else plain
    return AIMessage(
        content=said,
        tool_calls=[call for call in calls if call["type"] == "tool_call"],
        invalid_tool_calls=[call for call in calls if call["type"] == "invalid_tool_call"],
    )


def with_calls_from_text(message: AIMessage, names: Collection[str], place: str) -> AIMessage:
    """The message with the calls that stand in its text, as servers leave them there that do not know a model's form.

    Calls in a broken form are kept beside the text; a text without calls stays as it is.

    Args:
        message: of any model, without calls of its own.
        names: of the tools that were offered; where a mark of calls stands, any name counts.
        place: in the conversation, so that the same call has another id there.
    """
    text = strip_reasoning(str(message.text))
    try:
        calls = [_call(told, f"{number} {place} {text}") for number, told in enumerate(_written(text, names))]
    except ValueError as error:
        calls = [invalid_tool_call(name=None, args=text, id=_id(place), error=str(error)[:300])]
    broken = [call for call in calls if call["type"] == "invalid_tool_call"]
    if broken or not calls:
        return message.model_copy(update={"invalid_tool_calls": broken})
    return message.model_copy(update={"content": "", "tool_calls": calls})


def _written(text: str, names: Collection[str]) -> list[Any]:
    """Calls in a text, in JSON or in the forms that have the name before it.

    Raises:
        ValueError: a call is begun and cannot be read.
    """
    begun = max(text.count(mark) for mark in MARKS)
    found = _bare(text, None if begun else names) or [_named(hit, text) for hit in NAME_FIRST.finditer(text)]
    if len(found) < begun:
        raise ValueError(f"{begun} calls are begun by a mark such as {MARKS[0]}, and {len(found)} can be read")
    return found


def _named(hit: re.Match[str], text: str) -> dict[str, Any]:
    if hit["mistral"]:
        return {"name": hit["mistral"], "arguments": json.JSONDecoder().raw_decode(text, hit.end())[0]}
    return {"name": hit["name"].strip(), "arguments": dict(PARAMETER.findall(hit["inside"])) or hit["inside"]}


def _bare(plain: str, names: Collection[str] | None) -> list[Any]:
    """Calls of the tools in JSON without marks: Llama's whole reply, and what small models of any family write.

    Args:
        plain: the reply.
        names: of the tools; None where any name is one.

    Raises:
        ValueError: a call is begun and is no JSON: it must not pass for an answer.
    """
    text, found, end = strip_reasoning(plain), [], 0
    for brace in re.finditer(r"\{", text):
        if brace.start() < end:
            continue
        try:
            told, after = json.JSONDecoder().raw_decode(text, brace.start())
        except ValueError:
            begun = BARE.match(text, brace.start())
            if begun and (names is None or begun[1] in names):
                raise
            continue
        name = _name_of(told)
        if name is not None and (names is None or name in names):
            found.append(told)
            end = after
    return found


def _name_of(told: Any) -> str | None:
    """The name of the tool that a call is of, where it has one."""
    said = told if isinstance(told, dict) else {}
    inner = said.get("function")
    said = inner if isinstance(inner, dict) else said
    return next((said[key] for key in ("name", "function", "tool") if isinstance(said.get(key), str)), None)


def _call(told: Any, place: str) -> ToolCall | InvalidToolCall:
    """A call as LangChain writes it; Llama says `parameters` where the others say `arguments`.

    Raises:
        ValueError: its arguments are a text that is no JSON.
    """
    outer = told if isinstance(told, dict) else {}
    said = outer["function"] if isinstance(outer.get("function"), dict) else outer
    name, given = _name_of(told), said.get("arguments", said.get("parameters", {}))
    if isinstance(given, str):
        given = json.loads(given)
    if name is None or not isinstance(given, dict):
        return invalid_tool_call(name=None, args=json.dumps(told), id=_id(place), error="no name, or no arguments")
    return tool_call(name=name, args=given, id=_id(place))


def _id(place: str) -> str:
    return content_id(place)[:ID_LENGTH]
