"""What a server may send to a client in place of a good reply: bytes below the body, or a changed body."""

import json
import re
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

SECONDS = 20.0
"""Time limit of an attack on one connection."""
ELSEWHERE = "elsewhere"
"""The port to which redirects lead: whatever comes there was sent to a stranger."""
WARM_UP = "warm-up"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n"
MILLION = 1_000_000
LAST = b"Connection: close\r\n\r\n"


class Peer(NamedTuple):
    """A connection with its request, and the good reply to it."""

    link: socket.socket
    path: str
    is_stream: bool
    reply: bytes
    ports: dict[str, int]

    @property
    def kind(self) -> bytes:
        """The content type of a good reply."""
        return b"text/event-stream" if self.is_stream else b"application/json"

    def send(self, *parts: bytes) -> None:
        """Send bytes as they are."""
        for part in parts:
            self.link.sendall(part)

    def answer(self, content: bytes, *headers: str, status: str = "200 OK", kind: bytes = b"") -> None:
        """Send a whole response and end the connection."""
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {(kind or self.kind).decode()}"]
        lines += [f"Content-Length: {len(content)}", "Connection: close", *headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n", content)

    def forever(self, parts: Iterator[bytes], pause: float = 0.0) -> None:
        """Send parts until the client goes away or the time is over."""
        end = time.monotonic() + SECONDS
        for part in parts:
            if time.monotonic() > end:
                return
            self.send(part)
            time.sleep(pause)


Act = Callable[[Peer], None]


def repeat(part: bytes) -> Iterator[bytes]:
    """Yield a part again and again."""
    while True:
        yield part


# --- bytes below the body


def endless(head: bytes, part: bytes, pause: float = 0.0) -> Act:
    """A beginning, then the same part again and again."""

    def act(peer: Peer) -> None:
        peer.send(head % peer.kind if b"%s" in head else head)
        peer.forever(repeat(part), pause)

    return act


def raw_response(content: bytes) -> Act:
    """These bytes in place of a response; `%s` is the content type."""

    def act(peer: Peer) -> None:
        peer.send(content % peer.kind if b"%s" in content else content)

    return act


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ZIPPED = HEAD + b"Content-Encoding: %b\r\nConnection: close\r\n\r\n"


@cache
def deflate_block() -> bytes:
    """A megabyte of spaces as a deflate block that may be repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(b" " * MILLION) + packer.flush(zlib.Z_FULL_FLUSH)


@cache
def zstandard_block() -> bytes:
    """Ten megabytes of spaces as a frame that may be repeated."""
    import zstandard

    return zstandard.ZstdCompressor(level=3).compress(b" " * (10 * MILLION))


def bomb(encoding: str) -> Act:
    """Ten gigabytes as some ten megabytes, or as less."""

    def act(peer: Peer) -> None:
        block = zstandard_block() if encoding == "zstd" else deflate_block()
        start = {"gzip": b"\x1f\x8b\x08\0\0\0\0\0\0\xff", "deflate": b"\x78\x9c"}.get(encoding.partition(",")[0], b"")
        peer.send(HEAD % peer.kind + f"Content-Encoding: {encoding}\r\nConnection: close\r\n\r\n".encode(), start)
        for _ in range(1000 if encoding == "zstd" else 10_000):
            peer.send(block)

    return act


def wrong_length(head: bytes) -> Act:
    """A good body under a header that lies about its size."""

    def act(peer: Peer) -> None:
        peer.send(HEAD % peer.kind + head + b"\r\n\r\n" + peer.reply)

    return act


def cut(share: float) -> Act:
    """A good response that ends at a share of its bytes."""

    def act(peer: Peer) -> None:
        whole = HEAD % peer.kind + b"Content-Length: %d\r\n\r\n" % len(peer.reply) + peer.reply
        peer.send(whole[: int(share * len(whole))])

    return act


def reset(peer: Peer) -> None:
    """Half a response, then a reset."""
    cut(0.5)(peer)
    peer.link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def silence(peer: Peer) -> None:
    """Nothing at all."""
    time.sleep(SECONDS)


def redirect(place: str, status: int = 307, body: bytes | None = b"") -> Act:
    """A redirect; a body of None is endless."""

    def act(peer: Peer) -> None:
        target = place.format(elsewhere=peer.ports[ELSEWHERE], path=peer.path)
        head = f"HTTP/1.1 {status} Moved\r\nLocation: {target}\r\n"
        if body is None:
            peer.send(head.encode() + b"\r\n")
            peer.forever(repeat(b"x" * 65536))
        else:
            peer.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode(), body)

    return act


# --- whole bodies


def reply(content: bytes | Callable[[Peer], bytes], *headers: str, status: str = "200 OK", kind: str = "") -> Act:
    """A body with its true length."""

    def act(peer: Peer) -> None:
        body = content if isinstance(content, bytes) else content(peer)
        peer.answer(body, *headers, status=status, kind=kind.encode())

    return act


def large(before: bytes, part: bytes, times: int, after: bytes) -> Act:
    """A body of many equal parts."""

    def act(peer: Peer) -> None:
        size = len(before) + len(part) * times + len(after)
        peer.send(HEAD % peer.kind + b"Content-Length: %d\r\n" % size + LAST, before)
        for _ in range(times):
            peer.send(part)
        peer.send(after)

    return act


def change_reply(change: Callable[[Any], Any]) -> Act:
    """A good reply with a changed body; the change may write `"RAW:..."` for JSON as it stands."""

    def act(peer: Peer) -> None:
        try:
            body = json.loads(peer.reply)
        except ValueError:  # a stream, or a file
            peer.answer(peer.reply)
            return
        text = json.dumps(change(body))
        peer.answer(re.sub(r'"RAW:([^"]*)"', lambda match: raw(match[1]), text).encode())

    return act


def raw(recipe: str) -> str:
    """JSON that no Python object has, by a short name and its size."""
    name, _, size = recipe.partition("*")
    count = int(size or 1)
    return {
        "deep": "[" * count + "]" * count,
        "object": '{"a":' * count + "1" + "}" * count,
        "digits": "9" * count,
        "surrogate": '"\\ud800\\udc00\\ud800"',
        "nul": '"\\u0000\\u001b[2J"',
    }.get(name, name)


def message_of(body: dict[str, Any]) -> dict[str, Any]:
    """The part of a reply with the text: a message of OpenAI, or the reply of Anthropic."""
    if "choices" not in body:
        return body
    choice: dict[str, Any] = body["choices"][0]
    return choice.get("message") or choice


def put(field: str, value: Any) -> Callable[[Any], Any]:
    """Set a field of a reply; `message.` leads to that of its message."""

    def change(body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        holder = message_of(body) if field.startswith("message.") else body
        holder[field.removeprefix("message.")] = value
        return body

    return change


def text_of(text: str) -> Callable[[Any], Any]:
    """Set the text of a reply, in its protocol."""

    def change(body: Any) -> Any:
        if isinstance(body, dict) and "choices" in body:
            holder = message_of(body)
            holder["content" if "content" in holder else "text"] = text
        elif isinstance(body, dict) and "content" in body:
            body["content"] = [{"type": "text", "text": text}]
        return body

    return change


def usage(value: Any) -> Callable[[Any], Any]:
    """Set all numbers of tokens."""

    def change(body: Any) -> Any:
        if isinstance(body, dict) and "usage" in body:
            body["usage"] = dict.fromkeys(body["usage"], value)
        return body

    return change


def choices(times: int) -> Callable[[Any], Any]:
    """Repeat what the model said."""

    def change(body: Any) -> Any:
        for field in ("choices", "content"):
            if isinstance(body, dict) and field in body:
                body[field] = body[field] * times
        return body

    return change


def calls(times: int, arguments: str) -> Callable[[Any], Any]:
    """Add tool calls."""

    def change(body: Any) -> Any:
        if isinstance(body, dict) and "choices" in body:
            function = {"name": "search_memory", "arguments": arguments}
            call = {"id": "c", "type": "function", "function": function}
            message_of(body)["tool_calls"] = [call] * times
        elif isinstance(body, dict) and "content" in body:
            given = json.loads(arguments) if len(arguments) < 100 else arguments
            body["content"] = [{"type": "tool_use", "id": "c", "name": "search_memory", "input": given}] * times
        return body

    return change


def error(text: str, status: str = "500 Oops", kind: str = "application/json") -> Act:
    """An error with this message, or this page."""
    content = text if kind == "text/html" else json.dumps({"error": {"message": text, "type": "x", "code": "x"}})
    return reply(content.encode(), status=status, kind=kind)


def compress_spaces(module: str) -> bytes:
    """A gigabyte of spaces in a codec of Python that is no encoding of texts."""
    from importlib import import_module

    packer = import_module(module)
    made = packer.compressobj(9) if module == "zlib" else packer.BZ2Compressor()
    parts = [made.compress(b" " * MILLION) for _ in range(1000)]
    return b"".join([*parts, made.flush()])
