"""The embedding form of the scope classifier over a sentence encoder: find the text, then ask if any text is meant.

Two steps, because two things decide: which text is nearest, and whether the question is one that an edit can answer at
all ("What will the average temperature in Toledo be?" names the place of an event, and no event is about it). The first
is the sum of the default retrieval strategy; the second, the gate, is a logistic regression on how sure that sum is and
on the vector of the question without its names, so that what is learned of one person's wife holds for another's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.agents.scope.features import WEIGHTS, Lexicon, without_names, write_settings
from emend.agents.scope.logistic import Floats, sigmoid
from emend.memory.edit import content_id
from emend.memory.embeddings.embed import Embedding
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.default import DENSE, NAME_VOICE, NAMES, STEM_VOICE, STEMS
from emend.memory.retrieval.exact import ExactCorpus

NEAR_FEATURES = (
    "bias", "score", "lead", "share", "cosine", "stems", "names", "name_share", "no_names", "word_share", "rare_share",
    "meaning",
)  # fmt: skip
"""What the gate knows of the nearest text; the vector of the question without its names follows. `share` is the
logarithm of the part that the nearest text has in the sum of exp(score) over all texts; `meaning` the cosine of the
two without names."""
FORM = "gated"


class Nearest(NamedTuple):
    """The scores of all texts, the place of the best, and the gate's features of it, shape (features,)."""

    scores: NDArray[np.float64]
    place: int
    features: Floats


def read_of(questions: Sequence[str]) -> list[str]:
    """What an encoder is given of some questions: each as it is, and without its names."""
    return [*questions, *map(without_names, questions)]


class Measured:
    """Some texts, embedded and indexed once, to be compared with one question after the other."""

    def __init__(self, embedding: Embedding, texts: Sequence[str]) -> None:
        entries = [Entry(id=str(place), edit_id=str(place), text=text) for place, text in enumerate(texts)]
        self.corpus, self.lexicon = ExactCorpus.of(entries, embedding), Lexicon(texts)
        self._plain = embedding.documents([without_names(text) for text in texts])
        self._stems, self._names = STEM_VOICE(self.corpus), NAME_VOICE(self.corpus)

    def nearest(self, question: str, among: Sequence[int] | None = None) -> Nearest:
        """The nearest text to a question, of all or of those at some places."""
        plain = self.corpus.embed([without_names(question)])[0]
        chosen = np.arange(len(self.corpus.entries())) if among is None else np.asarray(among, int)
        every = (self.corpus.cosines(question), self._stems.scores(question), self._names.scores(question))
        voices = [voice[chosen].astype(np.float64) for voice in every]
        scores = DENSE * voices[0] + STEMS * voices[1] + NAMES * voices[2]
        best = int(scores.argmax())
        behind = float(np.delete(scores, best).max()) if len(scores) > 1 else 0.0
        share = -np.log(np.exp(scores - scores[best]).sum())
        told = [1.0, scores[best], scores[best] - behind, share, *(voice[best] for voice in voices)]
        shares = self.lexicon.features(question)[chosen[best]]
        meaning = [self._plain[chosen[best]] @ plain]
        features = np.concatenate([told, shares, meaning, plain * len(plain) ** 0.5]).astype(np.float32)
        return Nearest(scores, int(chosen[best]), features)


@dataclass(frozen=True)
class GatedScope:
    """The gate over an encoder: `spec` is how `load_embedding` calls it; `weights` has those of `NEAR_FEATURES` first.

    The nearest text has the gate's probability; another one that, times exp(its score - the nearest one's).
    """

    embedding: Embedding
    spec: str
    weights: Floats
    threshold: float = 0.5
    trained_on: str = ""

    @property
    def identity(self) -> str:
        """What decides the probabilities: the encoder and a digest of the weights."""
        return f"{FORM}/{self.embedding.identity}/{content_id(np.round(self.weights, 5).tolist())[:8]}"

    @property
    def features(self) -> int:
        """How many weights there are: with one for each dimension of the encoder."""
        return len(NEAR_FEATURES) + int(self.embedding.queries(["?"]).shape[1])

    def over(self, texts: Sequence[str]) -> Callable[[str], Floats]:
        """A function from a question to one probability per text, shape (len(texts),)."""
        measured = Measured(self.embedding, texts) if texts else None

        def probabilities(question: str) -> Floats:
            if measured is None:
                return np.zeros(0, np.float32)
            found = measured.nearest(question)
            gate = float(sigmoid(found.features @ self.weights))
            return np.asarray(gate * np.exp(found.scores - found.scores.max()), np.float32)

        return probabilities

    def save(self, folder: Path) -> None:
        """Writes weights (safetensors) and settings (JSON) into a folder, which is made if need be."""
        from safetensors.numpy import save_file

        folder.mkdir(parents=True, exist_ok=True)
        save_file({"weights": self.weights}, folder / WEIGHTS)
        told = {"form": FORM, "embedding": self.spec, "encoder": self.embedding.identity}
        write_settings(folder, told | {"threshold": self.threshold, "trained_on": self.trained_on})
