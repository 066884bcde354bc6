"""The client is polite, waits within bounds, asks nothing twice, and survives servers that fail or mean harm."""

import gzip
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emend.evals.construction.wikidata.query import LONGEST_PAUSE, WikiClient, WikiServers
from emend.memory.errors import BadSettings, FetchFailed
from tests.evals.construction.wikidata.wiki_server import Fault, WikiServer
from tests.evals.data.origin import dead_url

PARAMETERS = {"action": "wbgetentities", "ids": "Q1", "props": "labels"}
MAXLAG = b'{"error":{"code":"maxlag","info":"Waiting for 10.64.48.35: 8 seconds lagged.","lag":8},"servedby":"mw1"}'


def ask(client: WikiClient) -> Any:
    return client.call(client.servers.wikidata, PARAMETERS, msgspec.json.decode)


def test_a_request_names_the_contact_and_asks_to_be_refused_when_servers_lag(client, server):
    assert ask(client)["success"] == 1
    path, parameters, headers = server.requests[0]
    assert (path, parameters["maxlag"], parameters["format"]) == ("/wikidata", "5", "json")
    assert headers["Accept-Encoding"] == "gzip"
    assert headers["User-Agent"].startswith("emend/") and "(me@example.org)" in headers["User-Agent"]


def test_a_packed_reply_is_unpacked(client, server):
    server.faults.append(Fault(200, gzip.compress(b'{"entities":{}}'), {"Content-Encoding": "gzip"}))
    assert ask(client) == {"entities": {}}


@pytest.mark.parametrize("contact", ["", "me", "a b@c\n", "x@y\r\nEvil: 1", "me@exa(mple)", "mé@example.org"])
def test_without_a_contact_there_is_no_client(contact, tmp_path):
    with pytest.raises(BadSettings, match=r"me@example\.org"):
        WikiClient(contact, tmp_path / "cache")


def test_only_https_and_this_machine_are_asked(tmp_path):
    with pytest.raises(BadSettings, match="https"):
        WikiClient("me@example.org", tmp_path / "cache", WikiServers(sparql="http://example.org/sparql"))


def test_a_reply_is_asked_for_once_also_by_a_later_client(client, server, tmp_path):
    first = ask(client)
    assert ask(client) == first and len(server.requests) == 1
    with WikiClient("you@example.org", tmp_path / "cache", server.servers) as other:
        assert ask(other) == first and len(server.requests) == 1
        other.call(server.servers.wikidata, PARAMETERS | {"ids": "Q2"}, msgspec.json.decode)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("fault", "pause"),
    [
        (Fault(429, headers={"Retry-After": "7"}), 7.0),
        (Fault(503, headers={"Retry-After": "120"}), 120.0),
        (Fault(429), 1.0),
        (Fault(500, b"<html>"), 1.0),
        (Fault(200, MAXLAG, {"MediaWiki-API-Error": "maxlag", "Retry-After": "5"}), 5.0),
        (Fault(200, MAXLAG), 1.0),
        (Fault(200, b'{"entities":{"Q1":{"id"'), 1.0),
        (Fault(200, b'{"a":' + b"[" * 100_000), 1.0),
        (Fault(200, b""), 1.0),
        (Fault(200, b"\xff\xfe"), 1.0),
        (Fault(200, b"no gzip", {"Content-Encoding": "gzip"}), 1.0),
        (Fault(200, b"{", {"Content-Length": "4000"}), 1.0),
    ],
)
def test_what_may_pass_is_tried_again_after_a_pause(client, server, pauses, fault, pause):
    server.faults.append(fault)
    assert ask(client)["success"] == 1
    assert (pauses, len(server.requests)) == ([pause], 2)


def test_pauses_grow_and_the_attempts_end_with_what_to_do(client, server, pauses):
    server.faults.extend([Fault(500)] * 9)
    with pytest.raises(FetchFailed, match="Try again later") as error:
        ask(client)
    assert "status 500" in str(error.value)
    assert (pauses, len(server.requests)) == ([1.0, 2.0, 4.0, 8.0], 5)


def test_a_pause_that_is_too_long_is_not_waited_for(client, server, pauses):
    server.faults.append(Fault(429, headers={"Retry-After": str(int(LONGEST_PAUSE) + 1)}))
    with pytest.raises(FetchFailed, match="301 s"):
        ask(client)
    assert (pauses, len(server.requests)) == ([], 1)


@pytest.mark.parametrize(
    ("fault", "match"),
    [
        (Fault(403, b"Please set a user-agent"), "user-agent"),
        (Fault(404), "404"),
        (Fault(200, b'{"error":{"code":"badvalue","info":"Unrecognized value"}}'), "badvalue"),
        (Fault(200, b'{"error":{"code":"\\u001b[2J","info":"a\\nb"}}'), "^[^\\x1b\\n]*$"),
        (Fault(302, headers={"Location": "http://127.0.0.2:1/x"}), "redirects"),
        (Fault(302, headers={"Location": "javascript:alert(1)"}), "redirects to an invalid address"),
    ],
)
def test_a_refusal_is_final(client, server, pauses, fault, match):
    server.faults.append(fault)
    with pytest.raises(FetchFailed, match=match):
        ask(client)
    assert (pauses, len(server.requests)) == ([], 1)


def test_a_server_that_is_gone_is_an_error(tmp_path):
    url = dead_url("")
    pauses: list[float] = []
    servers = WikiServers(sparql=url, wikidata=url, wikipedia=url)
    with WikiClient("me@example.org", tmp_path / "cache", servers, sleep=pauses.append) as client:
        with pytest.raises(FetchFailed, match="ConnectError"):
            ask(client)
    assert len(pauses) == 4


def hostile_client(server: WikiServer, folder: Path, **bounds: Any) -> WikiClient:
    return WikiClient("me@example.org", folder / "cache", server.servers, sleep=lambda seconds: None, **bounds)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(200, b"x" * 65_536, endless=True),
        Fault(200, gzip.compress(bytes(100_000_000), 1), {"Content-Encoding": "gzip"}),  # a bomb
    ],
    ids=["endless", "bomb"],
)
def test_a_reply_that_is_too_large_is_not_read_on(server, tmp_path, fault):
    server.faults.extend([fault] * 5)
    with hostile_client(server, tmp_path, max_bytes=1_000_000) as client:
        with pytest.raises(FetchFailed, match="larger than 1 MB"):
            ask(client)


@pytest.mark.parametrize(
    "fault", [Fault(silent=True), Fault(200, b" ", endless=True, pause=0.05)], ids=["silent", "dripping"]
)
def test_a_reply_that_does_not_end_is_given_up(server, tmp_path, fault):
    server.faults.extend([fault] * 5)
    start = time.monotonic()
    with hostile_client(server, tmp_path, seconds=0.2) as client, pytest.raises(FetchFailed, match="failed 5 times"):
        ask(client)
    assert time.monotonic() - start < 30


def test_a_refused_reply_is_not_cached(client, server):
    server.faults.append(Fault(200, b'{"error":{"code":"badvalue"}}'))
    with pytest.raises(FetchFailed):
        ask(client)
    assert ask(client)["success"] == 1


def test_a_cache_that_is_none_is_named(server, tmp_path):
    (tmp_path / "cache").write_bytes(b"no database" * 1000)
    with hostile_client(server, tmp_path) as client, pytest.raises(FetchFailed, match="delete it"):
        ask(client)


def test_a_damaged_reply_in_the_cache_is_named(client, server, tmp_path):
    ask(client)
    with closing(sqlite3.connect(tmp_path / "cache")) as cache, cache:
        cache.execute("UPDATE replies SET content = x'00'")
    with pytest.raises(FetchFailed, match="delete it"):
        ask(client)
