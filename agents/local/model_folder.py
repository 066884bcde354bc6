"""Validation, loading and digests of model folders."""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from emend.agents.local.offload import DeviceMap, check_map, computes_on_gpu, is_offloaded
from emend.agents.local.token_ids import first_line, load_tokenizer, pass_interrupt
from emend.memory.embeddings.model_load import model_load
from emend.memory.errors import BadData, BadSettings, ModelError
from emend.memory.json_files import read_json
from emend.memory.registry import nearest

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "tekken.json",
)


class LoadedModel(NamedTuple):
    """A model with its tokenizer, window, padding token and end tokens."""

    model: Any
    tokenizer: Any
    window: int | None
    """Maximum number of positions; None if the model has no limit."""
    pad: int
    """The padding token; any token will do, since it is masked."""
    ends: list[int]
    """Tokens that end a reply."""


def load_folder(
    folder: Path, dtype: str, device: str, device_map: DeviceMap | None = None
) -> LoadedModel:
    """Load a model in evaluation mode and its tokenizer, without network access.

    Raises:
        ModelError: a file is missing or unreadable, or the model does not fit on the device.
        BadSettings: unknown dtype, device or map.
        MissingExtra: a map needs accelerate.
    """
    _check(folder)
    if device_map is not None:
        check_map(device_map, device)
    where = _device(device)
    on_cpu = where.type == "cpu" if device_map is None else not computes_on_gpu(device_map)
    with model_load():
        tokenizer = load_tokenizer(folder)
        model = _model(folder, _dtype(dtype, on_cpu), device_map).eval()
        model = move_to_device(model, where) if device_map is None else model
        if is_offloaded(model):  # offloading replaces the parameters in each pass
            model.requires_grad_(False)
    rows = model.get_input_embeddings().num_embeddings
    if (
        tokenizer.pad_token_id is None or tokenizer.pad_token_id >= rows
    ):  # some tokenizers add a token that the model does not have
        tokenizer.pad_token = tokenizer.eos_token
    ends = model.generation_config.eos_token_id
    ends = tokenizer.eos_token_id if ends is None else ends
    # a stored repetition penalty would change greedy decoding
    model.generation_config = GenerationConfig()
    window = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return LoadedModel(
        model,
        tokenizer,
        window if isinstance(window, int) and window > 0 else None,
        tokenizer.pad_token_id or 0,
        [] if ends is None else [ends] if isinstance(ends, int) else list(ends),
    )


def move_to_device(model: Any, device: torch.device) -> Any:
    """Move the model to a device.

    Raises:
        ModelError: the device's memory is full.
    """
    try:
        return model.to(device)
    except torch.OutOfMemoryError as error:
        raise ModelError(
            f"the model does not fit on {device}: {str(error).partition('. ')[0]}. Free its "
            "memory, or set model.dtype=bfloat16, model.device=cpu or model.device_map=auto."
        ) from error


def weights_digest(folder: Path) -> str:
    """Return 16 hex digits of the SHA-256 of the folder's weights, configuration and tokenizer."""
    total = hashlib.sha256()
    names = {"config.json", "tokenizer_config.json", *TOKENIZER_FILES}
    # Older checkpoints, such as CRAG's evaluator, are only published in PyTorch's format.
    weights = list(folder.glob("*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    for path in sorted(folder.iterdir()):
        if path in weights or path.name in names:
            with path.open("rb") as file:
                total.update(
                    f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode()
                )
    return total.hexdigest()[:16]


def _check(folder: Path) -> None:
    remedy = "name a folder written by `save_pretrained` of model and tokenizer"
    if other := _other_format(folder):
        raise ModelError(f"model folder {folder} {other}")
    if not folder.is_dir():
        raise ModelError(f"model folder {folder} is not a folder: {remedy}.")
    if odd := [
        path.name for path in sorted(folder.iterdir()) if not path.is_file() and not path.is_dir()
    ]:
        raise ModelError(
            f"model folder {folder} contains a broken link, a FIFO or a device, '{odd[0]}': "
            "remove it."
        )
    needed = {
        "config.json": ["config.json"],
        "tokenizer": TOKENIZER_FILES,
        "*.safetensors": ["*.safetensors"],
    }
    for part, names in needed.items():
        if not any(any(folder.glob(name)) for name in names):
            raise ModelError(f"model folder {folder} has no {part}: {remedy}.")


def _other_format(folder: Path) -> str:
    """Return which other format a path holds instead of a full model, with the remedy; "" if
    unknown.
    """
    files = [folder] if folder.is_file() else sorted(folder.glob("*.gguf"))
    if files and files[0].suffix.lower() == ".gguf" and not any(folder.glob("*.safetensors")):
        return (
            f"is in GGUF format: convert it with emend model get gguf:{files[0]}, then name the "
            "new folder as hf:FOLDER."
        )
    adapter = folder / "adapter_config.json"
    if adapter.is_file() and not (folder / "config.json").exists():
        base = ""
        with suppress(BadData):
            settings = read_json(adapter, links=True)
            base = ""
            if isinstance(settings, dict):
                base = str(settings.get("base_model_name_or_path") or "")
        named = f"the base model, hf:{base}" if base else "the base model"
        return (
            f"is a PEFT adapter: name {named}, or a folder in which both were merged by peft's "
            "merge_and_unload."
        )
    return ""


def _model(folder: Path, dtype: Any, device_map: DeviceMap | None) -> Any:
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            device_map=device_map,
        )
    except Exception as error:  # noqa: BLE001  the library raises all kinds
        pass_interrupt(error)
        mapped = ", and model.device_map must give each of its modules a device"
        if device_map is None:
            mapped = ""
        raise ModelError(
            f"the model in {folder} cannot be loaded: {first_line(error)}. It must be a causal "
            "language model that the installed transformers supports, without custom "
            f"code{mapped}."
        ) from error
    model, info = loaded
    if info["missing_keys"]:  # transformers would silently initialise missing tensors at random
        raise ModelError(
            f"the weights in {folder} lack {len(info['missing_keys'])} tensors, first "
            f"'{sorted(info['missing_keys'])[0]}': take a complete copy of the model."
        )
    return model


def devices() -> dict[str, str]:
    """Return descriptions of the available devices by torch's name."""
    available = {"cpu": f"{torch.get_num_threads()} threads"}
    for place in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(place)
        available[f"cuda:{place}"] = f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB"
    if torch.backends.mps.is_available():
        available["mps"] = "Apple GPU"
    return available


def _device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error)
        raise BadSettings(
            f"device '{device}' cannot be used: {reason}. Give cpu, cuda, mps or auto."
        ) from error


def is_half_precision(dtype: str) -> bool:
    """Return whether a model is loaded in half precision with this setting; with `auto`, most
    models on a GPU are.
    """
    return torch.cuda.is_available() if dtype == "auto" else dtype in ("bfloat16", "float16")


def _dtype(dtype: str, on_cpu: bool) -> Any:
    if dtype == "auto":
        return torch.float32 if on_cpu else "auto"
    if dtype not in DTYPES:
        raise BadSettings(f"unknown dtype '{dtype}': {nearest(dtype, ['auto', *DTYPES])}")
    return DTYPES[dtype]
