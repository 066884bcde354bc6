"""The embedding form of the scope classifier over a sentence encoder: find the nearest text, then gate.

Two steps, because two things decide: which text is nearest, and whether an edit can answer the question at all ("What
will the average temperature in Toledo be?" names the place of an event, and no event is about it). The first is the
score of the default retrieval strategy; the second, the gate, is a logistic regression on features of that score and on
the vector of the question without its names, so that a relation learned from one person holds for another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.agents.scope.base import LinearScope
from emend.agents.scope.features import Lexicon, without_names
from emend.agents.scope.logistic import Floats, sigmoid
from emend.memory.embeddings.embed import Embedding
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.default import DENSE, NAME_PART, NAMES, STEM_PART, STEMS
from emend.memory.retrieval.exact import ExactCorpus

NEAR_FEATURES = (
    "bias", "score", "lead", "share", "cosine", "stems", "names", "name_share", "no_names", "word_share", "rare_share",
    "meaning",
)  # fmt: skip
"""The gate's features of the nearest text, followed by the vector of the question without its names. `share` is the
logarithm of the nearest text's share in the sum of exp(score) over all texts; `meaning` the cosine of the two without
names."""


class Nearest(NamedTuple):
    """The scores of all texts, the index of the best, and the gate's features of it, shape (features,)."""

    scores: NDArray[np.float64]
    place: int
    features: Floats


def encoder_inputs(questions: Sequence[str]) -> list[str]:
    """The texts that the encoder embeds for some questions: each unchanged, and each without its names."""
    return [*questions, *map(without_names, questions)]


class ScoredTexts:
    """Texts, embedded and indexed once, to be compared with many questions."""

    def __init__(self, embedding: Embedding, texts: Sequence[str]) -> None:
        entries = [Entry(id=str(place), edit_id=str(place), text=text) for place, text in enumerate(texts)]
        self.corpus, self.lexicon = ExactCorpus.of(entries, embedding), Lexicon(texts)
        self._plain = embedding.documents([without_names(text) for text in texts])
        self._stems, self._names = STEM_PART(self.corpus), NAME_PART(self.corpus)

    def nearest(self, question: str, among: Sequence[int] | None = None) -> Nearest:
        """The text nearest to a question, of all or of those at the indices `among`."""
        plain = self.corpus.embed([without_names(question)])[0]
        chosen = np.arange(len(self.corpus.entries())) if among is None else np.asarray(among, int)
        every = (self.corpus.cosines(question), self._stems.scores(question), self._names.scores(question))
        parts = [part[chosen].astype(np.float64) for part in every]
        scores = DENSE * parts[0] + STEMS * parts[1] + NAMES * parts[2]
        best = int(scores.argmax())
        behind = float(np.delete(scores, best).max()) if len(scores) > 1 else 0.0
        share = -np.log(np.exp(scores - scores[best]).sum())
        of_scores = [1.0, scores[best], scores[best] - behind, share, *(part[best] for part in parts)]
        shares = self.lexicon.features(question)[chosen[best]]
        meaning = [self._plain[chosen[best]] @ plain]
        features = np.concatenate([of_scores, shares, meaning, plain * len(plain) ** 0.5]).astype(np.float32)
        return Nearest(scores, int(chosen[best]), features)


@dataclass(frozen=True)
class GatedScope(LinearScope):
    """The gate over an encoder.

    The nearest text gets the gate's probability p, another text p * exp(its score - the nearest one's).
    `weights` begins with those of `NEAR_FEATURES`.
    """

    form: ClassVar[str] = "gated"

    @property
    def features(self) -> int:
        """The number of weights, with one for each dimension of the encoder."""
        return len(NEAR_FEATURES) + int(self.embedding.queries(["?"]).shape[1])

    def over(self, texts: Sequence[str]) -> Callable[[str], Floats]:
        """A function from a question to one probability per text, shape (len(texts),)."""
        scored = ScoredTexts(self.embedding, texts) if texts else None

        def probabilities(question: str) -> Floats:
            if scored is None:
                return np.zeros(0, np.float32)
            nearest = scored.nearest(question)
            gate = float(sigmoid(nearest.features @ self.weights))
            return np.asarray(gate * np.exp(nearest.scores - nearest.scores.max()), np.float32)

        return probabilities
