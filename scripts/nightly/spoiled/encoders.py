"""Attacks by adapters of sentence encoders that somebody else made, or that are damaged."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from emend.memory.embeddings.embed import load_embedding
from emend.memory.embeddings.lora_adapter import SETTINGS, WEIGHTS
from scripts.nightly.spoiling import Case
from tests.memory.tiny import tiny_bert

Tensors = dict[str, Any]
Change = Callable[[Path], None]
QUERY = "base_model.model.encoder.layer.0.attention.self.query"
NORM = "base_model.model.encoder.layer.0.output.LayerNorm"
WORDS = "base_model.model.embeddings.word_embeddings"
DOWN, UP = ".lora_A.weight", ".lora_B.weight"
TEXTS = ("the capital of a river", "a city in")


def encoder_adapters(root: Path, count: int, rng: Random) -> Iterator[Case]:
    """Yield uses of an encoder with an odd adapter: it is refused, or changes the vectors, which stay unit vectors."""
    encoder = tiny_bert(root / "encoder")
    plain = load_embedding(str(encoder)).documents(TEXTS)
    write_adapter(root / "adapter")
    assert not np.allclose(load_embedding(f"{encoder}+{root / 'adapter'}").documents(TEXTS), plain, atol=1e-3)
    for number, (name, change) in enumerate(islice(cycle(changes().items()), count)):
        folder = Path(shutil.copytree(root / "adapter", root / str(number)))
        change(folder)
        yield f"{name} {number}", partial(embed, encoder, folder, plain)


def write_adapter(folder: Path) -> None:
    """Write a LoRA adapter of rank 4 for the query projection of a tiny encoder."""
    folder.mkdir()
    torch.manual_seed(1)
    save_file({QUERY + DOWN: torch.randn(4, 16), QUERY + UP: torch.randn(16, 4)}, folder / WEIGHTS)
    settings = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["query"], "bias": "none"}
    (folder / SETTINGS).write_text(json.dumps(settings))


def embed(encoder: Path, folder: Path, plain: Any) -> None:
    """Embed texts with an adapter; vectors of an accepted one are finite, of length 1, and other than without it."""
    vectors = load_embedding(f"{encoder}+{folder}").documents(TEXTS)
    assert np.isfinite(vectors).all(), "vectors are not finite"
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3), "vectors are not of length 1"
    assert not np.allclose(vectors, plain, atol=1e-4), "the adapter has no effect"


def changes() -> dict[str, Change]:
    """Return ways of making an adapter odd, by name."""
    huge = 10**400
    fields: dict[str, dict[str, Any]] = {
        "r of 0": {"r": 0}, "r below 0": {"r": -1}, "r of 400 digits": {"r": huge}, "r as text": {"r": "4"},
        "r not a number": {"r": float("nan")}, "r of another rank": {"r": 64}, "no r": {"r": None},
        "alpha not a number": {"lora_alpha": float("nan")}, "alpha infinite": {"lora_alpha": float("inf")},
        "alpha of 400 digits": {"lora_alpha": huge}, "alpha of 1e308": {"lora_alpha": 1e308},
        "alpha as list": {"lora_alpha": [8]}, "alpha of 0": {"lora_alpha": 0}, "r and alpha true": {"r": True},
        "another method": {"peft_type": "LOHA"}, "transposed": {"fan_in_fan_out": True},
        "biases of LoRA": {"lora_bias": True}, "root of r below 0": {"use_rslora": True, "r": -4},
        "layers repeated": {"layer_replication": [[0, 1], [0, 1]]},
    }  # fmt: skip
    result: dict[str, Change] = {name: partial(with_fields, more) for name, more in fields.items()}
    result |= {name: partial(with_tensors, change) for name, change in tensor_changes().items()}
    texts = {"deep settings": b"[" * 100_000, "settings in UTF-16": '{"r": 4}'.encode("utf-16"), "no settings": b""}
    result |= {name: partial(with_bytes, SETTINGS, content) for name, content in texts.items()}
    lie = json.dumps({QUERY + DOWN: {"dtype": "F32", "shape": [2**20, 2**20], "data_offsets": [0, 2**42]}}).encode()
    return result | {
        "settings of 300 MB": partial(with_bytes, SETTINGS, b'{"r": 4, "x": "' + b"y" * 300_000_000 + b'"}'),
        "pickle": partial(with_bytes, WEIGHTS, b"\x80\x04cos\nsystem\n(S'touch owned'\ntR."),
        "header that lies": partial(with_bytes, WEIGHTS, len(lie).to_bytes(8, "little") + lie),
        "FIFO for weights": with_fifo,
        "sparse weights": lambda folder: os.truncate(folder / WEIGHTS, 2**40),
    }


def tensor_changes() -> dict[str, Callable[[Tensors], Tensors]]:
    """Return changes of an adapter's tensors by name."""
    nan = float("nan")
    return {
        "down not a number": lambda held: held | {QUERY + DOWN: held[QUERY + DOWN] * nan},
        "up infinite": lambda held: held | {QUERY + UP: held[QUERY + UP] / 0},
        "numbers of 1e38": lambda held: {name: torch.full_like(tensor, 1e38) for name, tensor in held.items()},
        "no tensor": lambda held: {"x": torch.zeros(1)},
        "down alone": lambda held: {QUERY + DOWN: held[QUERY + DOWN]},
        "up alone": lambda held: {QUERY + UP: held[QUERY + UP]},
        "one row for all": lambda held: held | {QUERY + UP: held[QUERY + UP][:1].contiguous()},
        "one column for all": lambda held: held | {QUERY + DOWN: held[QUERY + DOWN][:, :1].contiguous()},
        "three dimensions": lambda held: {name: tensor[None].contiguous() for name, tensor in held.items()},
        "vectors": lambda held: {name: tensor.flatten()[:4].contiguous() for name, tensor in held.items()},
        "whole numbers": lambda held: {name: tensor.int() for name, tensor in held.items()},
        "complex numbers": lambda held: {name: tensor.to(torch.complex64) for name, tensor in held.items()},
        "of a norm": lambda held: {NORM + DOWN: torch.ones(1, 16), NORM + UP: torch.ones(1, 1)},
        "of embeddings": lambda held: {WORDS + ".lora_embedding_A": torch.ones(4, 68)},
        "names of another format": lambda held: {
            name.replace(".weight", ".default.weight"): tensor for name, tensor in held.items()
        },
        "some of another format": lambda held: held | {QUERY + ".lora_magnitude_vector": torch.ones(16)},
        "class as module": lambda held: {"base_model.model.__class__" + part: torch.ones(2, 2) for part in (DOWN, UP)},
        "root as module": lambda held: {part.removeprefix("."): torch.ones(2, 2) for part in (DOWN, UP)},
        "numbers of 1e15": lambda held: {name: torch.full_like(tensor, 1e15) for name, tensor in held.items()},
        "escape sequence": lambda held: {
            name.replace("query", "\x1b[2J\n"): tensor for name, tensor in held.items()
        },
        "rank 200,000": lambda held: {QUERY + DOWN: torch.ones(200_000, 16), QUERY + UP: torch.ones(16, 200_000)},
        "name of 10 MB": lambda held: held | {"base_model.model." + "x" * 10_000_000 + DOWN: torch.ones(4, 16)},
    }  # fmt: skip


def with_fields(more: dict[str, Any], folder: Path) -> None:
    """Change settings of an adapter."""
    settings = json.loads((folder / SETTINGS).read_text())
    (folder / SETTINGS).write_text(json.dumps(settings | more))


def with_tensors(change: Callable[[Tensors], Tensors], folder: Path) -> None:
    """Change the tensors of an adapter."""
    held = load_file(folder / WEIGHTS)
    save_file({name: tensor.clone() for name, tensor in change(held).items()}, folder / WEIGHTS)


def with_bytes(name: str, content: bytes, folder: Path) -> None:
    """Write a file of an adapter anew."""
    (folder / name).write_bytes(content)


def with_fifo(folder: Path) -> None:
    """Put a FIFO where the weights were."""
    (folder / WEIGHTS).unlink()
    os.mkfifo(folder / WEIGHTS)
