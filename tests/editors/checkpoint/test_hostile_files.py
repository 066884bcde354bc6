"""Deltas, edited models and covariances from strangers: nothing runs, and each is whole or ends in a clean error."""

import json
import os
import random
import stat
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from emend.agents.llm import load_model
from emend.editors.base import NO_COST, EditorContext
from emend.editors.checkpoint.deltas import read_delta, read_manifest, write_delta
from emend.editors.checkpoint.edited_model import SUBFOLDER, revert, save_edited
from emend.editors.conformance import CAPITAL
from emend.editors.numerics.collect_covariance import read_counts, read_layer
from emend.editors.numerics.tensor_files import cached_tensor, sha256_of
from emend.editors.registry import EDITORS
from emend.memory.errors import BadData, EmendError, ModelError
from tests.editors.numerics.covariances import collected
from tests.fakes import tiny_random_lm
from tests.params import first_quick

SETTINGS = {"layers": [0], "v_num_grad_steps": 2, "prefixes": ["So. "], "covariance": "identity"}


@pytest.fixture
def model(random_model) -> Any:
    return random_model()


@pytest.fixture
def delta(model, tmp_path):
    editor: Any = EDITORS.load("rome")(EditorContext(model, settings=SETTINGS))
    write_delta(tmp_path / "delta", editor.solve([CAPITAL]), editor, model.lm, [CAPITAL], NO_COST, {"emend": "0"})
    return tmp_path / "delta"


def saved(model, delta, folder):
    save_edited(model.lm, read_delta(delta, model.lm), read_manifest(delta), folder)
    return folder


def sign(folder, name="delta.safetensors", manifest="manifest.json"):
    """Write the file's digest into its manifest, as whoever made both would."""
    told = json.loads((folder / manifest).read_text("utf-8"))
    (folder / manifest).write_text(json.dumps(told | {"sha256": sha256_of(folder / name)}), "utf-8")


def with_header(file, change):
    """Change the header of a safetensors file: eight bytes of length, then JSON."""
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = change(json.loads(content[8 : 8 + size]))
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


def every(header, **fields):
    return {name: entry | fields for name, entry in header.items()}


HEADERS = [
    lambda header: b"{",
    lambda header: b"[" * 100_000,
    lambda header: [],
    lambda header: every(header, shape=[-1, 4]),
    lambda header: every(header, shape=[2**62, 4]),
    lambda header: every(header, dtype="Z99"),
    lambda header: every(header, data_offsets=[0, 2**63]),
    lambda header: every(header, data_offsets=[9, 3]),
    lambda header: {f"../../{name}": entry for name, entry in header.items()},
    lambda header: header | {"__metadata__": {"deep": "x" * 10_000}},
]


@pytest.mark.parametrize("change", first_quick(HEADERS, 3))
def test_a_signed_delta_with_an_odd_header_is_refused_or_whole(model, delta, change):
    with_header(delta / "delta.safetensors", change)
    sign(delta)
    try:
        assert read_delta(delta, model.lm)
    except BadData as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("length", [0, 2**24, 2**63, 2**64 - 1])
def test_a_header_of_an_impossible_length_is_refused(model, delta, length):
    file = delta / "delta.safetensors"
    file.write_bytes(length.to_bytes(8, "little") + file.read_bytes()[8:])
    sign(delta)
    with pytest.raises(BadData, match="cannot be read"):
        read_delta(delta, model.lm)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"model.layers.0.mlp.down_proj:left": torch.ones(32, 2)}, "is not part of a delta"),
        ({"model.layers.0.mlp.down_proj:right": torch.ones(2, 64)}, "is not part of a delta"),
        ({"model.layers.0.mlp.down_proj:left": torch.ones(3), "model.layers.0.mlp.down_proj:right": torch.ones(3)},
         "is not part of a delta"),
        ({"model.layers.0.mlp.down_proj:left": torch.ones(32, 2),
          "model.layers.0.mlp.down_proj:right": torch.ones(3, 64)}, "is not part of a delta"),
        ({"model.norm.weight:whole": torch.ones(3)}, "has shape"),
        ({"model.norm.weight:whole": torch.full((32,), torch.nan)}, "not finite"),
        ({"model.norm.weight:whole": torch.ones(32, dtype=torch.int64)}, "contains torch.int64"),
        ({"model.norm.weight:whole": torch.ones(32, dtype=torch.complex64)}, "contains torch.complex64"),
        ({"lm_head.forward:whole": torch.ones(3)}, "does not have"),
        ({"__class__": torch.ones(3)}, "is not part of a delta"),
    ],
)  # fmt: skip
def test_signed_tensors_that_no_editor_writes_are_refused(model, delta, tensors, words):
    save_file(tensors, delta / "delta.safetensors")
    sign(delta)
    with pytest.raises(BadData, match=words):
        read_delta(delta, model.lm)


def as_link(file):
    file.rename(file.with_name("elsewhere"))
    file.symlink_to(file.with_name("elsewhere"))


def as_fifo(file):
    file.unlink()
    os.mkfifo(file)


def as_folder(file):
    file.unlink()
    file.mkdir()


ODD = [as_link, as_fifo, as_folder]


@pytest.mark.parametrize("odd", first_quick(ODD))
@pytest.mark.parametrize("name", ["manifest.json", "delta.safetensors"])
def test_no_part_of_a_delta_may_be_a_link_fifo_or_folder(model, delta, odd, name):
    odd(delta / name)
    with pytest.raises(BadData, match=f"{name}' is a "):
        read_delta(delta, model.lm)


@pytest.mark.parametrize("odd", first_quick(ODD))
@pytest.mark.parametrize("name", ["record.json", "originals.safetensors"])
def test_no_original_of_an_edited_model_may_be_a_link_fifo_or_folder(model, delta, tmp_path, odd, name):
    folder = saved(model, delta, tmp_path / "edited")
    odd(folder / SUBFOLDER / name)
    with pytest.raises(BadData, match=f"{name}' is a "):
        revert(folder)


def test_revert_writes_through_no_link(model, delta, tmp_path):
    folder = saved(model, delta, tmp_path / "edited")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    (folder / ".emend-revert").symlink_to(tmp_path / "precious")
    with pytest.raises(BadData, match="symbolic link"):
        revert(folder)
    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["file"]


@pytest.mark.parametrize("harm", ["another name", "another shape", "a number alone"])
def test_signed_originals_that_do_not_fit_are_refused(model, delta, tmp_path, harm):
    folder = saved(model, delta, tmp_path / "edited") / SUBFOLDER
    (name, original), *_ = load_file(folder / "originals.safetensors").items()
    wrong = {
        "another name": {"nosuch": original.clone()},
        "another shape": {name: original[:1].clone()},
        "a number alone": {name: torch.tensor(1.0)},
    }
    save_file(wrong[harm], folder / "originals.safetensors")
    sign(folder, "originals.safetensors", "record.json")
    with pytest.raises(BadData, match="is damaged|was changed after the edits"):
        revert(folder.parent)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "pytorch_model.bin"])
def test_a_model_folder_with_a_fifo_is_refused_before_it_is_read(tmp_path, name):
    folder = tiny_random_lm("llama", tmp_path / "model", window=96)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(ModelError, match=f"a FIFO or a device, '{name}'"):
        load_model(f"hf:{folder}", device="cpu")


def test_pickled_weights_are_never_read(tmp_path):
    folder = tiny_random_lm("llama", tmp_path / "model", window=96)

    class Runs:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    (folder / "model.safetensors").unlink()
    torch.save(Runs(), folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"has no \*.safetensors"):
        load_model(f"hf:{folder}", device="cpu")
    (folder / "adapter.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_model(f"hf:{folder}", device="cpu")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("odd", first_quick(ODD))
def test_no_part_of_a_covariance_may_be_a_link_fifo_or_folder(model, tmp_path, odd):
    collected(model.lm, tmp_path)
    for name, read in (
        ("layer-0.safetensors", lambda: read_layer(tmp_path, 0, 64)),
        ("counts.json", lambda: read_counts(tmp_path)),
    ):
        odd(tmp_path / name)
        with pytest.raises(BadData, match=f"{name}' is a "):
            read()
    (tmp_path / "factor").touch()
    odd(tmp_path / "factor")
    assert torch.equal(cached_tensor(tmp_path / "factor", {}, 2, lambda: torch.eye(2)), torch.eye(2))


@pytest.mark.parametrize("seed", first_quick(range(40), 3))
def test_a_delta_of_which_some_bytes_differ_is_refused_or_whole(model, delta, seed):
    """Signed anew, so that the damage reaches the readers behind the digest."""
    rng = random.Random(seed)
    file = delta / rng.choice(["delta.safetensors", "manifest.json"])
    content = bytearray(file.read_bytes())
    for _ in range(rng.choice([1, 3, 30])):
        content[rng.randrange(min(len(content), 400))] = rng.randrange(256)
    file.write_bytes(content[: rng.choice([len(content), rng.randrange(len(content))])])
    if file.name == "delta.safetensors":
        sign(delta)
    try:
        read_delta(delta, model.lm)
    except EmendError as error:
        assert "\n" not in str(error)


def test_what_is_written_is_private_to_its_user(model, delta, tmp_path):
    folder = saved(model, delta, tmp_path / "edited")
    collected(model.lm, tmp_path / "covariance")
    for root in (delta, folder, tmp_path / "covariance"):
        for path in (root, *root.rglob("*")):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
