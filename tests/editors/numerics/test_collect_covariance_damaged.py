"""Statistics that are damaged, of unknown origin or no numbers: said, refused before the work, and made anew."""

from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from emend.agents.llm import load_model
from emend.agents.tiny import texts_of_the_world
from emend.editors.numerics import collect_covariance as collection
from emend.editors.numerics import factorise as decomposing
from emend.editors.numerics.architectures import architecture_of
from emend.editors.numerics.collect_covariance import COUNTS, collect_covariance, layer_file, read_counts
from emend.editors.numerics.covariance import KeyCovariance, covariance_folder, load_covariance
from emend.editors.parametric.alphaedit import AlphaEdit
from emend.editors.parametric.memit import Memit
from emend.editors.parametric.rome import Rome
from emend.memory.errors import BadData, MissingData, ModelError
from tests.editors.writers import editor

TEXTS = [
    "The capital of France is Paris.",
    "Karo Benn wrote The Silent River, and much else that nobody in France has read.",
    "12 of 345 don't agree; 北京 is the capital of China!",
] * 12


@pytest.fixture
def lm(random_model) -> Any:
    return random_model().lm


@pytest.fixture
def paths(lm):
    return architecture_of(lm.model)


def moment(folder, layer):
    """Copied, since what is read is mapped from the file, which is about to be damaged."""
    return load_file(layer_file(folder, layer))["moment"].clone()


def cut(folder):
    file = layer_file(folder, 0)
    file.write_bytes(file.read_bytes()[:-100])


def empty(folder):
    layer_file(folder, 0).write_bytes(b"")


def without_its_key(folder):
    save_file({"other": moment(folder, 0)}, layer_file(folder, 0))


def of_another_shape(folder):
    save_file({"moment": torch.eye(3)}, layer_file(folder, 0))


def with_a_number_that_is_none(folder):
    told = moment(folder, 0)
    told[5] = told[:, 5] = torch.inf
    save_file({"moment": told}, layer_file(folder, 0))


HARMS = [cut, empty, without_its_key, of_another_shape, with_a_number_that_is_none]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("method", [Rome, Memit, AlphaEdit])
def test_damaged_statistics_are_refused_on_construction_with_the_command_that_collects_them(
    random_model, lm, paths, tmp_path, harm, method
):
    collect_covariance(lm, paths, [0], TEXTS, tmp_path, corpus="notes-1", cap=32)
    harm(tmp_path)
    with pytest.raises(
        BadData, match=r"layer-0.*Collect it anew with the text of corpus 'notes-1' \(cap 32\): "
    ) as told:
        editor(method, random_model(), covariance=str(tmp_path))
    assert f"emend covariance --model hf:{lm.folder} --layers 0 --corpus FILES --out {tmp_path}" in str(told.value)
    assert ("model.dtype=float32" in str(told.value)) == (harm is with_a_number_that_is_none)


@pytest.mark.parametrize("harm", HARMS)
def test_only_the_damaged_layer_is_collected_again(lm, paths, tmp_path, caplog, harm):
    collect_covariance(lm, paths, [0, 1], TEXTS, tmp_path)
    first, second = moment(tmp_path, 0), layer_file(tmp_path, 1).stat().st_mtime_ns
    harm(tmp_path)
    collect_covariance(lm, paths, [0, 1], TEXTS, tmp_path)
    assert "layer-0.safetensors' " in caplog.text and "collected anew" in caplog.text
    assert torch.equal(moment(tmp_path, 0), first) and layer_file(tmp_path, 1).stat().st_mtime_ns == second


@pytest.mark.parametrize("told", [None, "{}", "{", "\xff"])
def test_without_a_readable_count_nothing_that_is_there_is_taken_for_known(lm, paths, tmp_path, caplog, told):
    wanted = collect_covariance(lm, paths, [0, 1], TEXTS, tmp_path)
    first = moment(tmp_path, 0)
    if told is None:
        (tmp_path / COUNTS).unlink()
    else:
        (tmp_path / COUNTS).write_bytes(told.encode("latin-1"))
    for layer in (0, 1):
        save_file({"moment": torch.eye(64)}, layer_file(tmp_path, layer))
    assert collect_covariance(lm, paths, [0], TEXTS, tmp_path) == wanted == read_counts(tmp_path)
    assert torch.equal(moment(tmp_path, 0), first)
    assert ("does not say what it was made from" in caplog.text) == (told is not None)
    with pytest.raises(MissingData, match="has no layer 1"):
        load_covariance(lm, paths, [0, 1], str(tmp_path))
    assert (tmp_path / "layer-1.safetensors.unknown").is_file()


def test_damaged_tinyworld_statistics_are_collected_again(random_model, lm, tmp_path, monkeypatch):
    from emend.editors.numerics import covariance as moments

    monkeypatch.setenv("EMEND_CACHE", str(tmp_path))
    monkeypatch.setattr(moments, "texts_of_the_world", lambda: texts_of_the_world()[:60])
    for damage in (lambda folder: None, cut, lambda folder: (folder / COUNTS).write_text("{")):
        damage(covariance_folder(lm, "tinyworld"))
        assert editor(Rome, random_model(), covariance="tinyworld").covariance.matrix(0, 64).isfinite().all()


def overflowing(random_folder, dtype):
    """One row of the up-projection gives keys that are too large for half precision."""
    model: Any = load_model(f"hf:{random_folder(window=96)}", device="cpu", dtype=dtype)
    with torch.no_grad():
        model.lm.model.model.layers[1].mlp.up_proj.weight[3] *= 3e4
    return model


def test_keys_that_overflow_in_half_precision_end_the_pass_at_once_with_the_remedy(
    random_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(collection, "PART", 2)
    model = overflowing(random_folder, "float16")
    read = []

    def texts():
        for text in TEXTS:
            read.append(text)
            yield text

    said = r"layer 1 are not finite in float16.*--set model.dtype=float32, or bfloat16"
    with pytest.raises(ModelError, match=said):
        collect_covariance(model.lm, architecture_of(model.lm.model), [0, 1], texts(), tmp_path, every=0.0)
    assert len(read) == 2 and not list(tmp_path.glob("*"))
    model.close()
    for dtype in ("float32", "bfloat16"):
        model = overflowing(random_folder, dtype)
        collect_covariance(model.lm, architecture_of(model.lm.model), [0, 1], TEXTS, tmp_path / dtype)
        assert moment(tmp_path / dtype, 1).isfinite().all()
        model.close()


def test_non_finite_weights_are_reported_in_any_format(random_folder, tmp_path):
    model: Any = load_model(f"hf:{random_folder(window=96)}", device="cpu")
    with torch.no_grad():
        model.lm.model.model.layers[0].mlp.up_proj.weight[3] = torch.nan
    with pytest.raises(ModelError, match="layer 0 are not finite in float32.*other weights"):
        collect_covariance(model.lm, architecture_of(model.lm.model), [0], TEXTS, tmp_path)
    model.close()


@pytest.mark.parametrize("broken", ["eigh", "cholesky_ex"])
def test_a_moment_that_cannot_be_decomposed_is_named_with_the_remedy(lm, paths, tmp_path, monkeypatch, broken):
    def fail(matrix):
        raise decomposing.LinAlgError("linalg.eigh: (Batch element 0): The algorithm failed to converge")

    collect_covariance(lm, paths, [0], TEXTS, tmp_path)
    monkeypatch.setattr(torch.linalg, broken, fail)
    made = KeyCovariance(tmp_path)
    with pytest.raises(BadData, match=r"layer 0 in '.*' cannot be decomposed .*Collect it with `emend covariance`"):
        made.null_space(0, 64, 0.02) if broken == "eigh" else made.factor(0, 64)


def test_a_moment_without_an_inverse_is_named(lm, paths, tmp_path):
    collect_covariance(lm, paths, [0], TEXTS, tmp_path)
    save_file({"moment": torch.zeros(64, 64)}, layer_file(tmp_path, 0))
    with pytest.raises(BadData, match=r"cannot be decomposed \(it has no inverse\): it is of too little text"):
        KeyCovariance(tmp_path).factor(0, 64)
