"""Encoder similarities between questions, gold answers and replies, encoding each text once."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.metrics.equivalence.rows import ReadReply, gold_words
from emend.memory.embeddings.embed import Embedding
from emend.memory.values.forms import word_stem
from emend.memory.values.tokens import Token

# Maximum number of encoded characters of a sentence.
CHARACTERS = 120
# Maximum number of encoded new words of a gold answer or reply.
WORDS = 12
NAMES = (
    "cosine with gold",
    "cosine with question and gold",
    "cosine with question",
    "gold's gain",
    "soft recall",
    "least soft recall",
)


class Texts(NamedTuple):
    """The texts of a row that are encoded."""

    question: str
    gold: str
    with_gold: str
    first: str
    matched: int
    """Number of the gold's words that the reply has."""
    missing: tuple[str, ...]
    """Words of the gold that the reply has not."""
    words: tuple[str, ...]
    """New words of the reply, for the gold's missing ones."""


def texts_of(read: ReadReply, gold: str) -> Texts:
    """Return the texts of a row that are encoded."""
    question = read.question[:CHARACTERS]
    content = gold_words(gold, read.question)[:WORDS]
    missing = [token for token in content if word_stem(token) not in read.stems]
    return Texts(
        question,
        gold[:CHARACTERS],
        f"{question} {gold}"[: 2 * CHARACTERS],
        read.sentences[0][:CHARACTERS],
        len(content) - len(missing),
        _forms(missing),
        _forms(read.new_words)[:WORDS] if missing else (),
    )


def _forms(tokens: Iterable[Token]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(token.form for token in tokens))


def similarities(rows: Sequence[Texts], embedding: Embedding) -> NDArray[np.float64]:
    """Return the similarities of each row, shape (len(rows), len(NAMES))."""
    vectors = _encode([text for row in rows for text in row[:4]], embedding)
    words = _encode([word for row in rows for word in (*row.missing, *row.words)], embedding)
    return np.asarray([_row(row, vectors, words) for row in rows]).reshape(len(rows), len(NAMES))


Vectors = dict[str, NDArray[np.float32]]


def _encode(texts: Iterable[str], embedding: Embedding) -> Vectors:
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, embedding.documents(distinct), strict=True))


def _row(row: Texts, vectors: Vectors, words: Vectors) -> list[float]:
    question, gold, with_gold, first = (vectors[text] for text in row[:4])
    recall = np.concatenate([np.ones(row.matched), _best(row.missing, row.words, words)])
    return [
        float(first @ gold),
        float(first @ with_gold),
        float(first @ question),
        float(first @ with_gold - first @ question),
        float(np.mean(recall)) if len(recall) else 0.0,
        float(np.min(recall)) if len(recall) else 0.0,
    ]


def _best(gold: Sequence[str], reply: Sequence[str], words: Vectors) -> NDArray[np.float64]:
    """Return for each word of the gold answer its maximum similarity to a word of the reply; 0
    without any.
    """
    if not gold or not reply:
        return np.zeros(len(gold))
    ours = np.stack([words[word] for word in gold])
    theirs = np.stack([words[word] for word in reply])
    return np.asarray((ours @ theirs.T).max(axis=1), np.float64)
