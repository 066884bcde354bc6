"""Opening a memory: what is kept, what is refused, and with which remedy."""

import gc
import socket
import warnings

import pytest

import emend.memory.store.connection as connection
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings, MemoryMismatch
from emend.memory.store.chroma import ChromaMemory

SMALL = LexicalEmbedding(256)


def document(text: str, **more) -> Edit:
    return Edit(form="document", text=text, **more)


@pytest.fixture
def closed_port():
    """A port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_stored_edits_are_there_after_reopening(kept):
    with ChromaMemory(kept, SMALL) as memory:
        memory.add([document("Lyon is twinned with Ostrim.", id="x", time="2026")])
        before = memory.view().nearest("Lyon", 1)
    with ChromaMemory(str(kept), SMALL) as memory:
        assert memory.view().nearest("Lyon", 1) == before
        memory.add([document("Lyon is twinned with Veld.", id="x")])
        assert [entry.text for entry in memory.view().entries()] == ["Lyon is twinned with Veld."]


def test_a_folder_may_be_open_twice_in_a_process(kept):
    with ChromaMemory(kept, SMALL) as one:
        with ChromaMemory(kept, SMALL) as other:
            other.add([document("Lyon")])
        assert one.count() == 1


def test_a_folder_may_be_open_under_two_names(kept, monkeypatch):
    if str(kept).startswith("http"):
        return
    monkeypatch.chdir(kept.parent)
    with ChromaMemory(kept.name, SMALL) as one, ChromaMemory(kept.resolve(), SMALL) as other:
        other.add([document(f"Lyon {n}") for n in range(150)])
        assert len(one.view().entries()) == 150


def test_a_closed_memory_leaves_no_file_or_connection_open(kept):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        with ChromaMemory(kept, SMALL) as memory:
            memory.add([document("Lyon")])
        with pytest.raises(MemoryMismatch):
            ChromaMemory(kept, LexicalEmbedding(128))
        del memory
        gc.collect()
    assert [str(warning.message) for warning in seen] == []


def test_another_embedding_is_refused_with_the_remedy(kept):
    with ChromaMemory(kept, SMALL) as memory:
        memory.add([document("Lyon")])
    with pytest.raises(MemoryMismatch, match=r"'lexical-1/256', this is 'lexical-1/128': open it with that embedding"):
        ChromaMemory(kept, LexicalEmbedding(128))
    with ChromaMemory(kept, SMALL) as memory:
        assert memory.count() == 1


def test_a_foreign_collection_is_refused(tmp_path):
    client = connection.connect(tmp_path)
    client.create_collection("documents", embedding_function=None)
    client.close()
    with pytest.raises(MemoryMismatch, match="an unnamed model"):
        ChromaMemory(tmp_path, SMALL)


def test_in_process_memories_know_nothing_of_each_other():
    with ChromaMemory(None, SMALL) as one, ChromaMemory(None, LexicalEmbedding(128)) as other:
        one.add([document("Lyon")])
        assert (one.count(), other.count()) == (1, 0)
    with ChromaMemory(None, SMALL) as later:
        assert later.count() == 0


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadSettings, match="memory folder .*file' cannot be used"):
        ChromaMemory(tmp_path / "file", SMALL)


@pytest.mark.parametrize("form", ["http://127.0.0.1:{}", "http://127.0.0.1:{}nonsense"])
def test_a_server_that_does_not_answer_is_named_with_the_command_that_starts_one(form, closed_port):
    url = form.format(closed_port)
    with pytest.raises(BadSettings, match=f"no Chroma server at '{url}'.*chroma run"):
        ChromaMemory(url, SMALL)
