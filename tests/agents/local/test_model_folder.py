import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.utils import logging

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.model_folder import load_folder, move_to_device
from emend.agents.tiny import model_folder
from emend.memory.errors import BadSettings, ModelError


@pytest.fixture
def copy(random_folder, tmp_path):
    """A complete model folder that a test may damage."""
    return shutil.copytree(random_folder(), tmp_path / "copy")


def test_not_a_folder(tmp_path):
    with pytest.raises(ModelError, match="missing is not a folder: name a folder"):
        CausalLM(tmp_path / "missing")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "has no config.json"),
        ("tokenizer.json", "has no tokenizer: .*save_pretrained"),
        ("model.safetensors", "has no .*safetensors"),
    ],
)
def test_missing_file_is_named_with_the_remedy(copy, name, message):
    (copy / name).unlink()
    with pytest.raises(ModelError, match=message):
        CausalLM(copy)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_damaged_file_is_a_model_error(copy, name):
    (copy / name).write_bytes(b"{ torn")
    with pytest.raises(ModelError, match=r"cannot be (read|loaded)"):
        CausalLM(copy)


@pytest.mark.parametrize("normalised", [(), ("What is",)])
def test_a_tokenizer_whose_library_panics_is_a_model_error(copy, normalised):
    """An insertion at the end of a text is an index out of bounds to its library."""
    fields = json.loads((copy / "tokenizer.json").read_text())
    insertion = {"type": "Replace", "pattern": {"String": ""}, "content": "é"}
    fields["normalizer"] = {"type": "Sequence", "normalizers": [insertion, {"type": "ByteLevel"}]}
    token = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False) | {"normalized": True}
    fields["added_tokens"] += [token | {"id": 10**6, "content": text} for text in normalised]
    (copy / "tokenizer.json").write_text(json.dumps(fields))
    with pytest.raises(ModelError, match="the tokenizer of .* fails.*publisher"):
        CausalLM(copy)


def test_code_of_the_folder_is_never_run(copy):
    config = json.loads((copy / "config.json").read_text())
    named = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "own", "auto_map": named}))
    (copy / "own.py").write_text(f"open({str(copy / 'ran')!r}, 'w')")
    with pytest.raises(ModelError, match="cannot be"):
        CausalLM(copy)
    assert not (copy / "ran").exists()


def test_missing_tensor_is_an_error(copy):
    tensors = load_file(copy / "model.safetensors")
    del tensors["model.layers.1.mlp.down_proj.weight"]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lack 1 tensors, first 'model.layers.1.mlp.down_proj.weight'"):
        CausalLM(copy)


def test_unknown_dtype_and_device(copy):
    with pytest.raises(BadSettings, match="did you mean 'float32'"):
        CausalLM(copy, dtype="float23", device="cpu")
    with pytest.raises(BadSettings, match="device 'gpu' cannot be used"):
        CausalLM(copy, device="gpu")


class LargeModel(torch.nn.Module):
    """A model that fits no device."""

    def to(self, *_: Any, **__: Any) -> "LargeModel":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 46.00 MiB. GPU 0 has a total of 79.18 GiB")


def test_full_gpu_is_an_error_with_the_remedy():
    with pytest.raises(ModelError, match=r"the model does not fit on cuda:1: CUDA out of memory\. Free .*model\.dtype"):
        move_to_device(LargeModel(), torch.device("cuda:1"))


def test_cpu_model_is_float32_by_default(copy):

    assert CausalLM(copy, device="cpu").model.dtype == torch.float32
    assert CausalLM(copy, device="cpu", dtype="bfloat16").model.dtype == torch.bfloat16


def test_fingerprint_follows_weights_tokenizer_and_dtype_but_not_the_place(copy, tmp_path):
    first = CausalLM(copy, device="cpu").fingerprint
    moved = shutil.copytree(copy, tmp_path / "elsewhere" / "copy")
    assert CausalLM(moved, device="cpu").fingerprint == first
    assert CausalLM(moved, device="cpu", dtype="bfloat16").fingerprint != first
    tensors = load_file(moved / "model.safetensors")
    tensors["model.norm.weight"] += 1
    save_file(tensors, moved / "model.safetensors", metadata={"format": "pt"})
    assert CausalLM(moved, device="cpu").fingerprint != first


def test_loading_prints_nothing_and_restores_the_settings_of_transformers(copy, capfd):
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    CausalLM(copy, device="cpu")
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == (level, bars)


@pytest.mark.parametrize(
    ("files", "path", "remedy"),
    [
        (
            {"adapter_config.json": '{"base_model_name_or_path": "org/base"}', "adapter_model.safetensors": ""},
            "",
            "adapter.*hf:org/base",
        ),
        ({"adapter_config.json": "{ torn", "adapter_model.safetensors": ""}, "", "adapter: name the base model, or"),
        ({"model.Q4_K_M.gguf": "GGUF", "config.json": "{}"}, "", "emend model get gguf:.*model.Q4_K_M.gguf"),
        ({"model.gguf": "GGUF"}, "model.gguf", "emend model get gguf:.*model.gguf"),
    ],
)
def test_another_format_is_named_with_the_remedy(files, path, remedy, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(ModelError, match=remedy):
        CausalLM(tmp_path / path)


@pytest.mark.slow
def test_threads_that_load_models_at_once_get_whole_ones_in_their_own_dtype() -> None:
    gate, dtypes = threading.Barrier(4), ("float32", "bfloat16", "float32", "bfloat16")
    expected = {dtype: _sums(load_folder(model_folder(), dtype, "cpu").model) for dtype in set(dtypes)}

    def load(dtype: str) -> list[bool]:
        gate.wait()
        models = [load_folder(model_folder(), dtype, "cpu").model for _ in range(3)]
        return [_sums(model) == expected[dtype] for model in models]

    with ThreadPoolExecutor(len(dtypes)) as pool:
        assert [all(equal) for equal in pool.map(load, dtypes)] == [True] * len(dtypes)


def _sums(model: Any) -> dict[str, tuple[torch.dtype, float]]:
    tensors = chain(model.state_dict().items(), model.named_buffers())
    return {name: (tensor.dtype, float(tensor.double().sum())) for name, tensor in tensors}
