"""The interface of scope classifiers, and the files that a trained one is saved in."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from emend.agents.scope.logistic import Floats
from emend.memory.edit import content_id
from emend.memory.embeddings.embed import Embedding

SETTINGS, WEIGHTS = "scope.json", "scope.safetensors"


class Scope(Protocol):
    """Decides which new fact, if any, a question is about (SERAC, Mitchell et al. 2022, section 3)."""

    @property
    def identity(self) -> str:
        """A name that changes whenever the probabilities may change."""
        ...

    @property
    def threshold(self) -> float:
        """The least probability at which a question is about a text."""
        ...

    def over(self, texts: Sequence[str]) -> Callable[[str], Floats]:
        """A function from a question to the probability, for each of these texts, that the question is about it."""
        ...


@dataclass(frozen=True)
class LinearScope:
    """Fields and file format of the classifiers that are linear in features of a question and a text.

    `spec` is the embedding's name for `load_embedding`, `trained_on` a digest of the training data.
    """

    form: ClassVar[str]
    embedding: Embedding
    spec: str
    weights: Floats
    threshold: float = 0.5
    trained_on: str = ""

    @property
    def identity(self) -> str:
        """The form, the embedding and a digest of the weights."""
        return f"{self.form}/{self.embedding.identity}/{content_id(np.round(self.weights, 5).tolist())[:8]}"

    def save(self, folder: Path) -> None:
        """Write weights (safetensors) and settings (JSON) to a folder, which is created if necessary."""
        from safetensors.numpy import save_file

        folder.mkdir(parents=True, exist_ok=True)
        save_file({"weights": self.weights}, folder / WEIGHTS)
        settings = {"form": self.form, "embedding": self.spec, "encoder": self.embedding.identity}
        write_settings(folder, settings | {"threshold": self.threshold, "trained_on": self.trained_on})


def write_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Write the settings beside a classifier's weights."""
    (folder / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def save_threshold(folder: Path, threshold: float) -> None:
    """Replace the threshold in the settings of a saved classifier."""
    settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    write_settings(folder, settings | {"threshold": threshold})
