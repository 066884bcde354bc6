"""Connections to a provider: each is used again by the next call, and none is waited for."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import pytest

from emend.agents.llm import load_model
from emend.agents.providers.http_client import _with_usage_in_lines
from emend.memory import redaction
from emend.memory.errors import EmendError, ModelUnreachable
from tests.provider.models import PROTOCOLS, asked_model, quick_policy
from tests.provider.protocols import Raw
from tests.provider.server import Handler, Provider

pytestmark = pytest.mark.usefixtures("keys")
REPLY = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"Ostrim"},"finish_reason":"stop"}]}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(REPLY)


class CountingHandler(Handler):
    """Counts the connections."""

    served: "CountingProvider"

    def setup(self) -> None:
        """One more."""
        super().setup()
        self.served.connections.append(self)


class CountingProvider(Provider):
    """A provider that knows its connections."""

    handler = CountingHandler

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.connections: list[Any] = []


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_as_many_connections_as_calls_at_once(protocol):
    with CountingProvider(responder=lambda asked: "Ostrim", latency=0.2) as provider:
        model = asked_model(provider, protocol)
        for _ in range(3):
            model.invoke("Where?")
        assert len(provider.connections) == 1
        with ThreadPoolExecutor(4) as pool:
            assert [str(message.text) for message in pool.map(model.invoke, ["Where?"] * 8)] == ["Ostrim"] * 8
        assert len(provider.connections) == provider.most_at_once == 4


@pytest.mark.parametrize("fault", ["reset", "hang"])
def test_after_a_broken_exchange_there_is_another_connection(fault):
    with CountingProvider(responder=lambda asked: "Ostrim", faults=["", fault], hang=4.0) as provider:
        model = asked_model(provider, timeout=2.0)
        assert [model.invoke("Where?").text for _ in range(3)] == ["Ostrim"] * 3
        assert (len(provider.connections), provider.count) == (2, 4)


def test_a_server_that_closes_without_a_word_costs_one_call(keys):
    with closing_server() as (port, requests):
        policy = quick_policy()
        model = load_model(f"openai:any@http://127.0.0.1:{port}/v1", policy)
        for _ in range(4):
            assert model.invoke("Where?").text == "Ostrim"
            assert requests.get(timeout=20)  # its connection is closed now
        assert requests.empty() and policy.ledger.total().retries == 1


@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY", "setting"])
def test_a_proxy_gets_the_request_and_its_password_and_hosts_without_one_are_asked_directly(name, monkeypatch):
    with closing_server() as (port, requests), Provider(lambda asked: "Sorn") as provider:
        address, settings = f"http://me:secret@127.0.0.1:{port}", {}
        if name == "setting":
            settings = {"openai_proxy": address}
        else:
            monkeypatch.setenv(name, address)
            monkeypatch.setenv("no_proxy", "127.0.0.1")
        model = load_model("openai:any@http://models.invalid/v1", quick_policy(), **settings)
        assert model.invoke("Where?").text == "Ostrim"
        sent = requests.get(timeout=20)
        assert sent.startswith(b"POST http://models.invalid/v1/chat/completions HTTP/1.1\r\n")
        assert b"proxy-authorization: basic bWU6c2VjcmV0" in sent.replace(b"Basic", b"basic").replace(
            b"Proxy-A", b"proxy-a"
        )
        if name != "setting":
            assert load_model(f"openai:any@{provider.openai}", quick_policy()).invoke("Where?").text == "Sorn"


@pytest.mark.parametrize("provider_name", ["openai", "anthropic"])
@pytest.mark.parametrize("name", ["X-Api-Key", "X-Gateway-Key", "X-Goog-Session", "Cookie", "X-Tenant"])
def test_a_header_that_the_user_set_is_hidden_in_what_the_provider_says_of_it(monkeypatch, name, provider_name):
    monkeypatch.setattr(redaction, "_added", set())
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none-0123456789")
    key, harmless = "planted-0123456789", {"X-Environment": "production", "X-Title": "Answers since 2019 in Ostrim"}
    refusal = Raw({"error": {"message": f"The gateway does not know the key {key}."}}, 403)
    with Provider(lambda asked: refusal) as provider:
        address = getattr(provider, provider_name)
        headers = {name: key} | harmless
        model = load_model(f"{provider_name}:any@{address}", quick_policy(), default_headers=headers)
        with pytest.raises(EmendError, match="does not know the key <key>"):
            model.invoke("Where?")
        assert provider.requests[0].headers[name.lower()] == key
    assert [redaction.hide_keys(text) for text in harmless.values()] == list(harmless.values())


@pytest.mark.parametrize("provider_name", ["openai", "anthropic"])
@pytest.mark.parametrize("charset", ["zlib", "hex", "undefined", "none"])
def test_a_charset_that_is_none_of_texts_does_not_hide_what_the_provider_says(charset, provider_name):
    page = Raw({"error": {"message": "out of order"}}, 500, {"Content-Type": f"application/json; charset={charset}"})
    with Provider(lambda asked: page) as provider:
        model = load_model(f"{provider_name}:any@{getattr(provider, provider_name)}", quick_policy())
        with pytest.raises(ModelUnreachable, match="out of order"):
            model.invoke("Where?")


def test_control_characters_in_what_a_provider_says_are_made_visible():
    with Provider(lambda asked: Raw({"error": {"message": "out of \x1b[2Jorder"}}, 500)) as provider:
        with pytest.raises(ModelUnreachable, match=r"out of \\x1b\[2Jorder"):
            load_model(f"openai:any@{provider.openai}", quick_policy()).invoke("Where?")


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_of_a_stream_are_passed_on_as_they_come_however_they_end(end):
    seen = []

    def pieces() -> Iterator[bytes]:
        for piece in (b'data: {"usage": {"total_', b'tokens": "x"}}' + end + end, b"data: {}" + end, end):
            yield piece
            seen.append(piece)

    lines = []
    for line in _with_usage_in_lines(pieces()):
        lines.append(line)
        if len(lines) == 1:
            assert len(seen) == 1, "the first line waits for later pieces"
    assert b"".join(lines) == b'data: {"usage": {"total_tokens": 0}}' + end + end + b"data: {}" + end + end


def test_a_header_from_the_environment_is_hidden_as_well(monkeypatch):
    monkeypatch.setattr(redaction, "_added", set())
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none-0123456789")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Tenant: planted-0123456789")
    load_model("anthropic:any@http://127.0.0.1:1", quick_policy())
    assert redaction.hide_keys("tenant planted-0123456789") == "tenant <key>"


def test_an_idempotency_key_that_each_request_has_anew_is_no_secret(monkeypatch):
    monkeypatch.setattr(redaction, "_added", set())
    redaction.add_secret_headers([(b"Idempotency-Key", b"retry-0123456789"), (b"X-Gateway-Key", b"planted-01234")])
    assert redaction.hide_keys("retry-0123456789 planted-01234") == "retry-0123456789 <key>"


@contextmanager
def closing_server() -> Iterator[tuple[int, SimpleQueue[bytes]]]:
    """A server that closes every connection after its reply, which does not say so; its port and answered requests."""
    requests = SimpleQueue[bytes]()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                request = connection.recv(65536)
                connection.sendall(HEAD + REPLY)
            requests.put(request)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], requests
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(60)


class MovedHandler(Handler):
    """Sends each request to another path of the same server."""

    def do_POST(self) -> None:
        """Redirect, or answer."""
        if "again" in self.path:
            super().do_POST()
        else:
            self.rfile.read(int(self.headers["Content-Length"]))
            served: Any = self.served
            self._send(served.status, "", {"Location": f"{self.path}?again=1"})


class MovedProvider(Provider):
    """A provider that has moved."""

    handler = MovedHandler

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("protocol", ["chat", "anthropic"])
def test_a_redirect_on_the_same_host_repeats_the_request_with_its_body(protocol, status):
    with MovedProvider(status) as provider:
        assert asked_model(provider, protocol).invoke("Where is Ostrim?").text == "Where is Ostrim?"
