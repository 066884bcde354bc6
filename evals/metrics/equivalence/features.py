"""Features of answers: lexical ones, and similarities of an optional encoder."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from emend.evals.metrics.equivalence import lexical, similarity
from emend.evals.metrics.equivalence.rows import ReadReply, RepliedQuestion, distinct
from emend.memory.embeddings.embed import Embedding


def lexical_features(row: RepliedQuestion) -> tuple[dict[str, float], similarity.Texts]:
    """Return the lexical features of a row, and the texts that an encoder compares.

    Features that depend on one gold answer use the one closest to the reply.
    """
    read = ReadReply(row.question, row.reply)
    golds = distinct(row.golds)[: lexical.GOLDS]
    general = lexical.reply_features(read, golds) | lexical.hit_features(read, golds)
    choices = [(lexical.gold_features(read, gold, golds), gold) for gold in golds or ["?"]]
    features, gold = max(choices, key=lambda choice: _nearness(choice[0]))
    return general | features, similarity.texts_of(read, gold)


def _nearness(features: dict[str, float]) -> tuple[float, ...]:
    return tuple(features[name] for name in ("recall", "dates", "recall of all", "likeness"))


def feature_table(
    rows: Sequence[RepliedQuestion], embedding: Embedding | None
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return the names of the features and their values, shape (rows, features)."""
    pairs = [lexical_features(row) for row in rows]
    names = tuple(pairs[0][0]) if pairs else ()
    table = np.asarray([list(features.values()) for features, _ in pairs], np.float64)
    if embedding is None or not pairs:
        return names, table
    compared = similarity.similarities([texts for _, texts in pairs], embedding)
    return names + similarity.NAMES, np.hstack([table, compared])
