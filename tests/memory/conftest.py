"""The places where a memory can lie, each empty at the start of a test."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.store.chroma import ChromaMemory
from emend.memory.store.connection import close_client, connect


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of a `chroma run` server, or why there is none; started once."""
    folder, port = tmp_path_factory.mktemp("server"), _free_port()
    started = _serve(folder, port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        started.terminate()
        started.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def serve():
    """Starts `chroma run` on a folder and a port, which is chosen if it is 0; what runs at the end is killed."""
    started: list[subprocess.Popen] = []

    def start(folder: Path, port: int = 0) -> tuple[subprocess.Popen, int]:
        port = port or _free_port()
        started.append(_serve(folder, port))
        return started[-1], port

    yield start
    for one in started:
        one.kill()
        one.wait(60)


def _serve(folder: Path, port: int) -> subprocess.Popen:
    command = Path(sys.executable).with_name("chroma")
    if not command.exists():
        pytest.skip(f"no chroma command beside {sys.executable}")
    started = subprocess.Popen(
        [command, "run", "--path", folder, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "ANONYMIZED_TELEMETRY": "False"},
    )
    for _ in range(1200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/heartbeat", timeout=1).close()
            return started
        except OSError:
            time.sleep(0.1)
    started.kill()
    pytest.skip(f"`chroma run` did not answer within 120 s (exit code {started.wait(60)})")


def _place(kind: str, request):
    """What `ChromaMemory` is opened with; nothing is stored there yet."""
    if kind != "server":
        return None if kind == "in-process" else request.getfixturevalue("tmp_path") / "memory"
    url = request.getfixturevalue("server")
    client = connect(url)
    for store in client.list_collections():
        client.delete_collection(store.name)
    close_client(client)
    return url


@pytest.fixture(params=["in-process", "folder", pytest.param("server", marks=pytest.mark.slow)])
def where(request):
    return _place(request.param, request)


@pytest.fixture
def memory(where):
    with ChromaMemory(where, LexicalEmbedding(256)) as opened:
        yield opened


@pytest.fixture(params=["folder", pytest.param("server", marks=pytest.mark.slow)])
def kept(request):
    """A place that outlives the object."""
    return _place(request.param, request)
