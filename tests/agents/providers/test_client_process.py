"""Calls made by another process are what they would be here: replies, errors, waits, counts; and it leaves no trace."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from emend.agents.providers import client_process
from emend.agents.providers.chat_model import AskedModel
from emend.agents.providers.client_process import MANY, worth_a_process
from emend.evals.log.manifest import RunConfig
from emend.evals.runner.run import run
from emend.memory.errors import ModelError, ModelUnreachable, RateLimited
from tests.provider.models import PROTOCOLS, asked_model, quick_policy
from tests.provider.outcomes import OUTCOMES
from tests.provider.protocols import Said, ToolCall
from tests.provider.server import Provider

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")
pytest.importorskip("langchain_anthropic", reason="the extra 'anthropic' is not installed")
pytestmark = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="on one core calls are made here")

KEY = "sk-planted-0123456789"


@pytest.fixture(autouse=True)
def planted(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def elsewhere(provider: Provider, protocol: str = "chat", **more: Any) -> AskedModel:
    """The provider's model, asked by another process."""
    policy = more.pop("policy", None) or quick_policy(at_once=MANY)
    return asked_model(provider, protocol, policy, **more)


def pid_of(model: AskedModel) -> int:
    (process,) = model.policy.processes
    return process._process.pid


def outcome(model: AskedModel, provider: Provider) -> tuple[type, str, int, int]:
    """What a call raises and says, how many requests it made, and how many the ledger counts."""
    before, counted = provider.count, model.policy.ledger.total().requests
    with pytest.raises(ModelError) as caught:
        model.invoke("Which town is it?")
    spent = model.policy.ledger.total().requests - counted
    return type(caught.value), str(caught.value), provider.count - before, spent


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_replies_tools_and_every_fault_are_those_of_a_call_made_here(protocol):
    def search_memory(query: str) -> str:
        """Search."""
        return query

    def say(asked: Any) -> str | Said:
        return Said(calls=[ToolCall(asked.tools[0], {"query": "Ostrim"})]) if asked.tools else "Ostrim é 城"

    with Provider(say, hang=1.0, after="0.01") as provider:
        here, there = asked_model(provider, protocol), elsewhere(provider, protocol)
        one, other = here.invoke("Which town is it?"), there.invoke("Which town is it?")
        assert (one.text, one.usage_metadata) == (other.text, other.usage_metadata)
        assert one.response_metadata.keys() == other.response_metadata.keys()
        calls = there.bind_tools([search_memory]).invoke("Find it").tool_calls
        assert [(call["name"], call["args"]) for call in calls] == [("search_memory", {"query": "Ostrim"})]
        for fault in OUTCOMES:
            provider.faults.extend([fault] * 99)
            assert outcome(here, provider) == outcome(there, provider), fault
            provider.faults.clear()
        there.policy.close()


def test_the_provider_s_pause_is_waited_for_and_one_beyond_patience_is_not():
    with Provider(faults=["429-after"], after="0.3") as provider:
        model = elsewhere(provider)
        assert model.invoke("x").response_metadata["tries"] == 2
        first, second = provider.requests
        assert second.at - first.at >= 0.3
        provider.faults.append("429-after")
        provider.after = "3600"
        with pytest.raises(RateLimited) as caught:
            model.invoke("x")
        assert getattr(caught.value.__cause__, "status_code", 0) == 429
        model.policy.close()


def test_calls_at_once_do_not_wait_for_each_other():
    with Provider(latency=0.4) as provider:
        model = elsewhere(provider, timeout=30)
        model.invoke("first")
        told: dict[int, str] = {}
        threads = [threading.Thread(target=lambda n=n: told.update({n: model.invoke(f"{n}").text})) for n in range(40)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert told == {n: f"{n}" for n in range(40)} and time.monotonic() - began < 0.4 * 20
        assert model.policy.cpu_seconds() > 0
        model.policy.close()


def test_a_process_that_dies_loses_no_call():
    with Provider(lambda asked: "Ostrim", latency=0.5) as provider:
        model = elsewhere(provider, timeout=30)
        model.invoke("x")
        pid = pid_of(model)
        threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
        message = model.invoke("x")  # under way when the process dies
        assert (message.text, message.response_metadata["tries"]) == ("Ostrim", 2)
        assert model.invoke("x").text == "Ostrim"
        assert (provider.count, model.policy.ledger.total().requests) == (4, 4)
        model.policy.close()


def test_closing_ends_calls_under_way_and_the_process():
    with Provider(hang=30.0, faults=["hang"] * 9) as provider:
        model = elsewhere(provider, timeout=30)
        pid, caught = pid_of(model), []

        def ask() -> None:
            try:
                model.invoke("x")
            except ModelError as error:
                caught.append(type(error))

        thread = threading.Thread(target=ask)
        thread.start()
        while not provider.count:
            time.sleep(0.01)
        model.policy.close()
        thread.join(20)
        assert caught and not thread.is_alive()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_no_key_is_in_the_command_line_of_the_process():
    with Provider(lambda asked: "x") as provider:
        model = elsewhere(provider, api_key=KEY)
        model.invoke("x")
        line = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid_of(model))], capture_output=True, text=True)
        assert "client_child" in line.stdout and KEY not in line.stdout
        model.policy.close()


def test_the_process_ends_with_the_one_that_started_it():
    with Provider(lambda asked: "x") as provider:
        script = (
            "import os, signal\n"
            "from emend.agents.llm import load_model\n"
            "from emend.agents.providers.policy import CallPolicy\n"
            f"model = load_model({provider.spec('chat')!r}, CallPolicy.of(at_once={MANY}))\n"
            "model.invoke('x')\n"
            "print(model.policy.processes[0]._process.pid, flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    pid, until = int(told.stdout), time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_run_of_many_at_once_asks_through_a_process_and_ends_it(tmp_path):
    with Provider(lambda asked: "Ostrim") as provider:
        config = RunConfig(
            benchmark="tinyworld",
            editors=("unedited",),
            model=provider.spec("chat"),
            embedding="lexical",
            concurrency=MANY,
            limit=2,
        )
        before = set(threading.enumerate())
        summary = run(config, tmp_path / "run")
        assert summary.records and summary.calls == provider.count and not summary.failed
        assert {thread.name for thread in set(threading.enumerate()) - before}.isdisjoint({"emend-client"})


def test_a_process_that_does_not_get_ready_is_waited_for_once(monkeypatch):
    monkeypatch.setattr(client_process, "START", 1.5)
    monkeypatch.setattr(client_process, "CHILD", "import time; time.sleep(60)  # {path!r}")
    with Provider(lambda asked: "Ostrim") as provider:
        model = elsewhere(provider)
        model.invoke("x")
        began = time.monotonic()
        assert [model.invoke("x").text for _ in range(5)] == ["Ostrim"] * 5
        assert provider.count == 6 and time.monotonic() - began < 5 * 1.5
        model.policy.processes[0]._process.kill()
        model.policy.close()


@pytest.mark.parametrize(
    ("spec", "at_once", "worth"),
    [
        ("openai:any", MANY, True),
        ("anthropic:any@http://127.0.0.1:1", 64, True),
        ("openai:any", MANY - 1, False),
        ("tiny", 64, False),
        ("mine:any", 64, False),
    ],
)
def test_only_many_calls_to_a_provider_are_worth_a_process(spec, at_once, worth):
    assert worth_a_process(spec, at_once) is worth


def test_a_model_that_nobody_answers_for_is_told_as_here():
    with Provider() as provider:
        here, there = asked_model(provider), elsewhere(provider)
    with pytest.raises(ModelUnreachable) as one:
        here.invoke("x")
    with pytest.raises(ModelUnreachable) as other:
        there.invoke("x")
    assert str(one.value) == str(other.value)
    there.policy.close()
