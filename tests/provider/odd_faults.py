"""Rarer faults of a provider, each with what becomes of the call: odd statuses, headers, bodies and usages."""

import gzip
import json
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple

from tests.provider.protocols import Asked, Said, ToolCall, whole

Becomes = Literal["tried again", "the same", "unscored", "failed", "the end"]
"""The call is made again; its result is as without the fault; it is unscored; its unit fails; the run ends."""
Act = Callable[[Any, Asked, Said], None]


class OddFault(NamedTuple):
    """What the server does in place of a plain reply, and what becomes of the call."""

    act: Act
    becomes: Becomes


def status(code: int, text: str = "Something is wrong.", **headers: str) -> Act:
    """An error; `{key}` is the key that was sent."""

    def act(handler: Any, asked: Asked, said: Said) -> None:
        message = text.format(key=handler.key())
        error = {"message": message, "type": "odd", "code": "odd", "param": None}
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        handler._send(code, {"type": "error", "error": error}, more)

    return act


def reply(change: Callable[[dict[str, Any]], Any], **headers: str) -> Act:
    """The plain reply with a changed body; a text or bytes are sent as they are."""

    def act(handler: Any, asked: Asked, said: Said) -> None:
        body = change(whole(asked, said))
        more = {name.replace("_", "-"): value.format(key=handler.key()) for name, value in headers.items()}
        handler._send(200, body, more, more.pop("Content-Type", "application/json"))

    return act


def says(change: Callable[[Asked, Said, str], Said]) -> Act:
    """The plain reply, after the model has said something else; the change is given the key that was sent."""

    def act(handler: Any, asked: Asked, said: Said) -> None:
        handler._send(200, json.dumps(whole(asked, change(asked, said, handler.key()))))

    return act


def thinking(thought: str) -> Act:
    """Thoughts before the text, which is left as it is."""
    return says(lambda asked, said, key: said._replace(text=f"<think>{thought.format(key=key)}</think>{said.text}"))


def usage(value: Any) -> Act:
    """Every number of the usage is this value, written as it stands where it is a text of digits."""

    def act(handler: Any, asked: Asked, said: Said) -> None:
        body = whole(asked, said)
        body["usage"] = {name: "NUMBER" if name.endswith("tokens") else part for name, part in body["usage"].items()}
        handler._send(200, json.dumps(body).replace('"NUMBER"', value))

    return act


def written(*parts: bytes, seconds: float = 0.0) -> Act:
    """These bytes in place of head and body, each after so many seconds; then the connection is closed."""

    def act(handler: Any, asked: Asked, said: Said) -> None:
        for part in parts:
            handler.wfile.write(part)
            handler.wfile.flush()
            if handler.served._over.wait(seconds):
                break
        handler.close_connection = True

    return act


def repeated(part: bytes, times: int, *, zipped: bool) -> Act:
    """A text of so many parts; zipped it is a thousandth of that on the wire."""

    def act(handler: Any, asked: Asked, said: Said) -> None:
        body = whole(asked, said._replace(text="FILL"))
        before, after = json.dumps(body).encode().split(b"FILL") if said.text else (b'{"a": "', b'"}')
        if zipped:
            handler._send(200, bomb(before, part, times, after), {"Content-Encoding": "gzip"})
            return
        handler._head(200, len(before) + len(part) * times + len(after), {}, "application/json")
        handler.wfile.write(before)
        for _ in range(times):
            handler.wfile.write(part)
        handler.wfile.write(after)

    return act


@cache
def bomb(before: bytes, part: bytes, times: int, after: bytes) -> bytes:
    """The text, zipped."""
    return gzip.compress(before + part * times + after)


def redirect(handler: Any, asked: Asked, said: Said) -> None:
    """To another port, which is another origin."""
    handler._send(307, "", {"Location": f"http://127.0.0.1:9{handler.path}"})


def redirect_nowhere(handler: Any, asked: Asked, said: Said) -> None:
    """To what httpx does not take for an address."""
    handler._send(307, "", {"Location": "javascript:alert(1)"})


def redirect_here(handler: Any, asked: Asked, said: Said) -> None:
    """To the same origin; a request that was redirected gets the reply."""
    if "again" in handler.path:
        handler._send(200, whole(asked, said))
    else:
        handler._send(307, "", {"Location": f"{handler.path}?again=1"})


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CALL = ToolCall("nobody_offered_this", {"query": "x"})
REDIRECTED = "redirect-here"
ODD_FAULTS: dict[str, OddFault] = {
    **{str(code): OddFault(status(code), "tried again") for code in (408, 409, 502, 504, 529)},
    **{
        f"429-{name}": OddFault(status(429, Retry_After=after), "tried again")
        for name, after in {
            "short": "0.05", "zero": "0", "negative": "-5", "nan": "nan", "inf": "inf", "1e400": "1e400",
            "word": "soon", "past": "Wed, 21 Oct 2015 07:28:00 GMT",
        }.items()
    },
    "429-milliseconds": OddFault(status(429, Retry_After_ms="30"), "tried again"),
    "429-in-words": OddFault(status(429, "Please try again in 30ms."), "tried again"),
    "429-day": OddFault(status(429, Retry_After="86400"), "the end"),
    "429-year": OddFault(status(429, Retry_After="31536000"), "the end"),
    "429-year-9999": OddFault(status(429, Retry_After="Fri, 31 Dec 9999 23:59:59 GMT"), "the end"),
    "503-day": OddFault(status(503, Retry_After="86400"), "the end"),
    "403": OddFault(status(403, "Not for this key, {key}."), "the end"),
    "402": OddFault(status(402), "failed"),
    "413": OddFault(status(413), "unscored"),
    "422": OddFault(status(422), "failed"),
    "echo-400": OddFault(status(400, "What is {key}?"), "failed"),
    "echo-500": OddFault(status(500, "Bearer {key} broke me."), "tried again"),
    "echo-200": OddFault(
        lambda handler, asked, said: handler._send(200, {"error": {"message": f"No: {handler.key()}", "code": 500}}),
        "tried again",
    ),
    "echo-text": OddFault(thinking("I was sent {key}."), "the same"),
    "echo-header": OddFault(reply(dict, x_request_id="{key}"), "the same"),
    "surrogate": OddFault(thinking("half a character: \ud800"), "the same"),
    "surrogate-pair": OddFault(thinking("in two halves: \ud83d\ude00"), "the same"),
    "nul": OddFault(thinking("\0\x07\x1b[31m"), "the same"),
    "blank": OddFault(says(lambda asked, said, key: said._replace(text=" \n ", calls=[])), "unscored"),
    "thoughts": OddFault(says(lambda asked, said, key: Said("<think>Hm, I wonder</think>")), "unscored"),
    "uninvited-call": OddFault(says(lambda asked, said, key: Said(calls=[CALL])), "unscored"),
    "uninvited-call-beside-text": OddFault(
        says(lambda asked, said, key: said._replace(calls=said.calls or [CALL])), "the same"
    ),
    **{
        f"usage-{name}": OddFault(usage(value), "the same")
        for name, value in {
            "text": '"many"', "negative": "-7", "share": "0.5", "nan": "NaN", "infinite": "1e400", "true": "true",
            "huge": "9" * 30, "list": "[1]",
        }.items()
    },
    "usage-missing": OddFault(reply(lambda body: body | {"usage": None}), "the same"),
    "usage-is-a-text": OddFault(reply(lambda body: body | {"usage": "none"}), "the same"),
    "plain-text": OddFault(reply(lambda body: "OK", Content_Type="text/plain"), "tried again"),
    "nothing": OddFault(reply(lambda body: ""), "tried again"),
    "null": OddFault(reply(lambda body: "null"), "tried again"),
    "list": OddFault(reply(lambda body: "[]"), "tried again"),
    "deep": OddFault(reply(lambda body: "[" * 100_000 + "]" * 100_000), "tried again"),
    "not-utf-8": OddFault(reply(lambda body: b'{"a": "\xff\xfe"}'), "tried again"),
    "byte-order-mark": OddFault(reply(lambda body: b"\xef\xbb\xbf" + json.dumps(body).encode()), "the same"),
    "no-fields": OddFault(reply(lambda body: {"id": "x"}), "tried again"),
    "error-as-text": OddFault(reply(lambda body: {"error": "It broke."}), "tried again"),
    "more-fields": OddFault(reply(lambda body: body | {"unknown": {"a": [1]}}), "the same"),
    "gzip": OddFault(reply(lambda body: gzip.compress(json.dumps(body).encode()), Content_Encoding="gzip"), "the same"),
    "no-gzip": OddFault(reply(json.dumps, Content_Encoding="gzip"), "tried again"),
    "half-gzip": OddFault(reply(lambda body: gzip.compress(b"{" * 99)[:20], Content_Encoding="gzip"), "tried again"),
    "brotli": OddFault(reply(json.dumps, Content_Encoding="br"), "tried again"),
    "bomb": OddFault(repeated(b"x" * 1_000_000, 50, zipped=True), "tried again"),
    "huge": OddFault(repeated(b"x" * 1_000_000, 50, zipped=False), "tried again"),
    "drip": OddFault(written(HEAD + b"\r\n", *[b" "] * 1000, seconds=0.1), "tried again"),
    "drip-head": OddFault(written(b"HTTP/1.1 200 OK\r\nX-A: ", *[b"a"] * 1000, seconds=0.1), "tried again"),
    "closed": OddFault(written(), "tried again"),
    "half-a-head": OddFault(written(b"HTTP/1.1 200"), "tried again"),
    "no-http": OddFault(written(b"\x00\x01\x02 hello\r\n\r\n"), "tried again"),
    "bad-chunks": OddFault(written(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"), "tried again"),
    "too-short": OddFault(written(HEAD + b"Content-Length: 900\r\n\r\n{}"), "tried again"),
    "redirect": OddFault(redirect, "failed"),
    "redirect-nowhere": OddFault(redirect_nowhere, "failed"),
    REDIRECTED: OddFault(redirect_here, "the same"),
}  # fmt: skip
