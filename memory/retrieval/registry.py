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
            "Weighted sum of embedding similarity and BM25 over stems and names, for the question "
            "in the query.",
        ),
        "dense": ("emend.memory.retrieval.dense:Dense", "Cosine similarity of embeddings."),
        "bm25": (
            "emend.memory.retrieval.bm25:BM25",
            "BM25 over words; tokens: bm25(tokens=stems), names or wordpiece.",
        ),
        "hybrid": (
            "emend.memory.retrieval.hybrid:Hybrid",
            "Sum of the standardised scores of dense and bm25, or rank fusion: "
            "hybrid(fusion=ranks).",
        ),
        "focus": (
            "emend.memory.retrieval.focus:Focus",
            "Searches with only the last sentence of the query, by hybrid or the next strategy: "
            "focus>bm25.",
        ),
        "rerank": (
            "emend.memory.retrieval.rerank:Rerank",
            "Reranks the first hits with a cross-encoder: default>rerank(model=FOLDER).",
        ),
        "threshold": (
            "emend.memory.retrieval.threshold:Threshold",
            "Returns no hits if the best score is below a threshold: default>threshold(least=16).",
        ),
        "conversation": (
            "emend.memory.retrieval.conversations.conversation:Conversation",
            "For turns of a conversation: combines windows, embeddings, dates, speakers and "
            "sessions; newer statements first.",
        ),
        "window": (
            "emend.memory.retrieval.conversations.window:Window",
            "Searches each turn together with its neighbours, by stems or the next strategy: "
            "window(before=2)>default.",
        ),
        "dates": (
            "emend.memory.retrieval.conversations.dates:Dates",
            "Adds dates in words to turns, and resolves relative dates of the query (last May): "
            "dates>default.",
        ),
        "related": (
            "emend.memory.retrieval.conversations.vocabulary:Related",
            "Expands the query's stems with words of the memory that are similar in meaning.",
        ),
        "session": (
            "emend.memory.retrieval.conversations.sessions:SessionSearch",
            "Finds whole sessions, or their titles, and returns their turns: session(titled=true).",
        ),
        "speaker": (
            "emend.memory.retrieval.conversations.speaker:Speaker",
            "Ranks turns of the speaker that the query names higher: default>speaker.",
        ),
        "feedback": (
            "emend.memory.retrieval.conversations.feedback:Feedback",
            "Expands the query with words of the first hits: bm25(tokens=stems)>feedback.",
        ),
        "bridge": (
            "emend.memory.retrieval.conversations.feedback:Bridge",
            "Expands the query with names in the first hits, for multi-hop questions: "
            "default>bridge.",
        ),
        "diverse": (
            "emend.memory.retrieval.conversations.diverse:Diverse",
            "Prefers hits from different sessions: default>diverse(penalty=0.4).",
        ),
        "newest": (
            "emend.memory.retrieval.conversations.newest:Newest",
            "Ranks the newer of two hits about the same fact first: default>newest.",
        ),
        "pieces": (
            "emend.memory.retrieval.conversations.pieces:Pieces",
            "Splits long texts into chunks with their own vectors: pieces(size=120)>default.",
        ),
        "gold": (
            "emend.memory.retrieval.gold:GoldRetriever",
            "Returns the probe's relevant edits: an upper bound.",
        ),
        "none": ("emend.memory.retrieval.none:NoRetrieval", "Returns no hits."),
    },
)
