"""Emend's embeddings as LangChain's, which other systems take."""

from dataclasses import dataclass
from typing import Self

from langchain_core.embeddings import Embeddings

from emend.memory.embeddings.embed import Embedding, LexicalEmbedding


@dataclass(frozen=True)
class AsEmbeddings(Embeddings):
    """An embedding with LangChain's methods."""

    embedding: Embedding

    @classmethod
    def of(cls, embedding: Embedding | None) -> Self:
        """The embedding, or the lexical one without any."""
        return cls(embedding or LexicalEmbedding())

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return len(self.embedding.documents(["x"])[0])

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text."""
        return [[*map(float, row)] for row in self.embedding.documents(texts)]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        return [*map(float, self.embedding.queries([text])[0])]
