"""Opening of a memory in a folder or on a server, with the embedding that it was created with."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

from emend.memory.embeddings.embed import LexicalEmbedding, load_embedding
from emend.memory.errors import BadSettings, MissingData
from emend.memory.paths import cache_folder
from emend.memory.store.chroma import ChromaMemory
from emend.memory.store.superseding import Superseding


@contextmanager
def open_memory(
    where: str,
    embedding: str | None = None,
    superseding: Any = None,
    create: bool = False,
    search: bool = False,
) -> Iterator[ChromaMemory]:
    """Open a memory; its embedding, which takes seconds to load, is only loaded to create or search
    it.

    Args:
        where: folder, or http://HOST:PORT of a server.
        embedding: name of the embedding; None is the one that the memory was created with.
        superseding: rule of a new memory, one of `Superseding`.
        create: create the memory if it does not exist.
        search: load the embedding, so that the memory can be searched.

    Raises:
        BadSettings: unknown rule or embedding.
        MissingData: the memory does not exist.
    """
    if superseding not in (None, *get_args(Superseding)):
        raise BadSettings(
            f"unknown rule '{superseding}': --superseding is one of "
            f"{', '.join(get_args(Superseding))}."
        )
    encoder = None
    if create or search:
        default = (
            "lexical" if _stored_embedding(where, create) == LexicalEmbedding().identity else "auto"
        )
        encoder = load_embedding(
            default if embedding is None else embedding, cache_folder("vectors")
        )
    with ChromaMemory(where, encoder, superseding, create) as memory:
        yield memory


def _stored_embedding(where: str, create: bool) -> str | None:
    """Return the identity of the embedding that a memory was created with; None if the memory does
    not exist and may be created.
    """
    try:
        with ChromaMemory(where, None, create=False) as memory:
            return memory.identity
    except MissingData:
        if not create:
            raise
        return None
