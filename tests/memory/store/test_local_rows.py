"""A memory in this process: no vector before a strategy asks for one, no database before it is large."""

import subprocess
import sys

import numpy as np
import pytest

import emend.memory.store.chroma as store
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.retrieval.registry import RETRIEVERS
from emend.memory.store.chroma import ChromaMemory


class NotedEmbedding(LexicalEmbedding):
    """Notes the batches that it embeds; refuses one text."""

    def __init__(self) -> None:
        super().__init__(64)
        self.batches: list[list[str]] = []

    def documents(self, texts):
        self.batches.append(list(texts))
        if "refused" in texts:
            raise BadData("a text is refused.")
        return super().documents(texts)


def document(text: str, **more) -> Edit:
    return Edit(form="document", text=text, **more)


@pytest.fixture
def embedding():
    return NotedEmbedding()


@pytest.fixture
def memory(embedding):
    with ChromaMemory(None, embedding) as opened:
        yield opened


def test_a_search_by_words_makes_no_vector(memory, embedding):
    memory.add([document("Lyon is twinned with Ostrim."), document("Metz is twinned with Veld.")])
    hits = RETRIEVERS.load("bm25")(memory.view()).search("Who is twinned with Metz?", 1)
    assert [hit.entry.text for hit in hits] == ["Metz is twinned with Veld."] and embedding.batches == []


def test_texts_are_embedded_once_and_in_the_batches_of_their_addition(memory, embedding):
    memory.add([document("a", id="1"), document("b", id="2")])
    memory.add([document("c", id="3")])
    memory.view(["1"]).nearest("a", 1)
    memory.view().nearest("a", 1)
    assert embedding.batches == [["a"], ["a", "b"], ["c"]]  # the first one is the query


def test_a_view_keeps_the_texts_of_its_time(memory):
    memory.add([document("first", id="1"), document("other", id="2")])
    view = memory.view()
    memory.add([document("second", id="1")])
    memory.withdraw(["2"])
    assert view.nearest("first", 1)[0].score == view.nearest("other", 1)[0].score == 1.0
    np.testing.assert_array_equal(view.vectors, LexicalEmbedding(64).documents(["first", "other"]))


def test_a_text_that_cannot_be_embedded_leaves_the_others_of_its_batch(memory):
    memory.add([document("refused", id="1"), document("b", id="2")])
    assert memory.view(["2"]).nearest("b", 1)[0].entry.text == "b"
    with pytest.raises(BadData, match="refused"):
        memory.view(["1"]).nearest("b", 1)


def test_a_large_temporary_memory_goes_on_in_its_folder(embedding, tmp_path, monkeypatch):
    edits = [document(f"town {number}", id=f"{number:02d}") for number in range(12)]
    monkeypatch.setattr(store, "EXACT_LIMIT", 9)
    with ChromaMemory(tmp_path / "memory", embedding, temporary=True) as memory:
        memory.add(edits[:8])
        before = memory.view()
        assert not (tmp_path / "memory").exists()
        memory.add(edits[8:])
        assert [edit.id for edit in memory.edits()] == [edit.id for edit in edits] and memory.count() == 12
        assert len(before.nearest("town 3", 20)) == 8
        assert {hit.entry.edit_id for hit in memory.view().nearest("town 11", 12)} == {edit.id for edit in edits}
    with ChromaMemory(tmp_path / "memory", embedding) as stored:
        assert stored.edits() == edits


def test_a_closed_memory_is_not_written_to(memory):
    memory.close()
    with pytest.raises(BadSettings, match="closed"):
        memory.add([document("late")])


def test_a_small_memory_does_not_import_chroma():
    code = (
        "import sys\nfrom emend.memory.edit import Edit\nfrom emend.memory.embeddings.embed import LexicalEmbedding\n"
        "from emend.memory.store.chroma import ChromaMemory\n"
        "memory = ChromaMemory(None, LexicalEmbedding())\nmemory.add([Edit(form='document', text='A text.')])\n"
        "memory.view().nearest('a text', 1)\nprint('chromadb' in sys.modules)\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed == "False\n"
