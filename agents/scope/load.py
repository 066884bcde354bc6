"""Loading of scope classifiers: the shipped one, or one from a folder."""

import json
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from emend.agents.llm import HUB_FILES, hub_folder
from emend.agents.scope.base import SETTINGS, WEIGHTS, Scope
from emend.agents.scope.features import RelevanceFeatures
from emend.agents.scope.logistic import FEATURES, LogisticScope
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding, load_embedding
from emend.memory.errors import BadData, BadSettings, MissingData, MissingExtra
from emend.memory.paths import cache_folder

SHIPPED = "relevance.json"


def shipped_scope(memory: Embedding | None) -> LogisticScope | None:
    """Load the classifier that Emend ships, trained over MiniLM by `scripts/relevance`.

    Args:
        memory: the encoder of the edits; with a sentence encoder other than MiniLM, the edits are
            embedded again.

    Returns:
        None for a lexical memory, or without MiniLM.
    """
    if memory is None or isinstance(memory, LexicalEmbedding):
        return None
    settings = json.loads((files("emend.agents.scope") / SHIPPED).read_text(encoding="utf-8"))
    embedding = memory
    if memory.identity != settings["encoder"]:
        with suppress(MissingExtra):
            embedding = load_embedding("minilm", cache_folder("vectors"))
    if embedding.identity != settings["encoder"]:
        return None
    weights = np.asarray(
        [settings["weights"][name] for name in ("bias", *RelevanceFeatures.names)], np.float32
    )
    thresholds = {"threshold": settings["threshold"], "low": settings["lower"]}
    return LogisticScope(
        embedding, "minilm", "relevance", weights, **thresholds, trained_on=settings["trained_on"]
    )


# Prefix of the name of a classifier with ELKEN's input format.
ELKEN = "elken:"


def load_scope(folder: str | Path) -> Scope:
    """Load the classifier in a folder: one made by `emend prepare scope`, or a sequence classifier
    with one logit.

    Args:
        folder: a folder, or an id of the Hugging Face hub; after `elken:` one that reads event and
            question as one text, as ELKEN's classifiers do.

    Raises:
        MissingData: the folder does not contain a classifier.
        BadData: its files are damaged.
        BadSettings: the installed encoder differs from that of the training.
        ModelError: it cannot be downloaded from the hub, or is another type of model.
    """
    name = str(folder)
    path = hub_folder(name.removeprefix(ELKEN), HUB_FILES, "scope classifier")
    if name.startswith(ELKEN):
        from emend.agents.scope.cross_encoder import ElkenScope

        return ElkenScope(path)
    if (path / "config.json").exists() and not (path / SETTINGS).exists():
        from emend.agents.scope.cross_encoder import published_scope

        return published_scope(path)
    try:
        settings = json.loads((path / SETTINGS).read_text(encoding="utf-8"))
        form, threshold = settings["form"], float(settings["threshold"])
        if form not in ("cross-encoder", "elken", *FEATURES):
            raise ValueError(f"form '{form}'")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingData(
            f"no scope classifier in '{folder}': make one with emend prepare scope --out {folder}."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadData(
            f"'{path / SETTINGS}' is not a file of emend prepare scope: {error!r}. Train it again."
        ) from error
    if form not in FEATURES:
        from emend.agents.scope.cross_encoder import CrossEncoderScope, ElkenScope

        if form == ElkenScope.form:
            return ElkenScope(path, threshold)
        return CrossEncoderScope(path, threshold)
    return _load_logistic(path, settings, threshold)


def _load_logistic(path: Path, settings: dict[str, Any], threshold: float) -> Scope:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        weights = load_file(path / WEIGHTS)["weights"]
    except (OSError, KeyError, SafetensorError) as error:
        raise BadData(
            f"'{path / WEIGHTS}' has no readable weights ({error}): train the classifier again."
        ) from error
    spec, form = str(settings["embedding"]), settings["form"]
    embedding = load_embedding(spec, cache_folder("vectors"))
    if embedding.identity != settings["encoder"]:
        raise BadSettings(
            f"the scope classifier in '{path}' was trained with {settings['encoder']}, and "
            f"'{spec}' is {embedding.identity} here: install that encoder, or train it again."
        )
    trained_on, low = str(settings.get("trained_on", "")), settings.get("lower")
    try:
        return LogisticScope(embedding, spec, form, weights, threshold, low, trained_on)
    except BadData as error:
        raise BadData(f"'{path / WEIGHTS}': {error} Train the classifier again.") from error
