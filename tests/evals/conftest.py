"""A memory that tells one fact, for the commands that ask it."""

import pytest


@pytest.fixture
def memory(tmp_path):
    """The folder of a memory in which the capital of Vouna is Meburg."""
    from emend.memory.edit import Edit, Triplet
    from emend.memory.embeddings.embed import LexicalEmbedding
    from emend.memory.store.chroma import ChromaMemory

    told = Triplet(subject="Vouna", relation="capital", object="Meburg")
    with ChromaMemory(tmp_path / "memory", LexicalEmbedding()) as opened:
        opened.add([Edit.from_triplet(told, "The capital of {} is")])
    return tmp_path / "memory"
