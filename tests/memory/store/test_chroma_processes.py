"""More than one process: a folder refuses the second, and a server may die and come back."""

import subprocess
import sys
from pathlib import Path

import pytest

import emend.memory.store.chroma as store
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import MemoryUnavailable, MissingData
from emend.memory.store.chroma import ChromaMemory

SMALL = LexicalEmbedding(128)
OPEN = (
    "import sys; sys.modules['rfc3987_syntax'] = None\n"  # as on the command line, which says why
    "from emend.memory.store.chroma import ChromaMemory\n"
    "from emend.memory.embeddings.embed import LexicalEmbedding\n"
    "memory = ChromaMemory(sys.argv[1], LexicalEmbedding(128))\n"
    "print('open', memory.count(), flush=True); sys.stdin.read()"
)


def edits(count: int) -> list[Edit]:
    triplets = [Triplet(subject=f"town {i // 2}", relation="mayor", object=f"Mira {i}") for i in range(count)]
    return [Edit(form="triplet", text=told.text, triplets=(told,)) for told in triplets]


def _start(folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", OPEN, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_a_second_process_is_refused_with_the_remedy_and_a_killed_one_leaves_no_lock(tmp_path):
    with ChromaMemory(tmp_path, SMALL) as memory:
        memory.add(edits(4))
    other = _start(tmp_path)
    try:
        assert other.stdout is not None and other.stdout.readline() == "open 4\n"
        with pytest.raises(MemoryUnavailable, match=rf"another process is using.*`chroma run --path {tmp_path}"):
            ChromaMemory(tmp_path, SMALL)
    finally:
        other.kill()
        other.communicate()
    with ChromaMemory(tmp_path, SMALL) as memory:
        assert memory.count() == 4


def test_a_folder_without_a_memory_is_named_and_left_alone(tmp_path):
    with pytest.raises(MissingData, match="no memory in"):
        ChromaMemory(tmp_path / "none", SMALL, create=False)
    assert not (tmp_path / "none").exists()


class Counting(LexicalEmbedding):
    asked = 0

    def documents(self, texts):
        self.asked += len(texts)
        return super().documents(texts)


@pytest.mark.slow
def test_adding_again_completes_after_the_server_died(tmp_path, monkeypatch, serve):
    monkeypatch.setattr(store, "PAGE", 40)
    told: list[Edit] = edits(120)
    batches: list[int] = []
    server, port = serve(tmp_path)

    def kill(entries: int) -> None:
        batches.append(entries)
        server.kill()
        server.wait(10)

    with ChromaMemory(f"http://127.0.0.1:{port}", SMALL) as memory:
        with pytest.raises(MemoryUnavailable, match=r"stopped answering \(\w+: .*start it again"):
            memory.add(told, kill)
    assert batches == [40]
    serve(tmp_path, port)
    embedding = Counting(128)
    with ChromaMemory(f"http://127.0.0.1:{port}", embedding) as memory:
        memory.add(told)
        assert (memory.count(), embedding.asked) == (120, 80)
        assert sorted(edit.id for edit in memory.edits()) == sorted(edit.id for edit in told)
        assert len(memory.view().entries()) == 60
        assert [v.objects for v in memory.history("town 7", "mayor").versions] == [("Mira 14",), ("Mira 15",)]
