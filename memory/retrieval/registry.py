"""The retrieval strategies by name."""

from collections.abc import Callable

from emend.memory.registry import Registry
from emend.memory.retrieval.base import Corpus, Retriever

RETRIEVERS: Registry[Callable[[Corpus], Retriever]] = Registry(
    "retriever",
    "emend.retrievers",
    {
        "dense": (
            "emend.memory.retrieval.dense:Dense",
            "Nearest in embedding (cosine).",
        ),
        "bm25": (
            "emend.memory.retrieval.bm25:BM25",
            "Shared words, weighted by their rarity.",
        ),
        "hybrid": (
            "emend.memory.retrieval.hybrid:Hybrid",
            "Dense and bm25 together: the sum of their standardised scores.",
        ),
        "focus": (
            "emend.memory.retrieval.focus:Focus",
            "The last sentence of the query alone, by hybrid or by what follows: focus>bm25.",
        ),
        "none": (
            "emend.memory.retrieval.nothing:Nothing",
            "Finds nothing.",
        ),
    },
)
