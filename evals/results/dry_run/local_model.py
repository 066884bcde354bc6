"""Properties of a local model that are known before loading: folder, size, and editor settings."""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from emend.agents.gguf.catalogue import CATALOGUE, default_folder
from emend.agents.llm import HUB_ID, is_local_spec
from emend.agents.tiny import FOLDER as TINY
from emend.editors.hyperparameters import shipped_settings, shipped_tables
from emend.editors.memory_need import billions_of_parameters
from emend.memory.embeddings.hub import is_cached


def model_folder(spec: str) -> Path:
    """Return the folder of a local model's files, whether or not they exist."""
    if spec == "tiny":
        return TINY
    if spec in CATALOGUE:
        return default_folder(spec)
    return Path(spec.partition(":")[2] or spec).expanduser()


def absence(spec: str) -> str:
    """Return why a run cannot read a local model's files at once; "" if they are on this machine.

    Nothing is asked over the network.
    """
    provider, _, name = spec.partition(":")
    if not is_local_spec(spec) or model_folder(spec).is_dir():
        return ""
    if provider in CATALOGUE:
        return f"the model is not on this machine: fetch it with: emend model get {provider}"
    if not HUB_ID.fullmatch(name):
        return f"the model's folder '{name}' does not exist"
    if is_cached(name):
        return ""
    return "the model is not in the Hugging Face cache: a run downloads it first"


def has_chat_template(spec: str) -> bool:
    """Return False if the model is local, its files exist and they have no chat template."""
    folder = model_folder(spec)
    if not is_local_spec(spec) or not folder.is_dir():
        return True
    settings = folder / "tokenizer_config.json"
    is_in_settings = settings.is_file() and '"chat_template"' in settings.read_text("utf-8")
    return is_in_settings or (folder / "chat_template.jinja").is_file()


def parameters_of(spec: str) -> float | None:
    """Return a local model's number of parameters, from its files or its name; None if unknown."""
    name = spec.partition(":")[2]
    try:
        if count := sum(_count(file) for file in model_folder(spec).glob("*.safetensors")):
            return float(count)
    except (OSError, SafetensorError):
        return None
    billions = billions_of_parameters(name)
    if billions is None:
        return None
    return billions * 1e9


def _count(file: Path) -> int:
    with safe_open(file, "pt") as tensors:
        names = tensors.keys()
        return sum(prod(tensors.get_slice(name).get_shape()) for name in names)


def editor_settings(
    editor: str, overrides: Mapping[str, dict[str, Any]], architecture: Any
) -> dict[str, Any]:
    """Return an editor's settings in this run; without shipped settings only those of the run."""
    if shipped_tables(editor):
        shipped = shipped_settings(editor, architecture)
    else:
        shipped = {}
    return shipped | overrides.get(editor, {})
