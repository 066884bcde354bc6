import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.messages import AIMessage, ToolMessage

from emend.agents.llm import load_model
from emend.agents.parsing.messages import read_usage
from emend.agents.providers.chat_model import ProviderChatModel
from emend.agents.providers.journal import FILE, CallJournal, call_key
from emend.agents.providers.repetition import repetition
from emend.memory.errors import BadSettings, ModelReplyError
from emend.memory.probe import Usage
from tests.fakes import ScriptedChatModel
from tests.provider.models import PROTOCOLS, asked_model, quick_policy
from tests.provider.protocols import Said, ToolCall
from tests.provider.server import Provider

pytestmark = pytest.mark.usefixtures("keys")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cached_reply_costs_nothing_and_says_so(protocol, tmp_path):
    with Provider(lambda asked: "Ostrim", faults=["500"]) as provider:
        policy = quick_policy(cache=tmp_path)
        model = asked_model(provider, protocol, policy)
        first = model.invoke("Which town is it?")
        with get_usage_metadata_callback() as counted:
            again = model.invoke("Which town is it?")
    assert str(first.text) == str(again.text) == "Ostrim" and provider.count == 2
    assert (read_usage(first).calls, read_usage(again)) == (1, Usage(cached=1))
    assert counted.usage_metadata == {}
    spent = policy.ledger.total()
    assert (spent.requests, spent.replies, spent.cached, spent.output_tokens) == (2, 1, 1, 1)
    policy.close()


def test_everything_that_decides_a_reply_is_in_its_key(tmp_path):
    with Provider(lambda asked: "x") as provider:
        policy = quick_policy(cache=tmp_path)
        model = asked_model(provider, policy=policy)
        model.invoke("a")
        model.invoke("b")
        model.invoke("a", max_tokens=5)
        model.invoke("a", stop=["."])
        with repetition(1):
            model.invoke("a")
        asked_model(provider, policy=policy, temperature=0.7).invoke("a")
        asked_model(provider, policy=policy, name="other").invoke("a")
        asked_model(provider, "responses", policy=policy).invoke("a")
        assert provider.count == 8
        with repetition(1):
            asked_model(provider, policy=policy).invoke("a")
        assert provider.count == 8 and policy.ledger.total().cached == 1
    policy.close()


def test_cached_replies_are_there_for_the_next_process(tmp_path):
    first, second = CallJournal(tmp_path), CallJournal(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: (first, second)[n % 2].add(f"k{n % 40}", AIMessage(f"reply {n % 40}")), range(200)))
    told = [str(message.text) if (message := second.find(f"k{n}")) else None for n in range(41)]
    assert told == [*(f"reply {n}" for n in range(40)), None]
    first.close()
    second.close()


def test_tool_calls_are_cached(tmp_path):
    def lookup(subject: str) -> str:
        """Look up."""
        return subject

    with Provider(lambda asked: Said(calls=[ToolCall("lookup", {"subject": "Ostrim"})])) as provider:
        policy = quick_policy(cache=tmp_path)
        model = asked_model(provider, policy=policy).bind_tools([lookup])
        first, again = model.invoke("x"), model.invoke("x")
    assert first.tool_calls == again.tool_calls and first.tool_calls and provider.count == 1
    policy.close()


def test_an_unusable_reply_is_not_cached(tmp_path):
    with Provider(lambda asked: "x", faults=["empty"]) as provider:
        policy = quick_policy(cache=tmp_path)
        model = asked_model(provider, policy=policy)
        with pytest.raises(ModelReplyError):
            model.invoke("a")
        assert str(model.invoke("a").text) == "x"
    policy.close()


def test_neither_key_nor_prompt_is_in_the_file(tmp_path):
    with Provider(lambda asked: "x") as provider:
        policy = quick_policy(cache=tmp_path)
        asked_model(provider, policy=policy).invoke("a secret prompt")
    policy.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"planted" not in kept and b"secret prompt" not in kept


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / FILE).write_bytes(b"this is no database, it is a long text instead" * 50)
    with pytest.raises(BadSettings, match="cannot be used"):
        CallJournal(tmp_path)
    (tmp_path / FILE).unlink()
    base = sqlite3.connect(tmp_path / FILE)
    base.execute("PRAGMA user_version=99")
    base.close()
    with pytest.raises(BadSettings, match="version 99.*--cache"):
        CallJournal(tmp_path)
    with pytest.raises(BadSettings, match="cannot be used"):
        CallJournal(tmp_path / FILE)


def test_a_cache_that_breaks_under_way_costs_no_reply(tmp_path):
    with Provider(lambda asked: "Ostrim") as provider:
        policy = quick_policy(cache=tmp_path)
        model = asked_model(provider, policy=policy)
        assert policy.cache is not None
        policy.cache._database.execute("PRAGMA max_page_count = 1")
        policy.cache._database.execute("DROP TABLE replies")
        with pytest.warns(UserWarning, match=f"the file of replies '.*{FILE}' cannot be used now") as warned:
            assert str(model.invoke("Which town is it?").text) == "Ostrim"
        assert len(warned) == 1  # not when it is written to as well
        assert str(model.invoke("Which town is it?").text) == "Ostrim" and provider.count == 2
    policy.close()


def test_tool_calls_are_in_the_key_of_a_plug_ins_model():
    policy = quick_policy()
    model = ProviderChatModel.wrap(ScriptedChatModel(reply=lambda prompt: "x"), "plug:x", policy)

    def key(tool, **arguments):
        calls = [{"name": tool, "args": arguments, "id": "1"}]
        said = [AIMessage("", tool_calls=calls), ToolMessage("Nothing was found.", tool_call_id="1")]
        return call_key("plug:x", "", model._payload(said, None, {}), 0)

    assert key("lookup", subject="A", relation="b") == key("lookup", subject="A", relation="b")
    assert key("lookup", subject="A", relation="b") != key("search_memory", query="A b")
    policy.close()


def _says(said, asked):
    return said


def test_the_address_is_in_the_key_also_where_the_environment_has_it(tmp_path, monkeypatch):
    policy = quick_policy(cache=tmp_path)
    for said in ("one", "two"):
        with Provider() as provider:
            provider.responder = partial(_says, said)
            monkeypatch.setenv("OPENAI_BASE_URL", provider.openai)
            assert load_model("openai:any", policy, api_key="x").invoke("a").text == said
    policy.close()


@pytest.mark.parametrize(
    "reply", ["{", "[]", '{"type": "human", "data": {"content": "x"}}', '{"type": "ai"}', "null", "7"]
)
def test_a_damaged_reply_is_asked_for_again_and_named(reply, tmp_path):
    with Provider(lambda asked: "Ostrim") as provider:
        policy = quick_policy(cache=tmp_path)
        model = asked_model(provider, policy=policy)
        model.invoke("a")
        assert policy.cache is not None
        policy.cache._database.execute("UPDATE replies SET reply = ?", [reply])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert str(model.invoke("a").text) == "Ostrim" and provider.count == 2
        assert all(FILE in str(warning.message) for warning in caught)
    policy.close()


def test_a_reply_with_half_of_a_surrogate_pair_is_stored(tmp_path):
    journal = CallJournal(tmp_path)
    journal.add("k", AIMessage("a\ud800b"))
    found = journal.find("k")
    assert found is not None and found.content == "a\ud800b"
    journal.close()
