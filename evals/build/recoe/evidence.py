"""Paragraphs of documents that a retriever finds for the facts of a record (ReCoE, appendix A.2)."""

from collections.abc import Iterator, Sequence
from typing import Any

from emend.evals.build.documents import DocumentFolder
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import load_embedding
from emend.memory.errors import BadSettings
from emend.memory.paths import cache_folder
from emend.memory.retrieval.compose import load_retriever

PARAGRAPHS = 5
"""Paragraphs that are retrieved for a fact."""
SHORTEST = 3
"""Words of a paragraph; shorter ones are headings."""


def add_evidence(items: Sequence[dict[str, Any]], folder: str, retriever: str) -> dict[str, str]:
    """Give each item the paragraphs that the retriever finds for its facts, as `evidence`.

    Args:
        items: with their `facts`.
        folder: of documents.
        retriever: name, composition or `module:attribute`.

    Returns:
        The sha256 of each document.

    Raises:
        MissingData: there is no such folder, or no document in it.
        BadSettings: there is no such retriever, or the documents have no paragraph.
    """
    documents, factory = DocumentFolder(folder), load_retriever(retriever)
    paragraphs = list(dict.fromkeys(_paragraphs(documents)))
    if not paragraphs:
        raise BadSettings(f"the documents of '{folder}' have no paragraph: name another folder with --documents.")
    from emend.memory.store.chroma import ChromaMemory

    with ChromaMemory(None, load_embedding("auto", cache_folder("vectors")), superseding="time") as memory:
        memory.add([Edit(form="document", text=text) for text in paragraphs])
        search = factory(memory.view()).search
        for item in items:
            item["evidence"] = {fact: [hit.entry.text for hit in search(fact, PARAGRAPHS)] for fact in item["facts"]}
    return documents.digests()


def _paragraphs(documents: DocumentFolder) -> Iterator[str]:
    for part in documents.parts():
        for paragraph in part.text.split("\n\n"):
            text = " ".join(paragraph.split())
            if len(text.split()) >= SHORTEST:
                yield text
