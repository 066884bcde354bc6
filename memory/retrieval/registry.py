"""The retrieval strategies by name."""

from collections.abc import Callable

from emend.memory.registry import Registry
from emend.memory.retrieval.base import Corpus, Retriever

RETRIEVERS: Registry[Callable[[Corpus], Retriever]] = Registry(
    kind="retriever",
    group="emend.retrievers",
    interfaces=(("search",), ("search_probe",), ("invoke", "get_name")),
    parameters=("query", "corpus"),
    builtin={
        "default": (
            "emend.memory.retrieval.default:Default",
            "Weighted sum of meaning (cosine), stems and names (BM25), for the question in the query.",
        ),
        "dense": ("emend.memory.retrieval.dense:Dense", "Nearest in embedding (cosine)."),
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
            "Only the last sentence of the query, by hybrid or the next strategy: focus>bm25.",
        ),
        "rerank": (
            "emend.memory.retrieval.rerank:Rerank",
            "Reranks the first hits with a cross-encoder: default>rerank(model=FOLDER).",
        ),
        "threshold": (
            "emend.memory.retrieval.threshold:Threshold",
            "No hits if the first is below a threshold: default>threshold(least=16).",
        ),
        "gold": ("emend.memory.retrieval.gold:GoldRetriever", "The probe's relevant edits: an upper bound."),
        "none": ("emend.memory.retrieval.none:NoRetrieval", "Never any hit."),
    },
)
