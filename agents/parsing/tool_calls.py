"""Tool calls as text: rendering for local chat templates, and parsing of replies.

Replies are parsed with transformers' response templates. Few tokenizers have one yet; for the
others, the format is recognised by markers in the chat template, so that a fine-tuned model is
parsed like its base model.
"""

import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall, ToolMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call

from emend.agents.parsing.reply_marks import strip_marks
from emend.memory.edit import content_id
from emend.memory.errors import ModelError

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
BARE = re.compile(r'\{\s*"name"\s*:\s*"([^"]*)"')
# Markers of a reply that attempts to call a tool.
MARKERS = ("<tool_call>", "[TOOL_CALLS]", "<function=")
NAME_FIRST = re.compile(
    # Qwen 3.5, Qwen3-Coder; Llama with JSON inside
    r"<function=(?P<name>[^>\n]+)>(?P<inside>.*?)(?:</function>|\Z)"
    r"|\[TOOL_CALLS\]\s*(?P<mistral>[\w.-]+)\s*(?:\[CALL_ID\]\w*)?(?:\[ARGS\])?\s*(?=\{)",
    re.DOTALL,
)
PARAMETER = re.compile(r"<parameter=([^>\n]+)>\s*(.*?)\s*</parameter>", re.DOTALL)
# Length of a call's alphanumeric id, as required by Mistral's templates.
ID_LENGTH = 9
REASONING = {"open": "<think>", "close": "</think>"}
# Sets of markers, and the call format of a chat template that has all of them; the first match
# counts.
FORMS = tomllib.loads(Path(__file__).with_name("call_forms.toml").read_text(encoding="utf-8"))[
    "form"
]


def response_template(tokenizer: Any) -> dict[str, Any] | None:
    """Return the tokenizer's response template, or else one for the call format of its chat
    template.
    """
    if own_template := getattr(tokenizer, "response_template", None):
        return dict(own_template)
    template = str(tokenizer.chat_template or "")
    form = next(
        (
            form.get("template", {})
            for form in FORMS
            if all(mark in template for mark in form["markers"])
        ),
        None,
    )
    if form is None:
        return None
    fields: dict[str, Any] = {"thinking": REASONING, "content": {}}
    fields |= {"tool_calls": form | {"repeats": True}} if form else {}
    # the prompt is not parsed: the anchor never matches
    return {"start_anchor_pattern": r"\A(?!)", "fields": fields}


def supports_tools(tokenizer: Any) -> bool:
    """Return whether the chat template renders tools and the model's calls can be parsed."""
    if not tokenizer.chat_template or response_template(tokenizer) is None:
        return False
    messages = [{"role": "user", "content": "x"}]
    name = "a_tool_to_look_for"
    tool = {
        "type": "function",
        "function": {"name": name, "description": "x", "parameters": {"type": "object"}},
    }
    try:
        return name in tokenizer.apply_chat_template(messages, tools=[tool], tokenize=False)
    except (TemplateError, ValueError, TypeError, KeyError):
        return False


def render_chat(
    tokenizer: Any,
    messages: Sequence[BaseMessage],
    tools: Sequence[dict[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
) -> str:
    """Render the conversation with the chat template, up to the position of the reply.

    A final assistant message without calls is the beginning of the reply. If the template rejects
    system messages, their text is put before the first user message.

    Args:
        tokenizer: the tokenizer with the chat template.
        messages: the messages of the conversation.
        tools: the tools to render.
        options: further variables of the template.

    Raises:
        ModelError: the template rejects the conversation.
    """
    chat = [_as_chat(message) for message in messages]
    variables = dict(options or {}) | ({"tools": list(tools)} if tools else {})
    prefilled = bool(messages) and chat[-1]["role"] == "assistant" and "tool_calls" not in chat[-1]
    variables["continue_final_message" if prefilled else "add_generation_prompt"] = True
    try:
        try:
            return str(tokenizer.apply_chat_template(chat, tokenize=False, **variables))
        except TemplateError:
            if [message["role"] for message in chat[:2]] != ["system", "user"]:
                raise
            merged = [_merged(*chat[:2]), *chat[2:]]
            return str(tokenizer.apply_chat_template(merged, tokenize=False, **variables))
    except TemplateError as error:
        roles = ", ".join(message["role"] for message in chat)
        raise ModelError(
            f"the model's chat template rejects messages of {roles}: {error}. Use another model, "
            "or --set model.chat=false."
        ) from error


def _merged(system: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    """Return the user message with the system's text before it."""
    return user | {"content": f"{system['content']}\n\n{user['content']}"}


def _as_chat(message: BaseMessage) -> dict[str, Any]:
    chat: dict[str, Any] = {
        "role": ROLES.get(message.type, message.type),
        "content": str(message.text),
    }
    if isinstance(message, AIMessage) and message.tool_calls:
        chat["tool_calls"] = [
            {
                "type": "function",
                "id": call["id"],
                "function": {"name": call["name"], "arguments": call["args"]},
            }
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        chat |= {"name": message.name, "tool_call_id": message.tool_call_id}
    return chat


def parse_reply(
    tokenizer: Any, ids: Sequence[int], plain: str, prompt: str, tools: Sequence[dict[str, Any]]
) -> AIMessage:
    """Return the text of a reply and the calls in it; malformed calls are kept as text.

    Args:
        tokenizer: the tokenizer of a model that `supports_tools`.
        ids: the reply's tokens without the end token; markers of calls are special tokens in some
            models.
        plain: the reply's text without special tokens.
        prompt: the rendered conversation.
        tools: the tools in the prompt.
    """
    own_template = bool(getattr(tokenizer, "response_template", None))
    names = {tool["function"]["name"] for tool in tools}
    raw = tokenizer.decode(list(ids), skip_special_tokens=False)
    try:
        parsed = tokenizer.parse_response(
            raw,
            response_template(tokenizer),
            prefix=prompt if own_template else "",
            tools=list(tools),
        )
        marked = [
            call
            for item in parsed.get("tool_calls") or ()
            for call in (item if isinstance(item, list) else [item])
        ]
        calls = [
            _call(call, f"{place} {prompt}")
            for place, call in enumerate(marked or _bare(plain, names))
        ]
    except ValueError as error:
        broken = invalid_tool_call(name=None, args=raw, id=_id(prompt), error=str(error)[:300])
        return AIMessage(content=plain, invalid_tool_calls=[broken])
    content = str(parsed.get("content") or "") if own_template or marked else "" if calls else plain
    if calls and all(call["type"] == "invalid_tool_call" for call in calls):
        content = plain
    return AIMessage(
        content=content,
        tool_calls=[call for call in calls if call["type"] == "tool_call"],
        invalid_tool_calls=[call for call in calls if call["type"] == "invalid_tool_call"],
    )


def with_calls_from_text(message: AIMessage, names: Collection[str], place: str) -> AIMessage:
    """Parse calls in a message's text, where servers leave them if they do not know a model's
    format.

    Malformed calls are returned as invalid calls together with the text; a text without calls is
    unchanged.

    Args:
        message: a message without parsed calls.
        names: names of the tools in the prompt; in a text with a call marker any name counts.
        place: position in the conversation, so that equal calls at other positions have different
            ids.
    """
    text = strip_marks(str(message.text))
    try:
        calls = [
            _call(value, f"{number} {place} {text}")
            for number, value in enumerate(_calls_in_text(text, names))
        ]
    except ValueError as error:
        calls = [invalid_tool_call(name=None, args=text, id=_id(place), error=str(error)[:300])]
    broken = [call for call in calls if call["type"] == "invalid_tool_call"]
    if broken or not calls:
        return message.model_copy(update={"invalid_tool_calls": broken})
    return message.model_copy(update={"content": "", "tool_calls": calls})


def _calls_in_text(text: str, names: Collection[str]) -> list[Any]:
    """Return the calls in a text, in JSON or in formats with the name before the arguments.

    Raises:
        ValueError: a call has begun but cannot be parsed.
    """
    markers = max(text.count(marker) for marker in MARKERS)
    calls = _bare(text, None if markers else names) or [
        _named(match, text) for match in NAME_FIRST.finditer(text)
    ]
    if len(calls) < markers:
        raise ValueError(
            f"{markers} calls are begun by a mark such as {MARKERS[0]}, and "
            f"{len(calls)} can be read"
        )
    return calls


def _named(match: re.Match[str], text: str) -> dict[str, Any]:
    if match["mistral"]:
        return {
            "name": match["mistral"],
            "arguments": json.JSONDecoder().raw_decode(text, match.end())[0],
        }
    return {
        "name": match["name"].strip(),
        "arguments": dict(PARAMETER.findall(match["inside"])) or match["inside"],
    }


def _bare(plain: str, names: Collection[str] | None) -> list[Any]:
    """Return tool calls as JSON without markers: a whole reply of Llama, or the calls of small
    models of any family.

    Args:
        plain: the reply.
        names: names of the tools; None allows any name.

    Raises:
        ValueError: a call has begun but is not JSON, and must not be taken for an answer.
    """
    text, calls, end = strip_marks(plain), [], 0
    for brace in re.finditer(r"\{", text):
        if brace.start() < end:
            continue
        try:
            value, after = json.JSONDecoder().raw_decode(text, brace.start())
        except ValueError:
            start = BARE.match(text, brace.start())
            if start and (names is None or start[1] in names):
                raise
            continue
        if _is_call(value, names):
            calls.append(value)
            end = after
    return calls


def _is_call(value: Any, names: Collection[str] | None) -> bool:
    """Return whether a value is a call of one of the tools, or of an unknown tool with
    arguments.
    """
    name = _name_of(value)
    if name is None:
        return False
    call = value["function"] if isinstance(value.get("function"), dict) else value
    return (
        names is None
        or name in names
        or isinstance(call.get("arguments", call.get("parameters")), dict)
    )


def _name_of(value: Any) -> str | None:
    """Return the tool name of a call, if it has one."""
    call = value if isinstance(value, dict) else {}
    inner = call.get("function")
    call = inner if isinstance(inner, dict) else call
    return next(
        (call[key] for key in ("name", "function", "tool") if isinstance(call.get(key), str)), None
    )


def _call(value: Any, place: str) -> ToolCall | InvalidToolCall:
    """Return a call in LangChain's format; Llama calls its arguments `parameters`.

    Raises:
        ValueError: its arguments are a string that is not JSON.
    """
    outer = value if isinstance(value, dict) else {}
    call = outer["function"] if isinstance(outer.get("function"), dict) else outer
    name, arguments = _name_of(value), call.get("arguments", call.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    if name is None or not isinstance(arguments, dict):
        return invalid_tool_call(
            name=None, args=json.dumps(value), id=_id(place), error="no name, or no arguments"
        )
    return tool_call(name=name, args=arguments, id=_id(place))


def _id(place: str) -> str:
    return content_id(place)[:ID_LENGTH]
