"""Every editor's graph runs in LangGraph Studio's server with plain values: model, facts, retriever, k."""

import json
import socket
import subprocess
import sys
import time
from typing import Any

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver

from emend.evals.api import studio
from emend.graphs.registry import GRAPHS
from emend.memory.errors import BadSettings
from tests.paths import ROOT
from tests.provider.protocols import Asked, Said, ToolCall
from tests.provider.server import Provider

FACTS = ["The capital of Gozaor is Mear.", "The capital of Trokeia is Bratiis."]
QUESTION = {"question": "The capital of Gozaor is"}


def reads(asked: Asked) -> Said | str:
    """Searches the memory, and answers by what it finds."""
    if "<change>" in asked.prompt:
        return "Mear" if FACTS[0] in asked.prompt else "unknown"
    return Said(calls=[ToolCall("search_memory", {"query": "capital of Gozaor"})])


EDITORS = sorted({*GRAPHS.names()} - {"debate", "extract"})


def test_the_server_knows_the_graph_of_every_editor() -> None:
    configuration = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    assert configuration["graphs"].keys() == {*EDITORS}
    for name, place in configuration["graphs"].items():
        path, _, attribute = place.partition(":")
        graph = getattr(studio, attribute)()
        assert path == "./evals/api/studio.py" and graph.name == name
        inner = [node for node in graph.get_graph(xray=True).nodes if ":" in node]
        assert inner, name


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EDITORS if name != "agent"])
def test_an_editor_answers_from_the_facts_of_its_context(name: str) -> None:
    context = {"facts": FACTS, "embedding": "lexical", "settings": {"demonstrations": 0} if name == "ike" else {}}
    out = studio.editor_graph(name).invoke(QUESTION, context=context)
    assert ("Mear" in out["answer"]) == (name != "direct") and QUESTION["question"] in out["prompt"]
    assert all(text in FACTS for text in out["retrieved"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rag", "mello"])
def test_a_thread_that_is_kept_is_asked_again_from_the_start_and_its_inner_states_can_be_read(name: str) -> None:
    saver = InMemorySaver()
    graph = studio.editor_graph(name).builder.compile(checkpointer=saver)
    thread: Any = {"configurable": {"thread_id": "1"}}
    context = {"facts": FACTS, "embedding": "lexical"}
    first, second = (graph.invoke(QUESTION, thread, context=context) for _ in range(2))
    assert first == second and "Mear" in first["answer"]
    inner = [saved for saved in saver.list(None) if saved.config["configurable"]["checkpoint_ns"]]
    states = [saved.checkpoint["channel_values"] for saved in inner]
    calls = [state["usage"].calls for state in states if "reply" in state]
    assert len(calls) == 2 and calls[0] == calls[1] >= 1
    assert {state["probe"].prompt for state in states if "probe" in state} == {QUESTION["question"]}


def test_k_and_a_wrong_name_are_those_of_the_command_line() -> None:
    graph = studio.editor_graph("rag")
    context = {"facts": FACTS, "embedding": "lexical", "retriever": "bm25", "k": 2}
    assert len(graph.invoke(QUESTION, context=context)["retrieved"]) == 2
    with pytest.raises(BadSettings, match="did you mean 'bm25'"):
        graph.invoke(QUESTION, context=context | {"retriever": "bm52"})


@pytest.mark.slow
def test_langgraph_dev_runs_the_graphs_over_its_api(keys: None, tmp_path) -> None:
    pytest.importorskip("langgraph_api", reason="the extra 'studio' is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    command += ["--host", "127.0.0.1", "--config", str(tmp_path / "langgraph.json")]
    text = (ROOT / "langgraph.json").read_text(encoding="utf-8").replace("./", f"{ROOT}/").replace('"."', f'"{ROOT}"')
    (tmp_path / "langgraph.json").write_text(text, encoding="utf-8")
    with (tmp_path / "server.txt").open("w") as log, Provider(reads) as provider:
        server = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120)
        try:
            _wait(client, server)
            for name in ("rag", "mello", "crag", "agent"):
                model = provider.spec("chat") if name == "agent" else "tiny"
                context = {"model": model, "facts": FACTS, "embedding": "lexical", "k": 1}
                body: dict[str, Any] = {"assistant_id": name, "input": QUESTION, "context": context}
                reply = client.post("/runs/wait", json=body).json()
                assert "Mear" in reply.get("answer", ""), (name, reply)
            body |= {
                "assistant_id": "rag",
                "stream_mode": "updates",
                "stream_subgraphs": True,
                "context": {"facts": FACTS},
            }
            events = client.post("/runs/stream", json=body).text
            assert all(f'"{node}":' in events for node in ("retrieve", "compose", "respond", "answer"))
        finally:
            client.close()
            server.terminate()
            server.wait(120)


def _wait(client: httpx.Client, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(240):
        try:
            if client.get("/ok").status_code == 200:
                return
        except httpx.TransportError:
            assert server.poll() is None, "the server ended"
            time.sleep(0.5)
    pytest.fail("the server did not start")
