"""Conversion of GGUF files into model folders that `hf:` loads, in float32."""

import errno
import importlib.util
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from emend.memory.distribution import install_command
from emend.memory.embeddings.model_load import model_load
from emend.memory.errors import MissingExtra, ModelError
from emend.memory.files import tensor_write


def convert(gguf: Path, folder: Path) -> None:
    """Write the model and tokenizer of a GGUF file into a folder, with weights dequantised to
    float32.

    Raises:
        MissingExtra: the packages `gguf` or `accelerate` are not installed.
        ModelError: transformers cannot read the file.
    """
    for package in ("gguf", "accelerate"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"GGUF files need the package {package}: {install_command('gguf')}.")
    try:
        _check(gguf)
        with model_load(), _without_kernels():
            _convert(gguf, folder)
    except ModelError:
        raise
    except struct.error as error:
        raise _unreadable(gguf, "it is truncated") from error
    except Exception as error:  # noqa: BLE001  a broken file raises all kinds
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        raise _unreadable(
            gguf, " ".join(str(error).split())[:300] or type(error).__name__
        ) from error


def _check(gguf: Path) -> None:
    """Reject a damaged GGUF file before its numbers are used to allocate memory."""
    from transformers.integrations.gguf import is_gguf_arch_supported  # type: ignore[attr-defined]
    from transformers.integrations.gguf.reader import GgufHeader, read_gguf_metadata

    if not gguf.is_file():
        raise ModelError(f"there is no GGUF file {gguf}: check the name.")
    with gguf.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise _unreadable(gguf, "it is not a GGUF file")
    metadata, tensors = read_gguf_metadata(str(gguf))
    # transformers would create a model of its default size, with billions of parameters
    if not tensors:
        raise _unreadable(gguf, "it has no tensors")
    if int(metadata.get(f"{metadata['general.architecture']}.block_count", 0)) > len(tensors):
        raise _unreadable(gguf, "it names more layers than it has tensors")
    if not is_gguf_arch_supported(metadata["general.architecture"]):
        # read with the package gguf, which supports more quantisations and checks the sizes
        return
    header = GgufHeader.from_file(str(gguf))
    end = max((header.data_start + each.offset + each.nbytes for each in header.tensors), default=0)
    if end > gguf.stat().st_size:
        raise _unreadable(gguf, f"it is truncated: {gguf.stat().st_size} bytes of {end}")


@contextmanager
def _without_kernels() -> Iterator[None]:
    """Keep transformers from loading compiled kernels for GGUF files.

    Even for dequantised weights it calls the package `kernels`, which downloads and runs code from
    the hub, and no setting of `from_pretrained` prevents that.
    """
    kernels: Any = import_module("transformers.integrations.gguf.kernels")
    before = kernels._gguf_kernel, kernels.is_kernels_available
    kernels._gguf_kernel, kernels.is_kernels_available = False, lambda *_: False
    try:
        yield
    finally:
        kernels._gguf_kernel, kernels.is_kernels_available = before


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    loaded: Any = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
        output_loading_info=True,
        local_files_only=True,
        trust_remote_code=False,
    )
    model, info = loaded
    if missing := sorted({*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])}):
        raise _unreadable(gguf, f"it lacks {len(missing)} tensors, first '{missing[0]}'")
    tokenizer = AutoTokenizer.from_pretrained(
        gguf.parent, gguf_file=gguf.name, local_files_only=True, trust_remote_code=False
    )
    # the weights are dequantised now, and a model marked as quantised cannot be saved
    model.hf_quantizer = None
    with tensor_write(folder):
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _unreadable(gguf: Path, reason: str) -> ModelError:
    return ModelError(
        f"GGUF file {gguf.name} cannot be converted: {reason}. Take a whole file of an "
        "architecture and quantisation that the installed transformers reads."
    )
