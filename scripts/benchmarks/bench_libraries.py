"""Hit@1 of retrievers of LangChain and LlamaIndex on DocTER's documents, by the command line and by `emend.run`.

    python scripts/benchmarks/bench_libraries.py --data ../shared/data/docter --limit 200

Beside them are Emend's own strategies of the same algorithms. The command line names each as `bench_libraries:NAME`;
`emend.run` gets the function itself, with a model that always says the same.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MultiQueryRetriever,
    ParentDocumentRetriever,
)
from langchain_classic.retrievers.document_compressors import EmbeddingsFilter
from langchain_classic.storage import InMemoryStore
from langchain_community.retrievers import BM25Retriever
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode

import emend
from emend.memory.embeddings.embed import load_embedding
from emend.memory.paths import cache_folder
from emend.memory.retrieval.tokens import words

ENCODER = load_embedding("minilm", cache_folder("vectors"))
OWN = ("dense", "bm25")
METRICS = {"hit@1 query": "efficacy", "hit@1 paraphrase": "paraphrase"}


class MiniLM(Embeddings):
    """The sentence encoder of Emend, for LangChain."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors of documents."""
        return ENCODER.documents(texts).tolist()  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> list[float]:
        """Vector of a query."""
        return ENCODER.queries([text])[0].tolist()  # type: ignore[no-any-return]


class LlamaMiniLM(BaseEmbedding):
    """The same for LlamaIndex."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return MiniLM().embed_documents([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return MiniLM().embed_query(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def documents(corpus: Any) -> list[Document]:
    """The memory's entries as LangChain has them."""
    return [Document(page_content=entry.text, metadata={"id": entry.id}) for entry in corpus.entries()]


def vector_store(corpus: Any) -> Any:
    """A vector store as a retriever."""
    return InMemoryVectorStore.from_documents(documents(corpus), MiniLM()).as_retriever(search_kwargs={"k": 5})


def bm25(corpus: Any) -> Any:
    """LangChain's BM25, over lower-cased words."""
    return BM25Retriever.from_documents(documents(corpus), preprocess_func=words, k=5)


def ensemble(corpus: Any) -> Any:
    """Both, fused by ranks."""
    return EnsembleRetriever(retrievers=[vector_store(corpus), bm25(corpus)], weights=[0.5, 0.5])


def parent_documents(corpus: Any) -> Any:
    """Pieces of documents are searched, and whole documents returned."""
    splitter = RecursiveCharacterTextSplitter(chunk_size=200, chunk_overlap=0)
    store = InMemoryVectorStore(MiniLM())
    retriever = ParentDocumentRetriever(vectorstore=store, docstore=InMemoryStore(), child_splitter=splitter)
    retriever.add_documents(documents(corpus))
    return retriever


def multi_query(corpus: Any) -> Any:
    """Several wordings of a query, made by a rule in the place of a model: its last sentence, and the query itself."""
    chain: Any = RunnableLambda(lambda asked: [asked["question"], asked["question"].split(". ")[-1]])
    return MultiQueryRetriever(retriever=bm25(corpus), llm_chain=chain)


def compression(corpus: Any) -> Any:
    """Hits below a similarity are left out, and the others ranked by it."""
    keep = EmbeddingsFilter(embeddings=MiniLM(), similarity_threshold=0.2)
    return ContextualCompressionRetriever(base_compressor=keep, base_retriever=bm25(corpus))


def llama_index(corpus: Any) -> Any:
    """A vector index of LlamaIndex."""
    nodes = [TextNode(id_=entry.id, text=entry.text) for entry in corpus.entries()]
    return VectorStoreIndex(nodes, embed_model=LlamaMiniLM()).as_retriever(similarity_top_k=5)


LIBRARIES = (vector_store, bm25, ensemble, parent_documents, multi_query, compression, llama_index)


def by_command(strategies: list[str], options: argparse.Namespace) -> dict[tuple[str, str], float]:
    """Hit@1 by strategy and kind, as `emend retrieval` prints it."""
    command = [sys.executable, "-m", "emend.evals.cli.main", "retrieval", "--benchmark", "docter", "--setting", "doc"]
    command += ["--data", str(options.data), "--limit", str(options.limit), "--embedding", "minilm", "--json"]
    command += [part for name in strategies for part in ("--strategy", name)]
    printed = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent, check=True).stdout
    return {(row["strategy"], row["kind"]): row["hit@1"] for row in json.loads(printed)["rows"]}


def by_run(retriever: Any, options: argparse.Namespace) -> dict[str, float | None]:
    """Hit@1 by kind, as the report of a run has it."""
    with TemporaryDirectory() as folder:
        result = emend.run(
            "docter",
            "rag",
            FakeListChatModel(responses=["-"]),
            retriever=retriever,
            data=str(options.data),
            settings=("doc",),
            limit=options.limit,
            embedding="minilm",
            out=Path(folder) / "run",
            progress=False,
        )
        rows = {row.metric: row.mean for row in result.report.rows}
    return {kind: rows[metric] for metric, kind in METRICS.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "../shared/data/docter")
    parser.add_argument("--limit", type=int, default=200)
    options = parser.parse_args()
    options.data = options.data.resolve()
    names = {name: name for name in OWN} | {f"bench_libraries:{make.__name__}": make for make in LIBRARIES}
    command = by_command(list(names), options)
    print(f"{'retriever':18}{'query: command':>16}{'run':>7}{'paraphrase: command':>21}{'run':>7}")
    for name, retriever in names.items():
        run = by_run(retriever, options)
        figures = [(100 * command[name, kind], run[kind]) for kind in METRICS.values()]
        texts = [f"{left:>{width}.1f}{right:>7.1f}" for (left, right), width in zip(figures, (16, 21), strict=True)]
        print(f"{name.rpartition(':')[2]:18}{''.join(texts)}", flush=True)


if __name__ == "__main__":
    main()
