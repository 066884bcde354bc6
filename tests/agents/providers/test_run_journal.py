"""Replies of unfinished units are replayed to the unit that asked, by their number among equal calls."""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import pytest

from emend.agents.parsing.messages import read_usage
from emend.agents.providers.chat_model import ProviderChatModel
from emend.agents.providers.journal import FILE, CallJournal, run_journal, unit_scope
from emend.agents.providers.policy import Backoff
from emend.memory.errors import BadSettings, ReplyRefused, RunRefused
from tests.provider.models import PROTOCOLS, asked_model, quick_policy
from tests.provider.protocols import Said, ToolCall
from tests.provider.server import Provider

pytestmark = pytest.mark.usefixtures("keys")

KEY = "sk-planted-0123456789"  # of the fixture `keys`


def lookup(subject: str) -> str:
    """Look up."""
    return subject


class Broken(Exception):
    """Ends a unit in the middle."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    """Never says the same twice."""
    numbers = count(1)
    with Provider(lambda asked: f"reply {next(numbers)}") as served:
        yield served


def ask(model: ProviderChatModel, journal: CallJournal | None, unit: str, *prompts: str, breaks: bool = True):
    """Replies and usage of a unit that breaks off, or ends."""
    replies = []
    with suppress(Broken), unit_scope(journal, unit):
        for prompt in prompts:
            replies.append(model.invoke(prompt))
        if breaks:
            raise Broken
    return [str(reply.text) for reply in replies], [read_usage(reply) for reply in replies]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_resumed_unit_gets_its_replies_as_they_came_and_makes_only_new_calls(protocol, provider, tmp_path):
    model = asked_model(provider, protocol)
    with run_journal(tmp_path) as journal:
        first = ask(model, journal, "u", "a", "a", "b")
    assert first[0] == ["reply 1", "reply 2", "reply 3"] and (tmp_path / FILE).is_file()
    with run_journal(tmp_path) as journal:
        again = ask(model, journal, "u", "a", "a", "b", "c", breaks=False)
        assert again[0] == [*first[0], "reply 4"] and again[1][:3] == first[1]
        assert provider.count == 4 == model.policy.ledger.total().requests
    assert not list(tmp_path.iterdir())


def test_no_other_unit_and_no_call_outside_of_one_gets_them(provider, tmp_path):
    model = asked_model(provider)
    with run_journal(tmp_path) as journal:
        ask(model, journal, "u", "a")
        assert ask(model, journal, "v", "a")[0] == ["reply 2"] and ask(model, None, "u", "a")[0] == ["reply 3"]
        assert str(model.invoke("a").text) == "reply 4"
        assert ask(asked_model(provider, name="other"), journal, "u", "a")[0] == ["reply 5"]


def test_a_finished_unit_leaves_nothing(provider, tmp_path):
    model = asked_model(provider)
    with run_journal(tmp_path) as journal:
        ask(model, journal, "u", "a", breaks=False)
        assert journal.units() == set() and ask(model, journal, "u", "a", breaks=False)[0] == ["reply 2"]
    assert not list(tmp_path.iterdir())


def test_a_unit_whose_key_begins_another_units_key_keeps_its_replies(provider, tmp_path):
    model = asked_model(provider)
    with run_journal(tmp_path) as journal:
        ask(model, journal, "u", "a")
        ask(model, journal, "u0", "a")
        ask(model, journal, "u", "a", breaks=False)
        assert journal.units() == {"u0"}


def test_a_call_without_a_stored_reply_needs_no_query(provider, tmp_path):
    model = asked_model(provider)
    queries: list[str] = []
    with run_journal(tmp_path) as journal:
        ask(model, journal, "u", "a")
    with run_journal(tmp_path) as journal:
        journal._database.set_trace_callback(queries.append)
        replayed, _ = ask(model, journal, "u", "a", "b")
        ask(model, journal, "other", "a")
    assert replayed == ["reply 1", "reply 2"]
    assert [query.split()[0] for query in queries].count("SELECT") == 2  # of the stored reply, and at the end


@pytest.mark.parametrize("key", [None, b"u/a/1", 7])
def test_a_damaged_file_with_keys_that_are_not_texts_is_read(key, tmp_path):
    with run_journal(tmp_path) as journal:
        journal.write("u/a/1", "{}")
        journal._execute("INSERT INTO replies VALUES (?, '{}')", key)
    with run_journal(tmp_path) as journal:
        assert "u" in journal.units() and journal.read("u/a/1") == "{}"


@pytest.mark.slow
def test_a_killed_process_loses_no_reply_that_came(tmp_path):
    killed = (
        "import os; from pathlib import Path; from langchain_core.messages import AIMessage\n"
        "from emend.agents.providers.journal import CallJournal\n"
        f"CallJournal(Path({str(tmp_path)!r})).add('u/a/1', AIMessage('reply')); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", killed], check=False, timeout=120).returncode == 9
    with run_journal(tmp_path) as journal:
        reply = journal.find("u/a/1")
        assert reply is not None and reply.text == "reply"


@pytest.mark.parametrize("content", [b"", b"no database, but a text of some length" * 100])
def test_a_file_that_is_no_database_is_empty_or_named_with_the_remedy(content, tmp_path):
    (tmp_path / FILE).write_bytes(content)
    if content:
        with pytest.raises(BadSettings, match=f"{FILE}.*Delete it and try again"), run_journal(tmp_path):
            pass
    else:
        with run_journal(tmp_path) as journal:
            assert journal.units() == set()


def fill(journal: CallJournal) -> None:
    """Leave no room for a further page."""
    (pages,) = journal._database.execute("PRAGMA page_count").fetchone()
    journal._database.execute(f"PRAGMA max_page_count = {pages}")


def test_on_a_full_disk_the_reply_at_hand_is_given_and_no_further_call_is_made(provider, tmp_path):
    long = "x" * 9000
    provider.responder = lambda asked: long
    model = asked_model(provider)
    with run_journal(tmp_path) as journal:
        fill(journal)
        with pytest.warns(UserWarning, match=FILE):
            assert ask(model, journal, "u", "a", breaks=False)[0] == [long]
        for unit in ("u", "v"):
            with pytest.raises(RunRefused, match="free space on its disk"):
                ask(model, journal, unit, "b")
    assert provider.count == 1
    with run_journal(tmp_path) as journal:
        assert ask(model, journal, "u", "b", breaks=False)[0] == [long]
    assert provider.count == 2


def test_replies_that_a_killed_process_left_of_finished_units_are_deleted(provider, tmp_path):
    model = asked_model(provider)
    with run_journal(tmp_path) as journal:
        ask(model, journal, "u", "a")
        ask(model, journal, "v", "a")
    with run_journal(tmp_path, {"u"}) as journal:
        assert ask(model, journal, "v", "a", breaks=False)[0] == ["reply 2"]
        assert ask(model, journal, "u", "a", breaks=False)[0] == ["reply 3"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_refusals_and_tool_calls_are_replayed_too_and_no_key_is_stored(protocol, tmp_path):
    said = [Said(refusal="Never."), Said(calls=[ToolCall("lookup", {"subject": KEY})])]
    with Provider(lambda asked: said[asked.prompt == "call"]) as provider:
        model = asked_model(provider, protocol)
        for _ in range(2):
            with run_journal(tmp_path) as journal, pytest.raises(Broken), unit_scope(journal, "u"):
                with pytest.raises(ReplyRefused, match="Never"):
                    model.invoke("refuse")
                assert len(model.bind_tools([lookup]).invoke("call").tool_calls) == 1
                raise Broken
        assert provider.count == 2
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.iterdir())


def test_a_calls_place_is_kept_until_its_reply_is_written(provider, tmp_path, monkeypatch):
    model, meanwhile = asked_model(provider), []
    write = CallJournal.write

    def slow_write(journal: CallJournal, key: str, reply: str) -> None:
        before = provider.count
        time.sleep(0.05)
        meanwhile.append(provider.count - before)
        write(journal, key, reply)

    monkeypatch.setattr(CallJournal, "write", slow_write)
    model.policy.limit_calls(1)
    with run_journal(tmp_path) as journal, ThreadPoolExecutor(3) as pool:
        replies = list(pool.map(lambda unit: ask(model, journal, unit, "a"), "uvw"))
    assert meanwhile == [0, 0, 0] and len(replies) == 3


def test_while_a_call_waits_to_be_retried_another_has_its_place():
    backoff = Backoff(attempts=3, first=2.0, longest=2.0, total=8.0, rate_limited=0.0)
    with Provider(faults=["503"]) as provider, ThreadPoolExecutor(1) as pool:
        model = asked_model(provider, policy=quick_policy(backoff=backoff))
        model.policy.limit_calls(1)
        first = pool.submit(model.invoke, "first")
        while not provider.count:
            time.sleep(0.001)
        assert str(model.invoke("second").text) == "second" and not first.done()
        assert str(first.result().text) == "first"
        assert [request.body["messages"][0]["content"] for request in provider.requests] == ["first", "second", "first"]
    assert provider.most_at_once == 1
