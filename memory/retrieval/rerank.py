"""Reranking: a cross-encoder reads query and entry together (Nogueira and Cho, 2019)."""

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from emend.memory.embeddings.embed import load_encoder
from emend.memory.embeddings.long_texts import (
    BEST_PIECE,
    EncoderWindow,
    LengthWarning,
    best_of_pieces,
)
from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Corpus, Hit, Retriever
from emend.memory.retrieval.default import Default
from emend.memory.retrieval.exact import DECIMALS

# Tokens of the window reserved for the query when a long text is split into pieces.
ASKING = 64
MODEL = "cross-encoder/ms-marco-MiniLM-L6-v2"
_LOCK = threading.Lock()  # fast tokenizers are not thread-safe


class Rerank:
    """Reorders the first hits of another strategy by a cross-encoder's scores; a text longer than
    the window gets the score of its best piece.

    Args:
        corpus: the entries to search.
        inner: the factory of the strategy that searches.
        model: a sentence-transformers cross-encoder with one output: a folder, or a name on the
            Hugging Face Hub; or any object with CrossEncoder's `predict`.
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
        self._window = _window_of(self._model)
        self._lengths = LengthWarning("the cross-encoder", self._window.tokens, BEST_PIECE)

    def search(self, query: str, k: int) -> list[Hit]:
        """At most min(k, depth) hits with the model's scores, best first; equal ones in the inner
        order.
        """
        hits = self._inner.search(query, self._depth) if k > 0 else []
        if not hits:
            return []
        with _LOCK:
            pieces = [self._window.pieces(hit.entry.text) for hit in hits]
            self._lengths.look(len(part) > 1 for part in pieces)
            scores = best_of_pieces(lambda texts: self._predict(query, texts), pieces)
        scored = [
            Hit(entry=hit.entry, score=round(float(score), DECIMALS))
            for hit, score in zip(hits, scores, strict=True)
        ]
        return sorted(scored, key=lambda hit: -hit.score)[:k]

    def _predict(self, query: str, texts: list[str]) -> NDArray[np.float32]:
        pairs = [(query, text) for text in texts]
        return np.asarray(self._model.predict(pairs, show_progress_bar=False))


def _window_of(model: Any) -> EncoderWindow:
    """Return the window of a cross-encoder; a user's object without a tokenizer has no limit."""
    tokenizer = getattr(model, "tokenizer", None)
    if not callable(tokenizer):
        return EncoderWindow(tokenizer, None)
    tokens = getattr(model, "max_seq_length", None) or getattr(model, "max_length", None)
    return EncoderWindow(tokenizer, tokens or getattr(tokenizer, "model_max_length", None), ASKING)


@lru_cache(maxsize=2)
def _cross_encoder(model: str) -> Any:
    encoder = load_encoder(
        "CrossEncoder", model, "cross-encoder", "rerank(model=FOLDER), or a name on the Hub"
    )
    architectures = [
        str(name) for name in getattr(encoder.model.config, "architectures", None) or ()
    ]
    if not any(name.endswith("ForSequenceClassification") for name in architectures):
        raise BadSettings(
            f"cross-encoder '{model}' is a {', '.join(architectures) or 'model of another kind'}, "
            "which does not score pairs: its scores would be chance. Give rerank(model=FOLDER) of "
            "a cross-encoder."
        )
    if encoder.num_labels != 1:
        raise BadSettings(
            f"cross-encoder '{model}' has {encoder.num_labels} outputs: rerank needs "
            "a model with one."
        )
    return encoder
