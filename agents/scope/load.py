"""Loads a scope classifier from the folder that `emend train scope` wrote."""

import json
from pathlib import Path
from typing import Any

from emend.agents.scope.base import SETTINGS, WEIGHTS, Scope
from emend.agents.scope.features import EmbeddingScope
from emend.agents.scope.gate import GatedScope
from emend.memory.embeddings.embed import load_embedding
from emend.memory.errors import BadData, BadSettings, MissingData


def load_scope(folder: str | Path) -> Scope:
    """The classifier that `emend train scope` wrote to a folder.

    Raises:
        MissingData: the folder has none.
        BadData: its files are damaged.
        BadSettings: the installed encoder is another one.
    """
    path = Path(folder)
    try:
        settings = json.loads((path / SETTINGS).read_text(encoding="utf-8"))
        form, threshold = settings["form"], float(settings["threshold"])
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
    return _load_linear(path, settings, threshold)


def _load_linear(path: Path, settings: dict[str, Any], threshold: float) -> Scope:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        weights = load_file(path / WEIGHTS)["weights"]
    except (OSError, KeyError, SafetensorError) as error:
        raise BadData(f"'{path / WEIGHTS}' holds no weights ({error}): train the classifier again.") from error
    embedding = load_embedding(settings["embedding"])
    if embedding.identity != settings["encoder"]:
        raise BadSettings(
            f"the scope classifier in '{path}' was trained over {settings['encoder']}, and "
            f"'{settings['embedding']}' is {embedding.identity} here: install that encoder, or train it again."
        )
    kind = GatedScope if settings["form"] == GatedScope.form else EmbeddingScope
    scope = kind(embedding, settings["embedding"], weights, threshold, str(settings.get("trained_on", "")))
    if weights.shape != (scope.features,):
        raise BadData(
            f"'{path / WEIGHTS}' holds weights of shape {weights.shape}, and {scope.features} are needed: train the "
            "classifier again."
        )
    return scope
