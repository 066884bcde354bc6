"""The embedding form of SERAC's scope classifier over word features, for the lexical embedding.

A logistic regression on the words that question and text share and on their cosine. The form over a sentence encoder
is `gate`, the cross-encoder form `cross_encoder`. Probability 1 is in scope.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from emend.agents.scope.base import LinearScope
from emend.agents.scope.logistic import Floats, sigmoid
from emend.memory.embeddings.embed import FUNCTION_WORDS, Embedding, LexicalEmbedding
from emend.memory.retrieval.tokens import words

WORD_FEATURES = ("bias", "cosine", "names", "no_names", "words", "rare_words")
PRIOR = (-7.0, 3.0, 5.0, 1.0, 1.5, 4.0)
"""Untrained weights: a text is in scope if it has the names and the rare words of the question."""


class Lexicon:
    """An inverted index of words, which compares a question with many texts at once."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.count = len(texts)
        places: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            for word in set(words(text)):
                places.setdefault(word, []).append(place)
        self.places = {word: np.asarray(rows) for word, rows in places.items()}

    def features(self, question: str) -> Floats:
        """Shares of the question's names, words and rare words that each text contains; shape (texts, 4)."""
        content = [word for word in dict.fromkeys(words(question)) if word not in FUNCTION_WORDS]
        names = names_in(question)
        rarity = {w: np.log((self.count + 1) / (len(self.places.get(w, ())) + 0.5)) for w in content}
        out = np.zeros((self.count, 4), np.float32)
        out[:, 0] = self._share({name: 1.0 for name in names})
        out[:, 1] = not names
        out[:, 2] = self._share(dict.fromkeys(content, 1.0))
        out[:, 3] = self._share(rarity)
        return out

    def _share(self, weights: dict[str, float]) -> Floats:
        shares = np.zeros(self.count, np.float32)
        for word, weight in weights.items():
            if word in self.places:
                shares[self.places[word]] += weight
        total = sum(weights.values())
        return shares / np.float32(total) if total > 0 else shares


def names_in(question: str) -> list[str]:
    """The words of names: those that begin with a capital or contain a digit, seldom the first word of a question."""
    names: list[str] = []
    for place, token in enumerate(question.replace("'s", " ").replace("’s", " ").split()):
        word = "".join(letter for letter in token if letter.isalnum())
        if _is_name(word, place):
            names += words(word)
    return list(dict.fromkeys(names))


def without_names(text: str) -> str:
    """The text with `X` for each run of names: `Who is the wife of Ann Li?` becomes `Who is the wife of X?`."""
    tokens: list[str] = []
    for place, token in enumerate(text.replace("’s", "'s").split()):
        head, owner, _ = token.partition("'s")
        if not _is_name("".join(letter for letter in head if letter.isalnum()), place):
            tokens.append(token)
        elif not (tokens and tokens[-1].startswith("X")):
            tokens.append("X" + owner)
        elif owner:
            tokens[-1] = "X" + owner
    ending = text.rstrip()[-1:]
    return " ".join(tokens) + (ending if ending in ("?", ".") and tokens and not tokens[-1].endswith(ending) else "")


def _is_name(word: str, place: int) -> bool:
    """True if a word begins with a capital or contains a digit, and is not capitalised only as the first of a text."""
    if not word or (place == 0 and (word.lower() in FUNCTION_WORDS or word.lower() in OPENERS)):
        return False
    return word[0].isupper() or any(letter.isdigit() for letter in word)


OPENERS = frozenset("is are was were do does did can may might could what name tell give say".split())


@dataclass(frozen=True)
class EmbeddingScope(LinearScope):
    """A logistic regression over word features and the cosine.

    `weights` has one for each of `WORD_FEATURES`; `embedding` gives the cosine.
    """

    form: ClassVar[str] = "embedding"
    embedding: Embedding = field(default_factory=LexicalEmbedding)
    spec: str = "lexical"
    weights: Floats = field(default_factory=lambda: np.asarray(PRIOR, np.float32))

    @property
    def features(self) -> int:
        """The number of weights."""
        return len(WORD_FEATURES)

    def over(self, texts: Sequence[str]) -> Callable[[str], Floats]:
        """A function from a question to one probability per text, shape (len(texts),)."""
        pairs = Pairs(self.embedding, texts)

        def probabilities(question: str) -> Floats:
            return sigmoid(pairs.features(question) @ self.weights)

        return probabilities


class Pairs:
    """Features of a question paired with each of some texts; the texts are embedded once."""

    def __init__(self, embedding: Embedding, texts: Sequence[str]) -> None:
        self.embedding, self.lexicon = embedding, Lexicon(texts)
        self.vectors = embedding.documents(texts) if texts else np.zeros((0, 1), np.float32)

    def features(self, question: str, places: Sequence[int] | None = None) -> Floats:
        """Shape (texts, features), or for the texts at `places` only."""
        if not len(self.vectors):
            return np.zeros((0, len(WORD_FEATURES)), np.float32)
        vector = self.embedding.queries([question])[0]
        return self.joined(vector, self.lexicon.features(question), places)

    def joined(self, vector: Floats, of_words: Floats, places: Sequence[int] | None = None) -> Floats:
        """Features, shape (texts, features), from the question's vector and word features."""
        chosen = slice(None) if places is None else np.asarray(places, int)
        vectors, shares = self.vectors[chosen], of_words[chosen]
        parts = [np.ones((len(vectors), 1), np.float32), (vectors @ vector)[:, None], shares]
        return np.concatenate(parts, axis=1).astype(np.float32)
