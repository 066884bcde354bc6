"""Scope classifiers by logistic regression on a few features, including the shipped one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from emend.agents.scope.base import WEIGHTS, Floats, sigmoid, write_settings
from emend.agents.scope.features import PairFeatures, RelevanceFeatures, WordFeatures, without_names
from emend.memory.edit import content_id
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding
from emend.memory.errors import BadData
from emend.memory.files import tensor_write
from emend.memory.retrieval.base import Corpus
from emend.memory.retrieval.exact import ExactCorpus

Form = Literal["relevance", "embedding"]
FEATURES: dict[str, type[PairFeatures]] = {
    "relevance": RelevanceFeatures,
    "embedding": WordFeatures,
}
# Hand-set weights of the word features: a text is in scope if it has the names and rare words of
# the question.
PRIOR = (-7.0, 3.0, 5.0, 1.0, 1.5, 4.0)


@dataclass(frozen=True)
class LogisticScope:
    """A logistic regression on features of question and text.

    Attributes:
        embedding: the encoder.
        spec: the encoder's name for `load_embedding`.
        form: `relevance` over a sentence encoder, `embedding` over the lexical one.
        weights: the bias, one weight per feature and, if trained on the questions of a benchmark,
            one per dimension of the vector of the question without names.
        threshold: the minimum probability of being in scope.
        low: the minimum probability of possibly being in scope.
        trained_on: a digest of the training data.
    """

    pairwise: ClassVar[bool] = False
    embedding: Embedding
    spec: str
    form: Form
    weights: Floats
    threshold: float = 0.5
    low: float | None = None
    trained_on: str = ""

    def __post_init__(self) -> None:
        few = 1 + len(FEATURES[self.form].names)
        if self.weights.shape not in ((few,), (few + self.embedding.queries(["?"]).shape[1],)):
            raise BadData(
                f"a scope classifier of form '{self.form}' has {few} weights, not "
                f"{self.weights.shape}."
            )

    @property
    def identity(self) -> str:
        """The form, the embedding and a digest of the weights."""
        weights = content_id(np.round(self.weights, 5).tolist())[:8]
        return f"{self.form}/{self.embedding.identity}/{weights}"

    @property
    def lower(self) -> float:
        """The stored lower threshold, or else a tenth of the upper one."""
        return self.threshold / 10 if self.low is None else self.low

    def over(self, corpus: Corpus) -> Callable[[str], Floats]:
        """Return a function from a question to one probability per entry, shape
        (len(corpus.entries()),).
        """
        if not corpus.entries():
            return lambda question: np.zeros(0, np.float32)
        features = self.compute_features(corpus)
        bias, linear, gate = np.split(self.weights, [1, 1 + len(features.names)])

        def probabilities(question: str) -> Floats:
            of_question = (
                gate @ question_vectors(self.embedding, [question])[0] if len(gate) else 0.0
            )
            return sigmoid(features(question) @ linear + bias + of_question)

        return probabilities

    def compute_features(self, corpus: Corpus) -> PairFeatures:
        """Return the features of questions with a corpus, which is embedded again if it uses
        another encoder.
        """
        if not (isinstance(corpus, ExactCorpus) and corpus.identity == self.embedding.identity):
            corpus = ExactCorpus.of(corpus.entries(), self.embedding)
        return FEATURES[self.form](corpus, self.embedding)

    def save(self, folder: Path) -> None:
        """Write weights (safetensors) and settings (JSON) to a folder, which is created if
        necessary.
        """
        from safetensors.numpy import save_file

        folder.mkdir(parents=True, exist_ok=True)
        with tensor_write(folder):
            save_file({"weights": self.weights}, folder / WEIGHTS)
        settings = {"form": self.form, "embedding": self.spec, "encoder": self.embedding.identity}
        thresholds = {"threshold": self.threshold, "lower": self.low}
        write_settings(folder, settings | thresholds | {"trained_on": self.trained_on})


def question_vectors(embedding: Embedding, questions: list[str]) -> Floats:
    """Return vectors of questions without names, so that what is learned about one person
    generalises to others.
    """
    return embedding.queries([without_names(question) for question in questions])


@dataclass(frozen=True)
class DefaultScope(LogisticScope):
    """The untrained lexical classifier, with a threshold of one half.

    It accepts 97.6 % of tinyworld's demonstrations that are in the scope of their own fact, and 0.5
    % of those that are not. On other data it is worse, on some no better than chance: see
    `docs/reference/editors.md`.
    """

    embedding: Embedding = field(default_factory=LexicalEmbedding)
    spec: str = "lexical"
    form: Form = "embedding"
    weights: Floats = field(default_factory=lambda: np.asarray(PRIOR, np.float32))

    @property
    def identity(self) -> str:
        """The identity of the weights, marked as untrained."""
        return f"default/{super().identity}"
