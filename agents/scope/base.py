"""The interface of scope classifiers, and the files that a trained one is saved in."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from emend.agents.scope.logistic import Floats

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


def write_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Write the settings beside a classifier's weights."""
    (folder / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def save_threshold(folder: Path, threshold: float) -> None:
    """Replace the threshold in the settings of a saved classifier."""
    settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    write_settings(folder, settings | {"threshold": threshold})


def save_linear(folder: Path, form: str, scope: Any) -> None:
    """Write a linear classifier: weights (safetensors) and settings (JSON); the folder is created if necessary."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file({"weights": scope.weights}, folder / WEIGHTS)
    settings = {"form": form, "embedding": scope.spec, "encoder": scope.embedding.identity}
    write_settings(folder, settings | {"threshold": scope.threshold, "trained_on": scope.trained_on})
