"""A provider on 127.0.0.1 for tests and benchmarks: the real clients talk to it, and it fails when it is told to."""

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self

from langchain_core.language_models import BaseChatModel

from tests.provider.loopback import Loopback, LoopbackHandler
from tests.provider.odd_faults import ODD_FAULTS, REDIRECTED
from tests.provider.protocols import PATHS, Asked, Raw, Said, ToolCall, events, read_request, whole

Responder = Callable[[Asked], str | Said | Raw]

STATUS = {
    "429": (429, "rate_limit_exceeded", "Too many requests."),
    "429-after": (429, "rate_limit_exceeded", "Too many requests, wait."),
    "quota": (429, "insufficient_quota", "You exceeded your current quota, check your billing details."),
    "401": (401, "invalid_api_key", "Incorrect API key provided: {key}."),
    "404": (404, "model_not_found", "The model does not exist."),
    "400": (400, "invalid_request_error", "Unsupported parameter: 'temperature'."),
    "no-schema": (400, "invalid_request_error", "response_format and tools are not supported."),
    "overflow": (400, "context_length_exceeded", "This model's maximum context length is 8192; prompt is too long."),
    "500": (500, "server_error", "The server had an error."),
    "503": (503, "overloaded", "Overloaded."),
    "200": (200, "server_error", "The reply is an error, and says that all is well."),
    "echo": (502, "bad_gateway", "The request could not be passed on: {headers}"),
}
SPOILED = ("length", "refusal", "empty", "wrong_schema")
"""Replies that come and are no use."""
BROKEN = ("hang", "reset", "truncated", "page")
FAULTS = (*STATUS, *SPOILED, *BROKEN)
ALL_FAULTS = (*FAULTS, *ODD_FAULTS)


class Request(NamedTuple):
    """A request as it came, and the fault that it met, if any."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float
    fault: str


class Provider(Loopback):
    """Speaks OpenAI chat completions, OpenAI responses and Anthropic messages; a context manager.

    Args:
        responder: what the model says to what is asked; by default it repeats the last message.
        latency: seconds before every reply.
        faults: of the requests in their order (a name of `FAULTS`, or "" for none); afterwards there are none.
        choose: names the fault of each request by its number from 0, when `faults` are used up.
        strike: names the fault of a request by what it asks, where the others have none for it.
        structured: whether it knows schemas of replies; many servers that speak like OpenAI's do not.
        after: `Retry-After` of the fault `429-after`.
        hang: seconds that a request hangs which meets the fault `hang`.
    """

    def __init__(
        self,
        responder: Responder = lambda asked: asked.messages[-1][1],
        latency: float = 0.0,
        faults: Iterable[str] = (),
        choose: Callable[[int], str] = lambda number: "",
        after: str = "0",
        hang: float = 30.0,
        strike: Callable[[Asked], str] = lambda asked: "",
        structured: bool = True,
    ) -> None:
        self.responder, self.latency, self.choose = responder, latency, choose
        self.strike, self.structured = strike, structured
        self.faults, self.after, self.hang = deque(faults), after, hang
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock, self._over = threading.Lock(), threading.Event()

    @classmethod
    def of_model(cls, model: BaseChatModel, **more: Any) -> Self:
        """A provider behind which a model speaks, for example the embedded one."""
        return cls(lambda asked: str(model.invoke(asked.prompt).text), **more)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        super().__exit__(kind, error, trace)

    @property
    def openai(self) -> str:
        """The address for clients that speak like OpenAI's."""
        return f"{self.anthropic}/v1"

    @property
    def anthropic(self) -> str:
        """The address for clients that speak like Anthropic's."""
        return self.root

    def spec(self, protocol: str, name: str = "any-model") -> str:
        """The model's name on the command line; `responses` needs the setting `use_responses_api` besides."""
        return f"anthropic:{name}@{self.anthropic}" if protocol == "anthropic" else f"openai:{name}@{self.openai}"

    @property
    def count(self) -> int:
        """How many requests came."""
        return len(self.requests)

    def met(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> str:
        """Write a request down; the fault that it meets."""
        with self._lock:
            number = len(self.requests)
            fault = self.faults.popleft() if self.faults else self.choose(number)
            if not fault and path in PATHS:
                fault = self.strike(read_request(PATHS[path], body))
            if not fault and not self.structured and "response_format" in body:
                fault = "no-schema"
            assert not fault or fault in ALL_FAULTS, fault
            self.requests.append(Request(path, headers, body, time.monotonic(), fault))
            return fault

    def says(self, asked: Asked, fault: str) -> Said | Raw:
        """What the model says, spoiled by the fault."""
        self.counted(1)
        self._over.wait(self.latency)
        told = self.responder(asked)
        self.counted(-1)
        if isinstance(told, Raw):
            return told
        said = Said(told) if isinstance(told, str) else told
        if fault == "wrong_schema":
            said = Said('{"unexpected": 1}')
        if asked.forced and said.text.startswith("{") and fault != "empty":
            said = Said(calls=[ToolCall(asked.forced, json.loads(said.text))])
        if fault == "length":
            return Said((said.text or json.dumps(said.calls[0].arguments))[:9], cut=True)
        if fault == "refusal":
            return Said(refusal="I will not say that.")
        return Said() if fault == "empty" else said

    def counted(self, step: int) -> None:
        """One more, or one less, is being answered."""
        with self._lock:
            self._at_once += step
            self.most_at_once = max(self.most_at_once, self._at_once)

    def wait_over(self) -> None:
        """Hang."""
        self._over.wait(self.hang)


class Handler(LoopbackHandler):
    """One connection of a client; keeps it open."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    served: Provider

    def do_POST(self) -> None:
        """Answer one request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        fault = REDIRECTED if "again" in self.path else ""
        fault = fault or self.served.met(path, {name.lower(): text for name, text in self.headers.items()}, body)
        if path not in PATHS:
            self._send(404, {"error": {"message": f"no such path: {path}"}})
        elif fault in STATUS:
            self._fail(fault)
        elif fault == "page":
            self._send(200, "<html>We are at work here.</html>", kind="text/html")
        elif fault == "hang":
            self.served.wait_over()
            self.close_connection = True
        else:
            asked = read_request(PATHS[path], body)
            said = self.served.says(asked, fault)
            if fault in ODD_FAULTS and isinstance(said, Said):
                ODD_FAULTS[fault].act(self, asked, said)
            elif isinstance(said, Raw):
                kind = "text/html" if isinstance(said.body, str) else "application/json"
                self._send(said.status, said.body, said.headers, kind)
            else:
                self._reply(asked, said, fault)

    def key(self) -> str:
        """The key that was sent."""
        return self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")

    def _fail(self, fault: str) -> None:
        status, code, text = STATUS[fault]
        error = {
            "message": text.format(key=self.key(), headers=dict(self.headers)),
            "type": code,
            "code": code,
            "param": None,
        }
        more = {"Retry-After": self.served.after} if fault == "429-after" else {}
        self._send(status, {"type": "error", "error": error}, more)

    def _reply(self, asked: Asked, said: Said, fault: str) -> None:
        streamed = bool(asked.body.get("stream"))
        content = b"".join(events(asked, said)) if streamed else json.dumps(whole(asked, said)).encode()
        if fault == "truncated":
            content = content[: len(content) // 2]
        self._head(200, len(content), {}, "text/event-stream" if streamed else "application/json")
        if fault != "reset":
            self.wfile.write(content)
            return
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        # Closing with nothing to linger for sends a reset instead of an end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _send(
        self,
        status: int,
        body: dict[str, Any] | list[Any] | str | bytes,
        more: dict[str, str] | None = None,
        kind: str = "application/json",
    ) -> None:
        content = json.dumps(body) if isinstance(body, (dict, list)) else body
        content = content.encode() if isinstance(content, str) else content
        self._head(status, len(content), more or {}, kind)
        self.wfile.write(content)

    def _head(self, status: int, length: int, more: dict[str, str], kind: str) -> None:
        self.send_response(status)
        for name, text in ({"Content-Type": kind, "Content-Length": str(length)} | more).items():
            self.send_header(name, text)
        self.end_headers()


Provider.handler = Handler
