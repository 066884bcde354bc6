"""Reranking: a cross-encoder reads query and entry together (Nogueira and Cho, 2019)."""

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field

from emend.memory.embeddings.embed import load_encoder
from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Corpus, Hit, Retriever
from emend.memory.retrieval.default import Default
from emend.memory.retrieval.exact import DECIMALS

MODEL = "cross-encoder/ms-marco-MiniLM-L6-v2"
_LOCK = threading.Lock()  # fast tokenizers are not thread-safe


class Rerank:
    """The first hits of another strategy in the order of a cross-encoder's scores.

    Args:
        corpus: the entries to search.
        inner: the factory of the strategy that searches.
        model: a sentence-transformers cross-encoder with one output: a folder, or a name on the Hugging Face Hub; or
            any object with CrossEncoder's `predict`.
        depth: number of hits to rerank; further hits are dropped.

    Raises:
        MissingExtra: sentence-transformers is not installed.
        BadSettings: there is no such model, or it has several outputs.
    """

    def __init__(
        self,
        corpus: Corpus,
        inner: Callable[[Corpus], Retriever] = Default,
        model: Any = MODEL,
        depth: Annotated[int, Field(ge=1)] = 20,
    ) -> None:
        self._inner = inner(corpus)
        self._model = model if hasattr(model, "predict") else _cross_encoder(str(model))
        self._depth = depth

    def search(self, query: str, k: int) -> list[Hit]:
        """At most min(k, depth) hits with the model's scores, best first; equal ones in the inner order."""
        hits = self._inner.search(query, self._depth) if k > 0 else []
        if not hits:
            return []
        with _LOCK:
            scores = self._model.predict([(query, hit.entry.text) for hit in hits], show_progress_bar=False)
        scored = [
            Hit(entry=hit.entry, score=round(float(score), DECIMALS)) for hit, score in zip(hits, scores, strict=True)
        ]
        return sorted(scored, key=lambda hit: -hit.score)[:k]


@lru_cache(maxsize=2)
def _cross_encoder(model: str) -> Any:
    encoder = load_encoder("CrossEncoder", model, "cross-encoder", "rerank(model=FOLDER), or a name on the Hub")
    architectures = [str(name) for name in getattr(encoder.model.config, "architectures", None) or ()]
    if not any(name.endswith("ForSequenceClassification") for name in architectures):
        raise BadSettings(
            f"cross-encoder '{model}' is a {', '.join(architectures) or 'model of another kind'}, which does not score "
            "pairs: its scores would be chance. Give rerank(model=FOLDER) of a cross-encoder."
        )
    if encoder.num_labels != 1:
        raise BadSettings(f"cross-encoder '{model}' has {encoder.num_labels} outputs: rerank needs a model with one.")
    return encoder
