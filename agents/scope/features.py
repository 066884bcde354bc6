"""Features of pairs of a question and a text, the input of scope classifiers."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from emend.agents.scope.base import Floats
from emend.memory.embeddings.embed import Embedding
from emend.memory.retrieval.default import DENSE, NAME_PART, NAMES, STEM_PART, STEMS
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.exact import best as best_of
from emend.memory.retrieval.focus import focused, sentences
from emend.memory.retrieval.tokens import FUNCTION_WORDS, words

# Minimum number of words of a question that is searched verbatim in texts.
VERBATIM = 3
# Number of top-ranked texts in which a question is searched verbatim.
LIKELY = 50
# Minimum retrieval score of the next text, also used if there is none.
RIVAL = 2.0


class RelevanceFeatures:
    """Two features from a sentence encoder: the best cosine with any sentence of a text, and the
    text's lead.

    The lead is a text's score under the default retrieval strategy minus that of the best other
    text. Using sentences instead of texts makes triplets and documents comparable, and the lead,
    unlike the score, does not grow with the number of texts. A text that contains the question
    verbatim has a cosine of 1 with it.
    """

    names: ClassVar[tuple[str, ...]] = ("sentence", "lead")

    def __init__(self, corpus: ExactCorpus, embedding: Embedding) -> None:
        self._corpus = corpus
        parts = [sentences(entry.text) or [entry.text] for entry in corpus.entries()]
        self._starts = np.cumsum([0, *map(len, parts)])[:-1]
        self._sentences = embedding.documents([sentence for part in parts for sentence in part])
        self._stems, self._names = STEM_PART(corpus), NAME_PART(corpus)
        self._words = [_plain(entry.text) for entry in corpus.entries()]

    def scores(self, question: str) -> Floats:
        """Return the scores of the default retrieval strategy, shape (texts,)."""
        query = focused(question)
        words_part = STEMS * self._stems.scores(query) + NAMES * self._names.scores(query)
        return np.asarray(DENSE * self._corpus.cosines(query) + words_part, np.float32)

    def __call__(self, question: str, places: Sequence[int] | None = None) -> Floats:
        """Return the features, shape (texts, 2), or those for a memory of only the texts at
        `places`.
        """
        query = focused(question)
        cosines = self._sentences @ self._corpus.embed([query])[0]
        nearest, scores = np.maximum.reduceat(cosines, self._starts), self.scores(question)
        if (plain := _plain(query)).count(" ") > VERBATIM:
            # searching thousands of documents would take milliseconds
            likely = best_of(scores, LIKELY)
            nearest[[place for place in likely if plain in self._words[place]]] = 1.0
        if places is not None:
            nearest, scores = nearest[list(places)], scores[list(places)]
        best = int(scores.argmax())
        lead = scores - scores[best]
        lead[best] = scores[best] - np.append(np.delete(scores, best), RIVAL).max()
        return np.stack([nearest, lead], axis=1).astype(np.float32)


def _plain(text: str) -> str:
    """Return the words of a text, each between two spaces."""
    return f" {' '.join(words(text))} "


class WordFeatures:
    """Features for the lexical embedding: the cosine, and the shares of the question's names and
    words in each text.
    """

    names: ClassVar[tuple[str, ...]] = ("cosine", "names", "no_names", "words", "rare_words")

    def __init__(self, corpus: ExactCorpus, embedding: Embedding) -> None:
        self._corpus = corpus
        places: dict[str, list[int]] = {}
        for place, entry in enumerate(corpus.entries()):
            for word in set(words(entry.text)):
                places.setdefault(word, []).append(place)
        self._places = {word: np.asarray(rows) for word, rows in places.items()}

    def scores(self, question: str) -> Floats:
        """Return the cosines, shape (texts,)."""
        return np.asarray(self._corpus.cosines(question), np.float32)

    def __call__(self, question: str, places: Sequence[int] | None = None) -> Floats:
        """Return the features, shape (texts, 5), or only the rows at `places`."""
        content = [word for word in dict.fromkeys(words(question)) if word not in FUNCTION_WORDS]
        names, count = names_in(question), len(self._corpus.entries())
        rarity = {w: np.log((count + 1) / (len(self._places.get(w, ())) + 0.5)) for w in content}
        weights = (dict.fromkeys(names, 1.0), dict.fromkeys(content, 1.0), rarity)
        of_names, of_words, of_rare = (self._share(weight) for weight in weights)
        columns = [self.scores(question), of_names, np.full(count, not names), of_words, of_rare]
        rows = np.stack(columns, axis=1).astype(np.float32)
        return rows if places is None else rows[list(places)]

    def _share(self, weights: dict[str, float]) -> Floats:
        shares = np.zeros(len(self._corpus.entries()), np.float32)
        for word, weight in weights.items():
            if word in self._places:
                shares[self._places[word]] += weight
        total = sum(weights.values())
        return shares / np.float32(total) if total > 0 else shares


# Features of questions with the texts of a corpus, which is indexed once.
PairFeatures = RelevanceFeatures | WordFeatures


def names_in(question: str) -> list[str]:
    """Return the words of names: those that begin with a capital or contain a digit, usually not
    the first word of a question.
    """
    names: list[str] = []
    for place, token in enumerate(question.replace("'s", " ").replace("’s", " ").split()):
        word = "".join(letter for letter in token if letter.isalnum())
        if _is_name(word, place):
            names += words(word)
    return list(dict.fromkeys(names))


def without_names(text: str) -> str:
    """Replace each run of names by `X`: `Who is the wife of Ann Li?` becomes `Who is the wife of
    X?`.
    """
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
    return " ".join(tokens) + (
        ending if ending in ("?", ".") and tokens and not tokens[-1].endswith(ending) else ""
    )


def _is_name(word: str, place: int) -> bool:
    """Return whether a word contains a digit or begins with a capital, unless only because it is
    the first word.
    """
    if not word or (place == 0 and (word.lower() in FUNCTION_WORDS or word.lower() in OPENERS)):
        return False
    return word[0].isupper() or any(letter.isdigit() for letter in word)


OPENERS = frozenset(
    "is are was were do does did can may might could what name tell give say".split()
)
