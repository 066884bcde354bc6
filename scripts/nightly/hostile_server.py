"""A server on 127.0.0.1 that attacks its clients: it writes bytes to sockets, one attack for each of its ports.

    python -m scripts.nightly.hostile_server LOG

It prints the ports by attack as JSON, and writes a line to LOG for each request: the attack, and whether the request
held the key. It ends with its standard input.
"""

import json
import os
import re
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

from scripts.nightly.spoiling import in_process_limits

SECONDS = 20.0
"""Time limit of an attack on one connection."""
KEY = "sk-planted-0123456789"
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


def bytes_(content: bytes) -> Act:
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


def lying(head: bytes) -> Act:
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


def changed(change: Callable[[Any], Any]) -> Act:
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


def packed(module: str) -> bytes:
    """A gigabyte of spaces in a codec of Python that is no encoding of texts."""
    from importlib import import_module

    packer = import_module(module)
    made = packer.compressobj(9) if module == "zlib" else packer.BZ2Compressor()
    parts = [made.compress(b" " * MILLION) for _ in range(1000)]
    return b"".join([*parts, made.flush()])


PATTERNS = {
    "tags": "<html>" + "<" * 7 * MILLION,
    "scripts": "<html>" + "<script " * MILLION,
    "titles": "<html>" + "<title" * MILLION,
    "commas": "limit:" + "," * 7 * MILLION,
    "digits": "9" * 7 * MILLION,
    "spaces": "try again in" + " " * 7 * MILLION,
    "pauses": "try again in 1s 1s 1s " * 300_000,
    "quotas": "quota exceeded " * 500_000,
    "pairs": "limit: 1, " * 700_000,
    "sums": "1 + 1 + " * 800_000,
    "shares": "(1 in " * MILLION,
    "resets": "x-ratelimit-reset" * 400_000,
    "brackets": "[" * 7 * MILLION,
    "quotes": '{"a":"' * MILLION,
    "maximum": "maximum context length is " * 270_000,
    "only": "only " * 1_400_000,
    "regain": "regain access on must be less than range of tokens " * 140_000,
}
TEXTS = {
    "braces": "{" * 7 * MILLION,
    "brackets": "[" * 7 * MILLION,
    "quotes": '{"a":"' * MILLION,
    "thoughts": "<think>" * MILLION,
    "thought-ends": "</think>" * 850_000,
    "fences": "```json\n" * 850_000,
    "lines": "\n" * 7 * MILLION,
    "spaces": " " * 7 * MILLION + "x",
    "stars": "**" * 3 * MILLION,
    "answers": "Answer: " * 850_000,
    "boxes": "\\boxed{" * MILLION,
    "calls": '<tool_call>{"name": "search_memory", ' * 180_000,
    "functions": "<function=" * 700_000,
    "digits": "9" * 7 * MILLION,
    "dots": "." * 7 * MILLION,
    "surrogates": "\ud800" * MILLION,
    "controls": "\x00\x1b[2J\u202e" * 500_000,
    "combining": "e" + "\u0301" * 3 * MILLION,
}
PAUSES = {
    "nan": "nan", "inf": "inf", "negative": "-1", "1e308": "1e308", "9999": "Fri, 31 Dec 9999 23:59:59 GMT",
    "digits-60k": "9" * 60_000, "digits-1MB": "9" * MILLION, "date-60k": "Fri, " * 12_000, "zeros": "0" * 60_000 + "1",
    "1e-400": "1e-400", "letters": "\u0661", "quotes": '"' * 60_000,
}  # fmt: skip
PAGE = b"<html><head><title>Hello</title></head><body>Welcome</body></html>"


def transport_attacks() -> Iterator[tuple[str, Act]]:
    """Yield attacks below the body."""
    for encoding in ("gzip", "deflate", "zstd", "br", "gzip, gzip"):
        yield f"bomb {encoding}", bomb(encoding)
    goes_on = b"HTTP/1.1 100 Continue\r\n\r\n"
    yield "endless 100", endless(b"", goes_on * 1000)
    yield "slow 100", endless(b"", goes_on, 0.1)
    yield "endless 102 with headers", endless(b"", b"HTTP/1.1 102 Processing\r\nX-A: " + b"a" * 9000 + b"\r\n\r\n")
    yield "endless headers", endless(HEAD, b"X-A: aaaaaaaaaa\r\n" * 1000)
    yield "slow headers", endless(HEAD, b"X-A: a\r\n", 0.1)
    yield "header of 100 MB", endless(HEAD + b"X-A: ", b"a" * 65536)
    yield "status of 100 MB", endless(b"HTTP/1.1 200 ", b"a" * 65536)
    yield "slow chunks", endless(CHUNKED, b"1\r\n \r\n", 0.3)
    yield "chunks of 1 byte", endless(CHUNKED, b"1\r\n \r\n" * 10_000)
    yield "chunks of 2 bytes", endless(CHUNKED, b"2\r\nab\r\n" * 10_000)
    yield "chunks without end", endless(CHUNKED, b"10000\r\n" + b" " * 65536 + b"\r\n")
    yield "chunk extension", endless(CHUNKED + b"1;", b"a" * 65536)
    yield "chunk trailers", endless(CHUNKED + b"2\r\n{}\r\n0\r\n", b"X-A: a\r\n" * 1000)
    for name, size in {"too long": b"ffff", "too short": b"1", "negative": b"-5", "2^64": b"f" * 16}.items():
        yield f"chunk {name}", bytes_(CHUNKED + size + b"\r\n{}\r\n0\r\n\r\n")
    yield "chunk size of 1 MB", bytes_(CHUNKED + b"0" * MILLION + b"2\r\n{}\r\n0\r\n\r\n")
    lengths = {"shorter": b"3", "longer": b"99999", "negative": b"-1", "2^63": b"9223372036854775808", "none": b""}
    lengths |= {"digits": b"9" * 60_000, "two": b"3\r\nContent-Length: 900", "list": b"3, 900", "plus": b"+30"}
    for name, size in lengths.items():
        yield f"length {name}", lying(b"Content-Length: " + size)
    yield "length and chunks", lying(b"Content-Length: 5\r\nTransfer-Encoding: chunked")
    for number in range(20):
        yield f"cut {number}", cut(number / 20)
    yield "reset", reset
    yield "silence", silence
    yield "slow body", endless(HEAD + b"Content-Length: 100000\r\n\r\n", b" ", 0.1)
    yield "HTTP/0.9", bytes_(b"{}")
    yield "HTTP/2", bytes_(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 100)
    yield "101", bytes_(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
    for status in ("000 No", "999 No", "99999 No", "200", "200 \x1b[2J"):
        yield (
            f"status {status.encode('unicode_escape').decode()}",
            lying(b"X: y") if status == "200" else reply(b"{}", status=status),
        )
    yield "header with escapes", reply(b"{}", "X-A: \x1b[2J\x07")
    yield "TLS alert", bytes_(b"\x15\x03\x01\x00\x02\x02\x46")
    for name, place in {
        "to itself": "{path}", "to a file": "file:///etc/passwd", "elsewhere": "http://localhost:{elsewhere}{path}",
        "relative": "//localhost:{elsewhere}{path}", "to a script": "javascript:alert(1)", "to nothing": "",
        "of 60 KB": "/" + "a" * 60_000, "to brackets": "http://[::1/", "to a port": "http://127.0.0.1:99999/",
        "with login": "http://a:b@localhost:{elsewhere}/",
    }.items():  # fmt: skip
        for code in (301, 307):
            yield f"redirect {code} {name}", redirect(place, code)
    yield "redirect with endless body", redirect("{path}", 307, None)
    yield "cookies", reply(b"{}", *[f"Set-Cookie: c{number}={'x' * 4000}" for number in range(15)], status="500 No")
    yield "cookie date", reply(b"{}", f"Set-Cookie: a=b; expires={'1' * 60_000}", status="500 No")
    for name, pause in PAUSES.items():
        for code in (429, 503):
            yield f"pause {code} {name}", reply(b"{}", f"Retry-After: {pause}", status=f"{code} No")


def body_attacks() -> Iterator[tuple[str, Act]]:
    """Yield attacks by the body."""
    yield "JSON of 500 MB", large(b'{"a":"', b"x" * MILLION, 500, b'"}')
    yield "JSON of 7 MB", large(b'{"a":"', b"x" * MILLION, 7, b'"}')
    yield "JSON 10^6 deep", reply(b"[" * MILLION + b"]" * MILLION)
    yield "objects 10^6 deep", reply(b'{"a":' * MILLION + b"1" + b"}" * MILLION)
    yield "integer of 10^7 digits", reply(b'{"usage": ' + b"9" * 7 * MILLION + b"}")
    yield "million fields", reply(b"{" + b",".join(b'"%d":1' % number for number in range(600_000)) + b"}")
    for name in ("deep", "object"):
        for depth in (50, 150, 300, 480, 700, 900, 960, 985, 1500, 5000, 100_000):
            for field in ("usage", "extra", "message.extra", "message.content", "message.tool_calls", "error"):
                yield f"{name} {depth} in {field}", changed(put(field, f"RAW:{name}*{depth}"))
            nested = json.dumps({"error": "X"}).replace('"X"', raw(f"{name}*{depth}")).encode()
            yield f"error {name} {depth}", reply(nested, status="400 No")
            yield f"error 500 {name} {depth}", reply(nested, status="500 No")
            yield f"arguments {name} {depth}", changed(calls(1, '{"query": X}'.replace("X", raw(f"{name}*{depth}"))))
    metadata = '{"metadata":{"raw":' * 400 + "1" + "}}" * 400
    yield "error metadata", reply(b'{"error":%b}' % metadata.encode(), status="400 No")
    yield "arguments digits", changed(calls(1, '{"query": ' + "9" * 5000 + "}"))
    yield "usage digits", changed(usage("RAW:digits*4000"))
    for name, value in {
        "negative": -5, "huge": 10**30, "plausible": 10**11, "nan": "RAW:NaN", "text": "many", "list": [1],
        "null": None, "true": True, "share": 0.5, "1e400": "RAW:1e400",
    }.items():  # fmt: skip
        yield f"usage {name}", changed(usage(value))
    for name, value in {"nan": "RAW:NaN", "inf": "RAW:Infinity", "positive": 5.0, "text": "x"}.items():
        content = [{"token": "a", "logprob": value, "bytes": [], "top_logprobs": []}]
        yield f"log-probability {name}", changed(put("logprobs", {"content": content}))
    yield "no choices", changed(choices(0))
    for times in (2, 1000, 50_000):
        yield f"choices {times}", changed(choices(times))
    for times in (100, 1000, 50_000):
        yield f"tool calls {times}", changed(calls(times, "{}"))
    for value in (None, 7, "x", {}, [], [None], [[]], True):
        for field in ("choices", "message.content", "message.tool_calls", "message.role", "error", "id", "model"):
            yield f"{field} {value!r}", changed(put(field, value))
    yield "name of 7 MB", changed(put("model", "m" * 7 * MILLION))
    yield "id of 7 MB", changed(put("id", "m" * 7 * MILLION))
    yield "finish of 7 MB", changed(put("message.finish_reason", "m" * 7 * MILLION))
    yield "twice the keys", reply(lambda peer: peer.reply.rstrip(b"}") + b',"choices":[],"content":null}')
    for name in ("surrogate", "nul"):
        yield f"name {name}", changed(put("model", f"RAW:{name}"))
        yield f"text {name}", changed(put("message.content", f"RAW:{name}"))
    for name, text in TEXTS.items():
        yield f"text {name}", changed(text_of(text))
    yield "page", reply(PAGE, kind="text/html")
    yield "204", bytes_(b"HTTP/1.1 204 No Content\r\n\r\n")
    yield "205 with body", reply(b"{}", status="205 Reset")
    yield "nothing", reply(b"")
    for name, text in PATTERNS.items():
        for status in ("400 No", "429 No", "500 No"):
            kind = "text/html" if text.startswith("<") else "application/json"
            yield f"error {status[:3]} {name}", error(text, status, kind)
    for codec in ("zlib", "bz2"):
        for status in ("200 OK", "500 No"):
            charset = f"application/json; charset={codec}"
            yield f"charset {codec} {status[:3]}", reply(packed(codec), status=status, kind=charset)
    for codec in ("punycode", "idna", "unicode_escape", "utf-7", "hex", "undefined", "x" * 50_000):
        garbage = b"\xe4-" + b"z9" * 300_000
        for status in ("200 OK", "500 No"):
            charset = f"application/json; charset={codec}"
            yield f"charset {codec[:20]} {status[:3]}", reply(garbage, status=status, kind=charset)


def stream_attacks() -> Iterator[tuple[str, Act]]:
    """Yield attacks on streams of events; other requests get them too."""
    data = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
    call = b'{"index":%d,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}'
    call = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[%b]}}]}\n\n' % call
    events = {
        "comments": b": ping\n\n", "empty": b"data: {}\n\n", "texts": data, "no line end": b"data: aaaaaaaaa",
        "no JSON": b"data: x\n\n", "carriage returns": b"data: {}\r\r", "events": b"event: a\n\n", "nul": b"\0\n",
        "done": b"data: [DONE]\n\n",
    }  # fmt: skip
    for name, part in events.items():
        yield f"stream {name}", endless(CHUNKED, b"%x\r\n%b\r\n" % (len(part) * 1000, part * 1000))
        yield f"stream slow {name}", endless(CHUNKED, b"%x\r\n%b\r\n" % (len(part), part), 0.1)
        yield f"stream 6 MB {name}", reply(part * (6 * MILLION // len(part)))
    yield "stream 30000 calls", reply(b"".join(call % number for number in range(30_000)))
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    yield "stream 6 MB whole", reply(data * 100_000 + end)
    yield "stream indices", reply(b'data: {"choices":[{"index":99999999,"delta":{"content":"a"}}]}\n\n' * 1000 + end)


def attacks() -> dict[str, Act]:
    """Return all attacks by name."""
    made = dict([*transport_attacks(), *body_attacks(), *stream_attacks()])
    good = reply(lambda peer: peer.reply)
    return {WARM_UP: good, "good": good, ELSEWHERE: reply(b"{}"), **made}


# --- the server


def good_reply(path: str, body: bytes) -> bytes:
    """Return what an honest server would say."""
    tokens = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    said = {"role": "assistant", "content": "Ostrim"}
    if path.endswith("/chat/completions"):
        if b'"stream":true' in body.replace(b" ", b""):
            first = {"choices": [{"index": 0, "delta": said}]}
            last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": tokens}
            return f"data: {json.dumps(first)}\n\ndata: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode()
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        made: Any = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": tokens,
        }
    elif path.endswith("/messages"):
        made = {"id": "x", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
        made |= {"content": [{"type": "text", "text": "Ostrim"}], "usage": {"input_tokens": 5, "output_tokens": 2}}
    elif path.endswith("/v1/completions"):
        made = {"choices": [{"index": 0, "text": " Ostrim", "finish_reason": "stop"}], "usage": tokens}
    elif path.endswith("/models"):
        made = {"object": "list", "data": [{"id": "any-model", "max_model_len": 2048}]}
    elif path.endswith("/tokenize"):
        ids = list(json.loads(body)["prompt"].encode())
        made = {"tokens": ids, "count": len(ids)}
    elif path.endswith("/version"):
        made = {"version": "0.33.0"}
    else:
        made = {}
    return json.dumps(made).encode()


def spared(path: str, body: bytes) -> bool:
    """Return whether a request is a client's question about the server, before the one to attack."""
    return path.endswith(("/models", "/tokenize", "/version")) or b'"echo"' in body or b"prompt_logprobs" in body


def receive(link: socket.socket) -> tuple[str, bytes, bytes]:
    """Return path, head and body of a request."""
    content = b""
    while b"\r\n\r\n" not in content:
        if not (part := link.recv(1 << 16)):
            raise ConnectionError
        content += part
    head, _, body = content.partition(b"\r\n\r\n")
    size = re.search(rb"content-length: *(\d+)", head, re.I)
    while len(body) < int(size[1] if size else 0):
        body += link.recv(1 << 16) or b" " * (1 << 20)
    return head.split(b" ")[1].partition(b"?")[0].decode(), head, body


def serve(link: socket.socket, name: str, act: Act, ports: dict[str, int], note: Callable[[str], None]) -> None:
    """Attack one connection, or several requests of it that are spared."""
    link.settimeout(SECONDS)
    with link:
        try:
            while True:
                path, head, body = receive(link)
                note(f"{name}\t{KEY.encode() in head}\t{path}\n")
                is_stream = b'"stream":true' in body.replace(b" ", b"")
                peer = Peer(link, path, is_stream, good_reply(path, body), ports)
                if not spared(path, body):
                    act(peer)
                    return
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ")
                peer.send(b"%d\r\n\r\n" % len(peer.reply), peer.reply)
        except (OSError, ValueError, IndexError):  # the client has gone
            return


def accept(listener: socket.socket, *rest: Any) -> None:
    """Serve each connection of a port in a thread."""
    while True:
        link, _ = listener.accept()
        threading.Thread(target=serve, args=(link, *rest), daemon=True).start()


def main(log: str) -> None:
    """Listen on all ports until the standard input ends."""
    in_process_limits(gigabytes=6)
    threading.stack_size(1 << 20)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    made = attacks()
    listeners = {name: socket.create_server(("127.0.0.1", 0), backlog=16) for name in made}
    ports = {name: listener.getsockname()[1] for name, listener in listeners.items()}
    note = partial(lambda line: os.write(file, line.encode()))
    for name, listener in listeners.items():
        arguments = (listener, name, made[name], ports, note)
        threading.Thread(target=accept, args=arguments, daemon=True).start()
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
