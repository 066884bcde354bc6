"""What goes over the wire: OpenAI chat completions, OpenAI responses, Anthropic messages; whole or as events."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

PATHS = {"/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/messages": "anthropic"}


class ToolCall(NamedTuple):
    """A call that the model wants to be made."""

    name: str
    arguments: dict[str, Any]


class Said(NamedTuple):
    """What the scripted model says: a text, calls of tools, a refusal; and how it ends.

    `lead` is a message of its own before the text, which only OpenAI's responses know.
    """

    text: str = ""
    calls: Sequence[ToolCall] = ()
    refusal: str = ""
    cut: bool = False
    lead: str = ""


class Raw(NamedTuple):
    """A body and further headers as they are sent, in place of what the protocol would have; a text is a page."""

    body: dict[str, Any] | list[Any] | str
    status: int = 200
    headers: dict[str, str] = {}


class Asked(NamedTuple):
    """What the client asked: the protocol, (role, text) of each message, the names of tools, the one it must call."""

    protocol: str
    model: str
    messages: list[tuple[str, str]]
    tools: list[str]
    forced: str
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The texts of all messages, one after the other."""
        return "\n".join(text for _, text in self.messages)


def read_request(protocol: str, body: dict[str, Any]) -> Asked:
    """What a request of that protocol asks."""
    said = body["input"] if protocol == "responses" else body["messages"]
    items = [{"role": "user", "content": said}] if isinstance(said, str) else said
    messages = [(str(item.get("role") or item.get("type")), _text(item)) for item in items]
    above = body.get("system") or body.get("instructions")
    if above:
        messages.insert(0, ("system", _text({"content": above})))
    tools = [tool.get("name") or tool["function"]["name"] for tool in body.get("tools", [])]
    choice = body.get("tool_choice")
    forced = choice.get("name") or choice.get("function", {}).get("name", "") if isinstance(choice, dict) else ""
    return Asked(protocol, body["model"], messages, tools, forced, body)


def _text(item: dict[str, Any]) -> str:
    content = item.get("content") or item.get("output") or item.get("arguments") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part if isinstance(part, str) else part.get("text") or _text(part) for part in content)


def words(text: str) -> int:
    """The tokens of a text, as this server counts them."""
    return len(text.split())


def whole(asked: Asked, said: Said) -> dict[str, Any]:
    """The reply as one body."""
    return {"chat": _chat, "responses": _responses, "anthropic": _anthropic}[asked.protocol](asked, said)


def _chat(asked: Asked, said: Said) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": said.refusal or None}
    if said.calls:
        message["tool_calls"] = [
            {"id": f"call_{n}", "type": "function", "function": {"name": c.name, "arguments": json.dumps(c.arguments)}}
            for n, c in enumerate(said.calls)
        ]
    finish = "length" if said.cut else "tool_calls" if said.calls else "stop"
    sent, got = words(asked.prompt), _size(said)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": asked.model,
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": {"prompt_tokens": sent, "completion_tokens": got, "total_tokens": sent + got},
    }


def _responses(asked: Asked, said: Said) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "text": said.text, "annotations": []}
    if said.refusal:
        part = {"type": "refusal", "refusal": said.refusal}
    spoken = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}
    output: list[dict[str, Any]] = [spoken] if said.text or said.refusal or not said.calls else []
    if said.lead:
        output.insert(0, spoken | {"id": "msg_0", "content": [part | {"text": said.lead}]})
    for n, call in enumerate(said.calls):
        told = {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": call.name}
        output.append(told | {"arguments": json.dumps(call.arguments), "status": "completed"})
    sent, got = words(asked.prompt), _size(said)
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": asked.model,
        "status": "incomplete" if said.cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if said.cut else None,
        "error": None,
        "instructions": None,
        "metadata": {},
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": sent,
            "output_tokens": got,
            "total_tokens": sent + got,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _anthropic(asked: Asked, said: Said) -> dict[str, Any]:
    text = said.text or said.refusal
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for n, call in enumerate(said.calls):
        content.append({"type": "tool_use", "id": f"toolu_{n}", "name": call.name, "input": call.arguments})
    stop = "refusal" if said.refusal else "max_tokens" if said.cut else "tool_use" if said.calls else "end_turn"
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": words(asked.prompt), "output_tokens": _size(said)},
    }


def _size(said: Said) -> int:
    return words(said.text) + sum(words(json.dumps(call.arguments)) for call in said.calls)


def events(asked: Asked, said: Said) -> Iterator[bytes]:
    """The reply as server-sent events."""
    body = whole(asked, said)
    told = {"chat": _chat_events, "responses": _responses_events, "anthropic": _anthropic_events}[asked.protocol](body)
    counts = asked.protocol != "chat" or (asked.body.get("stream_options") or {}).get("include_usage")
    for event in told if counts else (one for one in told if "usage" not in one):
        name = f"event: {event['type']}\n" if asked.protocol != "chat" else ""
        yield f"{name}data: {json.dumps(event)}\n\n".encode()
    if asked.protocol == "chat":
        yield b"data: [DONE]\n\n"


def _pieces(text: str) -> list[str]:
    half = len(text) // 2
    return [piece for piece in (text[:half], text[half:]) if piece]


def _chat_events(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    head = {key: body[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    (choice,) = body["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _pieces(message["content"])]
    if message["refusal"]:
        deltas.append({"refusal": message["refusal"]})
    deltas += [{"tool_calls": [{"index": n} | call]} for n, call in enumerate(message.get("tool_calls", []))]
    for delta in deltas:
        yield head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield head | {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield head | {"choices": [], "usage": body["usage"]}


def _responses_events(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    number = 0

    def event(kind: str, **more: Any) -> dict[str, Any]:
        nonlocal number
        number += 1
        return {"type": kind, "sequence_number": number, **more}

    yield event("response.created", response=body | {"output": [], "status": "in_progress", "usage": None})
    for index, item in enumerate(body["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
        yield event("response.output_item.added", output_index=index, item=item | empty | {"status": "in_progress"})
        if item["type"] == "function_call":
            yield event("response.function_call_arguments.delta", **place, delta=item["arguments"])
            yield event("response.function_call_arguments.done", **place, arguments=item["arguments"])
        for part in item.get("content", []):
            kind, key = ("output_text", "text") if part["type"] == "output_text" else ("refusal", "refusal")
            yield event("response.content_part.added", **place, content_index=0, part=part | {key: ""})
            for piece in _pieces(part[key]):
                yield event(f"response.{kind}.delta", **place, content_index=0, delta=piece, logprobs=[])
            yield event(f"response.{kind}.done", **place, content_index=0, logprobs=[], **{key: part[key]})
            yield event("response.content_part.done", **place, content_index=0, part=part)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event(f"response.{body['status']}", response=body)


def _anthropic_events(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = body | {"content": [], "stop_reason": None, "usage": body["usage"] | {"output_tokens": 0}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(body["content"]):
        if block["type"] == "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
            block = block | {"text": ""}
        else:
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
            block = block | {"input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": body["usage"]}
    yield {"type": "message_stop"}
