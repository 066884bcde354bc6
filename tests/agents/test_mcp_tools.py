"""Tools of an MCP server for an agent: what a hostile server may do, and how the editor `agent` uses them."""

import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from langchain_core.messages import AIMessage  # noqa: E402

from emend.agents import mcp_tools  # noqa: E402
from emend.agents.mcp_tools import check_tools, open_tools  # noqa: E402
from emend.editors.base import EditorContext  # noqa: E402
from emend.editors.conformance_toys import PlainMemory  # noqa: E402
from emend.editors.memory_based.agent import Agent  # noqa: E402
from emend.memory.errors import BadSettings  # noqa: E402
from emend.memory.facts.fact_memory import FactMemory  # noqa: E402
from emend.memory.probe import Probe  # noqa: E402
from emend.memory.registry import trust_names, trust_typed  # noqa: E402
from emend.memory.retrieval.dense import Dense  # noqa: E402
from scripts.nightly.tool_server import MODES, is_running  # noqa: E402
from tests.graphs.test_agent import Caller  # noqa: E402
from tests.paths import ROOT  # noqa: E402

# A server gets no variable but the usual ones, so that a path of a checkout must be in its command.
PYTHON = f"env PYTHONPATH={os.environ.get('PYTHONPATH', '')} {sys.executable}"
HOSTILE = f"mcp:{PYTHON} {ROOT / 'tests' / 'agents' / 'hostile_mcp_server.py'}"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tools():
    os.environ["OPENAI_API_KEY"] = "sk-secret-of-the-user"
    try:
        with open_tools(HOSTILE) as opened:
            yield {tool.name: tool for tool in opened}
    finally:
        del os.environ["OPENAI_API_KEY"]


def test_names_are_plain_and_descriptions_are_cut(tools):
    assert set(tools) == {f"mcp_{name}" for name in ("inject", "flood", "fail", "sleep", "end", "environment")}
    assert len(tools["mcp_inject"].description) <= 1_000 and "\x1b" not in tools["mcp_inject"].description


def test_a_result_stays_within_its_tags_and_is_cut(tools):
    text = tools["mcp_inject"].invoke({"text": "!"})
    assert text.startswith("<result>") and text.endswith("!</result>")
    assert text.count("</result>") == text.count("<result>") == 1 and "\x1b" not in text
    assert len(tools["mcp_flood"].invoke({})) < 8_100


def test_errors_of_the_server_are_results(tools):
    for text in (tools["mcp_fail"].invoke({}), tools["mcp_inject"].invoke({"wrong": 1})):
        assert text.startswith("<error>") and text.count("</error>") == 1 and "<result>" not in text


def test_the_server_gets_no_keys(tools):
    assert "PATH" in tools["mcp_environment"].invoke({}) and "KEY" not in tools["mcp_environment"].invoke({})


def test_a_server_that_is_late_or_ends_gives_an_error(monkeypatch):
    monkeypatch.setattr(mcp_tools, "CALL_SECONDS", 1.0)
    with open_tools(HOSTILE) as opened:
        late = next(tool for tool in opened if tool.name == "mcp_sleep")
        assert late.invoke({}).startswith("<error>")
    with open_tools(HOSTILE) as opened:
        ends = next(tool for tool in opened if tool.name == "mcp_end")
        assert ends.invoke({}).startswith("<error>")


@pytest.mark.parametrize("command", ["no-such-command-here", f"{sys.executable} -c print(1)"])
def test_a_command_that_is_no_server_is_named(command):
    with pytest.raises(BadSettings, match="cannot be started.*terminal"), open_tools(f"mcp:{command}"):
        pass


def test_an_error_of_several_lines_is_told_in_one(tmp_path):
    server = ROOT / "scripts" / "nightly" / "tool_server.py"
    with (
        pytest.raises(BadSettings, match="cannot be started") as caught,
        open_tools(f"mcp:{PYTHON} {server} errors {tmp_path / 'pids'}"),
    ):
        pass
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value) and len(str(caught.value)) < 1000


def test_a_server_that_does_not_list_its_tools_in_time_is_named(monkeypatch):
    monkeypatch.setattr(mcp_tools, "START_SECONDS", 5.0)
    with pytest.raises(BadSettings, match="cannot be started within 5 s"), open_tools(f"{HOSTILE} late"):
        pass


FORKS = tuple(mode for mode in MODES if mode.startswith("forks")) + ("ignores signals",)


@pytest.mark.parametrize("mode", FORKS)
def test_what_a_server_leaves_behind_ends_with_it(mode: str, tmp_path: Path):
    pids = tmp_path / "pids"
    command = f"mcp:{PYTHON} {ROOT / 'scripts' / 'nightly' / 'tool_server.py'} '{mode}' {pids}"
    refused = pytest.raises(BadSettings, match="cannot be started") if mode == "forks and ends" else nullcontext()
    with refused, open_tools(command) as opened:
        assert "Bern" in opened[0].invoke({})
    processes = [int(pid) for pid in pids.read_text().split()]
    assert len(processes) == 2 - (mode == "ignores signals") and not any(map(is_running, processes))


def test_a_server_ends_when_its_client_is_killed(tmp_path: Path):
    pids = tmp_path / "pids"
    command = f"mcp:{PYTHON} {ROOT / 'scripts' / 'nightly' / 'tool_server.py'} 'ignores signals' {pids}"
    script = (
        f"from emend.agents.mcp_tools import open_tools\nwith open_tools({command!r}):\n    print(flush=True)\n"
        "    import time; time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None and client.stdout.readline()
        client.kill()
    (server,) = (int(pid) for pid in pids.read_text().split())
    end = time.monotonic() + 10
    while is_running(server) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_running(server)


@pytest.mark.parametrize("name", ["shell:ls", "mcp:", "mcp:'unclosed"])
def test_other_names_are_refused(name):
    trust_names([name])
    with pytest.raises(BadSettings, match="mcp:my-server"):
        check_tools(name)


def test_a_command_runs_only_if_the_user_typed_it():
    with pytest.raises(BadSettings, match="--trust"):
        check_tools("mcp:python evil.py")
    trust_typed(["rag.k=2", "agent.tools=mcp:python server.py --flag=1"])
    check_tools("mcp:python server.py --flag=1")
    with pytest.raises(BadSettings, match="--trust"):
        check_tools("mcp:python server.py")


class Asker(Caller):
    """A caller that is offered further tools."""

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        names = kwargs.pop("tools", [])
        assert not names or "mcp_lookup" in names
        return super()._generate(messages, stop, run_manager, **({"tools": names[:3]} if names else {}))


def test_the_editor_agent_asks_a_memory_over_mcp(tmp_path):
    with FactMemory(tmp_path) as memory:
        memory.remember("Veldania", "capital", "Ostrim")
    command = f"mcp:{PYTHON} -m emend mcp --memory {tmp_path}"
    trust_names([command])
    call = {"name": "mcp_lookup", "args": {"subject": "Veldania", "relation": "capital"}, "id": "1"}
    model = Asker(script=[AIMessage("", tool_calls=[call]), AIMessage("Ostrim")])
    context = EditorContext(model=model, memory=PlainMemory(), retriever=Dense, settings={"tools": command})
    probe = Probe(kind="x", prompt="What is the capital of Veldania?", style="question", gold=("Ostrim",))
    with Agent(context).edit(()) as answerer:
        answer = answerer.answer(probe)
    assert answer.text == "Ostrim"
    assert '"object": "Ostrim"' in str(model.seen[1][-1].content)


def test_a_command_that_prints_what_is_no_message_is_refused_without_a_traceback(caplog: pytest.LogCaptureFixture):
    with pytest.raises(BadSettings, match="cannot be started"), open_tools("mcp:echo '{}'"):
        pass
    # asyncio logs a child process that ended before it was waited for
    assert not [record for record in caplog.records if record.name != "asyncio"]
