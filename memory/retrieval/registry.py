"""The retrieval strategies by name."""

from collections.abc import Callable

from emend.memory.registry import Registry
from emend.memory.retrieval.base import Corpus, Retriever

RETRIEVERS: Registry[Callable[[Corpus], Retriever]] = Registry(
    "retriever",
    "emend.retrievers",
    {
        "default": (
            "emend.memory.retrieval.default:Default",
            "Meaning, stems and names of the part of the query that asks, added up.",
        ),
        "dense": (
            "emend.memory.retrieval.dense:Dense",
            "Nearest in embedding (cosine).",
        ),
        "bm25": (
            "emend.memory.retrieval.bm25:BM25",
            "Shared words, weighted by their rarity; bm25(tokens=stems), names or wordpiece.",
        ),
        "hybrid": (
            "emend.memory.retrieval.hybrid:Hybrid",
            "Dense and bm25 together: the sum of their standardised scores; hybrid(fusion=ranks).",
        ),
        "focus": (
            "emend.memory.retrieval.focus:Focus",
            "The last sentence of the query alone, by hybrid or by what follows: focus>bm25.",
        ),
        "rerank": (
            "emend.memory.retrieval.rerank:Rerank",
            "Reads the first hits again with a cross-encoder: default>rerank(model=FOLDER).",
        ),
        "threshold": (
            "emend.memory.retrieval.threshold:Threshold",
            "Finds nothing where the first hit is not sure enough: default>threshold(least=16).",
        ),
        "gold": (
            "emend.memory.retrieval.gold:Gold",
            "The edits that bear on the probe: an upper bound.",
        ),
        "none": (
            "emend.memory.retrieval.none:Nothing",
            "Finds nothing.",
        ),
    },
)
