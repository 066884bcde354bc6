"""The interface of scope classifiers."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from emend.memory.embeddings.embed import Embedding
from emend.memory.files import write_export
from emend.memory.retrieval.base import Corpus, Entry
from emend.memory.retrieval.exact import ExactCorpus

Floats = NDArray[np.float32]
SETTINGS, WEIGHTS = "scope.json", "scope.safetensors"


class Scope(Protocol):
    """Classifier that decides which new fact, if any, a question is about (SERAC, Mitchell et al.
    2022, section 3).
    """

    pairwise: ClassVar[bool]
    """True if the probability of a text does not depend on the other texts."""

    @property
    def identity(self) -> str:
        """Id that changes whenever the probabilities may change."""

    @property
    def threshold(self) -> float:
        """Minimum probability at which a question is about a text."""

    @property
    def lower(self) -> float:
        """Minimum probability at which a question may be about a text, CRAG's lower threshold."""

    def over(self, corpus: Corpus) -> Callable[[str], Floats]:
        """Return a function from a question to one probability per entry, shape
        (len(corpus.entries()),).
        """


def embed_corpus(texts: Sequence[str], embedding: Embedding) -> ExactCorpus:
    """Embed texts and return them as a corpus."""
    return ExactCorpus.of(
        [Entry(id=str(n), edit_id=str(n), text=text) for n, text in enumerate(texts)], embedding
    )


def sigmoid(scores: Any) -> Floats:
    """Convert log-odds to probabilities."""
    return np.asarray(1 / (1 + np.exp(-np.clip(scores, -30, 30))), np.float32)


def write_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Write the settings next to a classifier's weights."""
    write_export(folder / SETTINGS, json.dumps(settings, indent=1) + "\n")


def save_threshold(folder: Path, threshold: float) -> None:
    """Replace the threshold in the settings of a saved classifier."""
    settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    write_settings(folder, settings | {"threshold": threshold})
