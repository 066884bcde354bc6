"""Collection of key covariances: equal to numpy's, however the pass was cut, interrupted, batched or damaged."""

from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from emend.agents.llm import load_model
from emend.agents.tiny import texts_of_the_world
from emend.editors.numerics import collect_covariance as collection
from emend.editors.numerics import covariance as moments
from emend.editors.numerics.architectures import find_architecture
from emend.editors.numerics.collect_covariance import COUNTS, collect_covariance, layer_file, read_counts
from emend.editors.numerics.covariance import covariance_folder
from emend.editors.numerics.key_sums import pass_parameters
from emend.editors.parametric.alphaedit import AlphaEdit
from emend.editors.parametric.memit import Memit
from emend.editors.parametric.rome import Rome
from emend.memory.errors import BadData, BadSettings, MissingData, ModelError
from tests.editors.numerics.covariances import TEXTS, collected, load, moment
from tests.editors.writers import editor


@pytest.fixture
def lm(random_model) -> Any:
    return random_model().lm


def by_numpy(lm, layer, texts, cap=512):
    """The same moment, one piece of text after another, without padding."""
    keys: list[Any] = []
    module = lm.model.model.layers[layer].mlp.down_proj
    handle = module.register_forward_pre_hook(lambda _, inputs: keys.append(inputs[0][0].double().numpy()))
    try:
        for text in texts:
            ids = lm.encode(text)
            for at in range(0, len(ids) if text else 0, cap):
                with torch.no_grad():
                    lm.model(input_ids=torch.tensor([ids[at : at + cap]]))
    finally:
        handle.remove()
    whole = np.concatenate(keys)
    return torch.tensor(whole.T @ whole / len(whole)).float(), len(whole)


@pytest.mark.slow
@pytest.mark.parametrize("cap", [512, 7])
def test_a_moment_is_numpy_s_with_padding_not_counted_and_long_texts_cut(lm, tmp_path, cap):
    collected(lm, tmp_path, [0, 1], cap=cap)
    for layer in (0, 1):
        wanted, tokens = by_numpy(lm, layer, TEXTS, cap)
        found = moment(tmp_path, layer)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
        assert torch.equal(found, found.T) and (found - wanted).norm() <= 1e-6 * wanted.norm()
        counts = read_counts(tmp_path)
        assert counts is not None and (counts.tokens, counts.texts, counts.cap) == (tokens, len(TEXTS), cap)


def test_the_cost_of_a_pass_counts_the_layers_up_to_the_last_and_no_embedding(lm):
    paths = find_architecture(lm.model)
    sizes = [sum(weight.numel() for weight in layer.parameters()) for layer in lm.model.model.layers]
    assert pass_parameters(lm, paths, [0]) == sizes[0]
    assert pass_parameters(lm, paths, [0, 1]) == pass_parameters(lm, paths, [1]) == sizes[0] + sizes[1]


def test_one_pass_serves_all_layers_and_stops_after_the_last(lm, tmp_path):
    passed = {0: 0, 1: 0}
    handles = [
        lm.model.model.layers[n].self_attn.register_forward_hook(lambda *_, n=n: passed.update({n: passed[n] + 1}))
        for n in passed
    ]
    collected(lm, tmp_path / "both", [0, 1])
    both = dict(passed)
    collected(lm, tmp_path / "first")
    for handle in handles:
        handle.remove()
    assert both[0] == both[1] > 0
    assert passed == {0: 2 * both[0], 1: both[1]}
    assert torch.equal(moment(tmp_path / "both", 0), moment(tmp_path / "first", 0))


def test_no_batch_exceeds_the_token_budget(lm, tmp_path, monkeypatch):
    sizes = []
    handle = lm.model.base_model.register_forward_pre_hook(
        lambda _, __, named: sizes.append(named["input_ids"].numel()), with_kwargs=True
    )
    monkeypatch.setattr(lm, "batch_tokens", 40)
    collected(lm, tmp_path, cap=16)
    handle.remove()
    assert max(sizes) <= 40 and len(sizes) > 3


def test_only_missing_layers_are_collected(lm, tmp_path):
    collected(lm, tmp_path)
    before = layer_file(tmp_path, 0).stat().st_mtime_ns
    collected(lm, tmp_path, [0, 1])
    collected(lm, tmp_path, [0, 1], iter(()))
    assert layer_file(tmp_path, 0).stat().st_mtime_ns == before
    torch.testing.assert_close(moment(tmp_path, 1), by_numpy(lm, 1, TEXTS)[0], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [1, 2, 4])
def test_an_interrupted_pass_resumes_with_the_same_result(lm, tmp_path, monkeypatch, stopped):
    monkeypatch.setattr(collection, "PART", 4)
    collected(lm, tmp_path / "whole", [0, 1])
    read = []

    def texts():
        for text in TEXTS:
            read.append(text)
            yield text

    def interrupt(counted, tokens):
        if counted == 4 * stopped:
            raise KeyboardInterrupt

    folder = tmp_path / "halted"
    with pytest.raises(KeyboardInterrupt):
        collected(lm, folder, [0, 1], texts(), every=0.0, progress=interrupt)
    assert len(read) == 4 * stopped and not layer_file(folder, 0).exists()
    with pytest.raises(MissingData, match="no finished covariance"):
        load(lm, [0], folder)
    told = []
    collected(lm, folder, [0, 1], every=0.0, progress=lambda *seen: told.append(seen))
    assert told[0][0] == 4 * stopped + 4
    for layer in (0, 1):
        torch.testing.assert_close(moment(folder, layer), moment(tmp_path / "whole", layer), rtol=1e-5, atol=1e-7)
    assert read_counts(folder) == read_counts(tmp_path / "whole")
    assert not list(folder.glob("partial*")) and not list(folder.glob("*.part"))


def test_statistics_of_another_corpus_cap_or_model_are_refused(lm, tmp_path, random_model):
    collected(lm, tmp_path, corpus="one")
    gpt2 = random_model("gpt2").lm
    for other, more in ((lm, {"corpus": "two"}), (lm, {"corpus": "one", "cap": 9}), (gpt2, {"corpus": "one"})):
        with pytest.raises(BadData, match="holds the covariance of model .*: name another folder"):
            collect_covariance(other, find_architecture(other.model), [1], TEXTS, tmp_path, **more)


def test_no_text_is_an_error(lm, tmp_path):
    with pytest.raises(BadData, match="no text to collect a covariance from: 2 texts"):
        collected(lm, tmp_path, [0], ["", " "])


def test_a_read_only_folder_is_reported_before_the_pass(lm, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(collection, "add_keys", lambda *_: pytest.fail("the corpus was passed"))
    for folder in (tmp_path / "file", tmp_path / "file" / "x"):
        with pytest.raises(BadSettings, match="cannot write a covariance to .*name another folder"):
            collected(lm, folder)


@pytest.mark.slow
def test_damaged_partial_sums_are_collected_again(lm, tmp_path, caplog):
    def stopping():
        yield from TEXTS * 20
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collected(lm, tmp_path / "there", [0], stopping(), every=0)
    (kept,) = (tmp_path / "there").glob("partial-*")
    kept.write_bytes(kept.read_bytes()[:40])
    collected(lm, tmp_path / "there")
    collected(lm, tmp_path / "undisturbed")
    assert "starts from the beginning" in caplog.text
    assert torch.equal(moment(tmp_path / "there", 0), moment(tmp_path / "undisturbed", 0))


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
    random_model, lm, tmp_path, harm, method
):
    collected(lm, tmp_path, corpus="notes-1", cap=32)
    harm(tmp_path)
    with pytest.raises(
        BadData, match=r"layer-0.*Collect it again with the text of corpus 'notes-1' \(cap 32\): "
    ) as caught:
        editor(method, random_model(), covariance=str(tmp_path))
    assert f"emend prepare covariance --model hf:{lm.folder} --corpus FILES --out {tmp_path}" in str(caught.value)
    assert ("model.dtype=float32" in str(caught.value)) == (harm is with_a_number_that_is_none)


@pytest.mark.parametrize("harm", HARMS)
def test_only_the_damaged_layer_is_collected_again(lm, tmp_path, caplog, harm):
    collected(lm, tmp_path, [0, 1])
    first, second = moment(tmp_path, 0), layer_file(tmp_path, 1).stat().st_mtime_ns
    harm(tmp_path)
    collected(lm, tmp_path, [0, 1])
    assert "layer-0.safetensors' " in caplog.text and "collected again" in caplog.text
    assert torch.equal(moment(tmp_path, 0), first) and layer_file(tmp_path, 1).stat().st_mtime_ns == second


@pytest.mark.parametrize("told", [None, "{}", "{", "\xff"])
def test_without_a_readable_count_nothing_that_is_there_is_taken_for_known(lm, tmp_path, caplog, told):
    wanted = collected(lm, tmp_path, [0, 1])
    first = moment(tmp_path, 0)
    if told is None:
        (tmp_path / COUNTS).unlink()
    else:
        (tmp_path / COUNTS).write_bytes(told.encode("latin-1"))
    for layer in (0, 1):
        save_file({"moment": torch.eye(64)}, layer_file(tmp_path, layer))
    assert collected(lm, tmp_path) == wanted == read_counts(tmp_path)
    assert torch.equal(moment(tmp_path, 0), first)
    assert ("does not say what it was made from" in caplog.text) == (told is not None)
    with pytest.raises(MissingData, match="has no layer 1"):
        load(lm, [0, 1], tmp_path)
    assert (tmp_path / "layer-1.safetensors.unknown").is_file()


@pytest.mark.slow
def test_damaged_tinyworld_statistics_are_collected_again(random_model, lm, tmp_path, monkeypatch):
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


@pytest.mark.slow
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
        collect_covariance(model.lm, find_architecture(model.lm.model), [0, 1], texts(), tmp_path, every=0.0)
    assert len(read) == 2 and not list(tmp_path.glob("*"))
    model.close()
    for dtype in ("float32", "bfloat16"):
        model = overflowing(random_folder, dtype)
        collect_covariance(model.lm, find_architecture(model.lm.model), [0, 1], TEXTS, tmp_path / dtype)
        assert moment(tmp_path / dtype, 1).isfinite().all()
        model.close()


def test_non_finite_weights_are_reported_in_any_format(random_folder, tmp_path):
    model: Any = load_model(f"hf:{random_folder(window=96)}", device="cpu")
    with torch.no_grad():
        model.lm.model.model.layers[0].mlp.up_proj.weight[3] = torch.nan
    with pytest.raises(ModelError, match="layer 0 are not finite in float32.*other weights"):
        collect_covariance(model.lm, find_architecture(model.lm.model), [0], TEXTS, tmp_path)
    model.close()


def test_the_invented_world_is_read_once(lm, tmp_path, monkeypatch):
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path))
    monkeypatch.setattr(moments, "texts_of_the_world", lambda: texts_of_the_world()[:6])
    first = load(lm, [0], "tinyworld").matrix(0, 64)
    texts = texts_of_the_world()[:6]
    torch.testing.assert_close(first.float(), by_numpy(lm, 0, texts, cap=96)[0], rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(collection, "add_keys", lambda *_: pytest.fail("collected again"))
    load(lm, [0], "tinyworld")
