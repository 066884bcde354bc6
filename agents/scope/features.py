"""The scope role: which of the new facts, if any, is a question about?

SERAC's scope classifier ("Memory-Based Model Editing at Scale", Mitchell et al. 2022, section 3) in two forms. The
embedding form is here for the lexical embedding, a logistic regression on what plain words say of a question and a
text, and in `scope_gate` for a sentence encoder; the cross-encoder form is `cross_encoder`. Probability 1 is in scope.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from emend.agents.scope.logistic import Floats, sigmoid
from emend.memory.edit import content_id
from emend.memory.embeddings.embed import FUNCTION_WORDS, Embedding, LexicalEmbedding, load_embedding
from emend.memory.errors import BadData, BadSettings, MissingData
from emend.memory.retrieval.bm25 import words

WORD_FEATURES = ("bias", "cosine", "names", "no_names", "words", "rare_words")
PRIOR = (-7.0, 3.0, 5.0, 1.0, 1.5, 4.0)
"""Weights before any training: a text is meant when it has the names and the rare words of the question."""
SETTINGS, WEIGHTS = "scope.json", "scope.safetensors"


class Scope(Protocol):
    """Decides about scope; `threshold` is the least probability at which a question is about a text."""

    @property
    def identity(self) -> str:
        """What decides the probabilities."""
        ...

    @property
    def threshold(self) -> float:
        """From here on a question is in scope."""
        ...

    def over(self, texts: Sequence[str]) -> Callable[[str], Floats]:
        """A function from a question to the probability, for each of these texts, that the question is about it."""
        ...


class Lexicon:
    """Which words stand in which of some texts, so that a question is compared with all of them at once."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.count = len(texts)
        places: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            for word in set(words(text)):
                places.setdefault(word, []).append(place)
        self.places = {word: np.asarray(found) for word, found in places.items()}

    def features(self, question: str) -> Floats:
        """Shares of the question's names, words and rare words that each text has; shape (texts, 4)."""
        asked = [word for word in dict.fromkeys(words(question)) if word not in FUNCTION_WORDS]
        names = names_in(question)
        rarity = {w: np.log((self.count + 1) / (len(self.places.get(w, ())) + 0.5)) for w in asked}
        out = np.zeros((self.count, 4), np.float32)
        out[:, 0] = self._share({name: 1.0 for name in names})
        out[:, 1] = not names
        out[:, 2] = self._share(dict.fromkeys(asked, 1.0))
        out[:, 3] = self._share(rarity)
        return out

    def _share(self, weights: dict[str, float]) -> Floats:
        found = np.zeros(self.count, np.float32)
        for word, weight in weights.items():
            if word in self.places:
                found[self.places[word]] += weight
        whole = sum(weights.values())
        return found / np.float32(whole) if whole > 0 else found


def names_in(question: str) -> list[str]:
    """The words of names: those that begin with a capital or hold a digit; a question's first word seldom is one."""
    found = []
    for place, token in enumerate(question.replace("'s", " ").replace("’s", " ").split()):
        word = "".join(letter for letter in token if letter.isalnum())
        if _is_name(word, place):
            found += words(word)
    return list(dict.fromkeys(found))


def without_names(text: str) -> str:
    """The text with `X` for each run of names: `Who is the wife of Ann Li?` is after `Who is the wife of X?`."""
    kept: list[str] = []
    for place, token in enumerate(text.replace("’s", "'s").split()):
        head, owner, _ = token.partition("'s")
        if not _is_name("".join(letter for letter in head if letter.isalnum()), place):
            kept.append(token)
        elif not (kept and kept[-1].startswith("X")):
            kept.append("X" + owner)
        elif owner:
            kept[-1] = "X" + owner
    ending = text.rstrip()[-1:]
    return " ".join(kept) + (ending if ending in ("?", ".") and kept and not kept[-1].endswith(ending) else "")


def _is_name(word: str, place: int) -> bool:
    """Whether a word begins with a capital or holds a digit; a text's first word may do so for its place."""
    if not word or (place == 0 and (word.lower() in FUNCTION_WORDS or word.lower() in OPENERS)):
        return False
    return word[0].isupper() or any(letter.isdigit() for letter in word)


OPENERS = frozenset("is are was were do does did can may might could what name tell give say".split())


@dataclass(frozen=True)
class EmbeddingScope:
    """A logistic regression over word features and the cosine: `weights` has one for each of `WORD_FEATURES`.

    `embedding` gives the cosine; `spec` is how `load_embedding` calls it.
    """

    embedding: Embedding = field(default_factory=LexicalEmbedding)
    spec: str = "lexical"
    weights: Floats = field(default_factory=lambda: np.asarray(PRIOR, np.float32))
    threshold: float = 0.5
    trained_on: str = ""

    @property
    def identity(self) -> str:
        """What decides the probabilities: the encoder and a digest of the weights."""
        return f"embedding/{self.embedding.identity}/{content_id(np.round(self.weights, 5).tolist())[:8]}"

    @property
    def features(self) -> int:
        """How many weights there are."""
        return len(WORD_FEATURES)

    def over(self, texts: Sequence[str]) -> Callable[[str], Floats]:
        """A function from a question to one probability per text, shape (len(texts),)."""
        measured = Pairs(self.embedding, texts)

        def probabilities(question: str) -> Floats:
            return sigmoid(measured.features(question) @ self.weights)

        return probabilities

    def save(self, folder: Path) -> None:
        """Writes weights (safetensors) and settings (JSON) into a folder, which is made if need be."""
        from safetensors.numpy import save_file

        folder.mkdir(parents=True, exist_ok=True)
        save_file({"weights": self.weights}, folder / WEIGHTS)
        told = {"form": "embedding", "embedding": self.spec, "encoder": self.embedding.identity}
        write_settings(folder, told | {"threshold": self.threshold, "trained_on": self.trained_on})


class Pairs:
    """Features of a question with each of some texts; the texts are embedded once."""

    def __init__(self, embedding: Embedding, texts: Sequence[str]) -> None:
        self.embedding, self.lexicon = embedding, Lexicon(texts)
        self.vectors = embedding.documents(texts) if texts else np.zeros((0, 1), np.float32)

    def features(self, question: str, places: Sequence[int] | None = None) -> Floats:
        """Shape (texts, features), or of the texts at some places alone."""
        if not len(self.vectors):
            return np.zeros((0, len(WORD_FEATURES)), np.float32)
        asked = self.embedding.queries([question])[0]
        return self.joined(asked, self.lexicon.features(question), places)

    def joined(self, asked: Floats, of_words: Floats, places: Sequence[int] | None = None) -> Floats:
        """The same from the question's vector and word features."""
        chosen = slice(None) if places is None else np.asarray(places, int)
        vectors, shares = self.vectors[chosen], of_words[chosen]
        parts = [np.ones((len(vectors), 1), np.float32), (vectors @ asked)[:, None], shares]
        return np.concatenate(parts, axis=1).astype(np.float32)


def write_settings(folder: Path, told: dict[str, Any]) -> None:
    """The settings beside a classifier's weights."""
    (folder / SETTINGS).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def settle_threshold(folder: Path, threshold: float) -> None:
    """Writes another threshold into the settings of a classifier that is there."""
    told = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    write_settings(folder, told | {"threshold": threshold})


def load_scope(folder: str | Path) -> Scope:
    """The classifier that `emend train scope` wrote into a folder.

    Raises:
        MissingData: there is none.
        BadData: its files are not what they should be.
        BadSettings: its encoder is another one now.
    """
    path = Path(folder)
    try:
        told = json.loads((path / SETTINGS).read_text(encoding="utf-8"))
        form, threshold = told["form"], float(told["threshold"])
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingData(
            f"no scope classifier in '{folder}': make one with emend train scope --out {folder}."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadData(
            f"'{path / SETTINGS}' is not what emend train scope writes: {error!r}. Train it again."
        ) from error
    if form == "cross-encoder":
        from emend.agents.scope.cross_encoder import CrossEncoderScope

        return CrossEncoderScope(path, threshold)
    return _load_embedding_scope(path, told, threshold)


def _load_embedding_scope(path: Path, told: dict[str, Any], threshold: float) -> Scope:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        weights = load_file(path / WEIGHTS)["weights"]
    except (OSError, KeyError, SafetensorError) as error:
        raise BadData(f"'{path / WEIGHTS}' holds no weights ({error}): train the classifier again.") from error
    embedding = load_embedding(told["embedding"])
    if embedding.identity != told["encoder"]:
        raise BadSettings(
            f"the scope classifier in '{path}' was trained over {told['encoder']}, and '{told['embedding']}' is "
            f"{embedding.identity} here: install that encoder, or train it again."
        )
    from emend.agents.scope.gate import FORM, GatedScope

    kind = GatedScope if told["form"] == FORM else EmbeddingScope
    found = kind(embedding, told["embedding"], weights, threshold, str(told.get("trained_on", "")))
    if weights.shape != (found.features,):
        raise BadData(
            f"'{path / WEIGHTS}' holds weights of shape {weights.shape}, and {found.features} are needed: train the "
            "classifier again."
        )
    return found
