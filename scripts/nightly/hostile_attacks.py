"""All attacks of a hostile server, by name."""

from collections.abc import Iterator
from itertools import chain

from scripts.nightly.hostile_acts import (
    CHUNKED,
    ELSEWHERE,
    HEAD,
    MILLION,
    WARM_UP,
    Act,
    bomb,
    calls,
    change_reply,
    choices,
    compress_spaces,
    cut,
    endless,
    error,
    large,
    put,
    raw,
    raw_response,
    redirect,
    reply,
    reset,
    silence,
    text_of,
    usage,
    wrong_length,
)

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
        yield f"chunk {name}", raw_response(CHUNKED + size + b"\r\n{}\r\n0\r\n\r\n")
    yield "chunk size of 1 MB", raw_response(CHUNKED + b"0" * MILLION + b"2\r\n{}\r\n0\r\n\r\n")
    lengths = {"shorter": b"3", "longer": b"99999", "negative": b"-1", "2^63": b"9223372036854775808", "none": b""}
    lengths |= {"digits": b"9" * 60_000, "two": b"3\r\nContent-Length: 900", "list": b"3, 900", "plus": b"+30"}
    for name, size in lengths.items():
        yield f"length {name}", wrong_length(b"Content-Length: " + size)
    yield "length and chunks", wrong_length(b"Content-Length: 5\r\nTransfer-Encoding: chunked")
    for number in range(20):
        yield f"cut {number}", cut(number / 20)
    yield "reset", reset
    yield "silence", silence
    yield "slow body", endless(HEAD + b"Content-Length: 100000\r\n\r\n", b" ", 0.1)
    yield "HTTP/0.9", raw_response(b"{}")
    yield "HTTP/2", raw_response(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 100)
    yield "101", raw_response(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
    for status in ("000 No", "999 No", "99999 No", "200", "200 \x1b[2J"):
        yield (
            f"status {status.encode('unicode_escape').decode()}",
            wrong_length(b"X: y") if status == "200" else reply(b"{}", status=status),
        )
    yield "header with escapes", reply(b"{}", "X-A: \x1b[2J\x07")
    yield "TLS alert", raw_response(b"\x15\x03\x01\x00\x02\x02\x46")
    yield "cookies", reply(b"{}", *[f"Set-Cookie: c{number}={'x' * 4000}" for number in range(15)], status="500 No")
    yield "cookie date", reply(b"{}", f"Set-Cookie: a=b; expires={'1' * 60_000}", status="500 No")
    for name, pause in PAUSES.items():
        for code in (429, 503):
            yield f"pause {code} {name}", reply(b"{}", f"Retry-After: {pause}", status=f"{code} No")


def redirect_attacks() -> Iterator[tuple[str, Act]]:
    """Yield redirects to the server itself and elsewhere."""
    for name, place in {
        "to itself": "{path}", "to a file": "file:///etc/passwd", "elsewhere": "http://localhost:{elsewhere}{path}",
        "relative": "//localhost:{elsewhere}{path}", "to a script": "javascript:alert(1)", "to nothing": "",
        "of 60 KB": "/" + "a" * 60_000, "to brackets": "http://[::1/", "to a port": "http://127.0.0.1:99999/",
        "with login": "http://a:b@localhost:{elsewhere}/",
    }.items():  # fmt: skip
        for code in (301, 307):
            yield f"redirect {code} {name}", redirect(place, code)
    yield "redirect with endless body", redirect("{path}", 307, None)


def body_attacks() -> Iterator[tuple[str, Act]]:
    """Yield attacks by the body."""
    yield "JSON of 500 MB", large(b'{"a":"', b"x" * MILLION, 500, b'"}')
    yield "JSON of 7 MB", large(b'{"a":"', b"x" * MILLION, 7, b'"}')
    yield "JSON 10^6 deep", reply(b"[" * MILLION + b"]" * MILLION)
    yield "objects 10^6 deep", reply(b'{"a":' * MILLION + b"1" + b"}" * MILLION)
    yield "integer of 10^7 digits", reply(b'{"usage": ' + b"9" * 7 * MILLION + b"}")
    yield "million fields", reply(b"{" + b",".join(b'"%d":1' % number for number in range(600_000)) + b"}")
    metadata = '{"metadata":{"raw":' * 400 + "1" + "}}" * 400
    yield "error metadata", reply(b'{"error":%b}' % metadata.encode(), status="400 No")
    yield "arguments digits", change_reply(calls(1, '{"query": ' + "9" * 5000 + "}"))
    yield "usage digits", change_reply(usage("RAW:digits*4000"))
    for name, value in {
        "negative": -5, "huge": 10**30, "plausible": 10**11, "nan": "RAW:NaN", "text": "many", "list": [1],
        "null": None, "true": True, "share": 0.5, "1e400": "RAW:1e400",
    }.items():  # fmt: skip
        yield f"usage {name}", change_reply(usage(value))
    for name, value in {"nan": "RAW:NaN", "inf": "RAW:Infinity", "positive": 5.0, "text": "x"}.items():
        content = [{"token": "a", "logprob": value, "bytes": [], "top_logprobs": []}]
        yield f"log-probability {name}", change_reply(put("logprobs", {"content": content}))
    yield "no choices", change_reply(choices(0))
    for times in (2, 1000, 50_000):
        yield f"choices {times}", change_reply(choices(times))
    for times in (100, 1000, 50_000):
        yield f"tool calls {times}", change_reply(calls(times, "{}"))
    for value in (None, 7, "x", {}, [], [None], [[]], True):
        for field in ("choices", "message.content", "message.tool_calls", "message.role", "error", "id", "model"):
            yield f"{field} {value!r}", change_reply(put(field, value))
    yield "name of 7 MB", change_reply(put("model", "m" * 7 * MILLION))
    yield "id of 7 MB", change_reply(put("id", "m" * 7 * MILLION))
    yield "finish of 7 MB", change_reply(put("message.finish_reason", "m" * 7 * MILLION))
    yield "twice the keys", reply(lambda peer: peer.reply.rstrip(b"}") + b',"choices":[],"content":null}')
    for name in ("surrogate", "nul"):
        yield f"name {name}", change_reply(put("model", f"RAW:{name}"))
        yield f"text {name}", change_reply(put("message.content", f"RAW:{name}"))
    for name, text in TEXTS.items():
        yield f"text {name}", change_reply(text_of(text))
    yield "page", reply(PAGE, kind="text/html")
    yield "204", raw_response(b"HTTP/1.1 204 No Content\r\n\r\n")
    yield "205 with body", reply(b"{}", status="205 Reset")
    yield "nothing", reply(b"")
    for name, text in PATTERNS.items():
        for status in ("400 No", "429 No", "500 No"):
            kind = "text/html" if text.startswith("<") else "application/json"
            yield f"error {status[:3]} {name}", error(text, status, kind)


def nested_attacks() -> Iterator[tuple[str, Act]]:
    """Yield replies and errors that are nested deeply."""
    for name in ("deep", "object"):
        for depth in (50, 150, 300, 480, 700, 900, 960, 985, 1500, 5000, 100_000):
            for field in ("usage", "extra", "message.extra", "message.content", "message.tool_calls", "error"):
                yield f"{name} {depth} in {field}", change_reply(put(field, f"RAW:{name}*{depth}"))
            content = raw(f"{name}*{depth}")
            nested = f'{{"error": {content}}}'.encode()
            yield f"error {name} {depth}", reply(nested, status="400 No")
            yield f"error 500 {name} {depth}", reply(nested, status="500 No")
            yield (
                f"arguments {name} {depth}",
                change_reply(calls(1, f'{{"query": {content}}}')),
            )


def charset_attacks() -> Iterator[tuple[str, Act]]:
    """Yield bodies in charsets that are none of texts, or slow."""
    for codec in ("zlib", "bz2"):
        for status in ("200 OK", "500 No"):
            charset = f"application/json; charset={codec}"
            yield f"charset {codec} {status[:3]}", reply(compress_spaces(codec), status=status, kind=charset)
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
    groups = (
        transport_attacks,
        redirect_attacks,
        body_attacks,
        nested_attacks,
        charset_attacks,
        stream_attacks,
    )
    made = dict(chain.from_iterable(group() for group in groups))
    good = reply(lambda peer: peer.reply)
    return {WARM_UP: good, "good": good, ELSEWHERE: reply(b"{}"), **made}
