"""Key covariance: equal to numpy's, however the pass was cut, interrupted or batched."""

import shutil
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from emend.agents.local.causal_lm import CausalLM
from emend.agents.tiny import texts_of_the_world
from emend.editors.numerics import collect_covariance as collection
from emend.editors.numerics.architectures import architecture_of
from emend.editors.numerics.collect_covariance import collect_covariance, layer_file, read_counts
from emend.editors.numerics.covariance import KeyCovariance, covariance_folder, load_covariance
from emend.editors.numerics.tensor_files import digest_of
from emend.memory.errors import BadData, BadSettings, MissingData

TEXTS = [
    "The capital of France is Paris.",
    "Karo Benn wrote The Silent River, and much else that nobody in France has read.",
    "",
    "12 of 345 don't agree; 北京 is the capital of China!",
    "Rome.",
] * 4


@pytest.fixture
def lm(random_model) -> Any:
    return random_model().lm


@pytest.fixture
def paths(lm):
    return architecture_of(lm.model)


def moment(folder, layer):
    return load_file(layer_file(folder, layer))["moment"]


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


@pytest.mark.parametrize("cap", [512, 7])
def test_a_moment_is_numpy_s_with_padding_not_counted_and_long_texts_cut(lm, paths, tmp_path, cap):
    collect_covariance(lm, paths, [0, 1], TEXTS, tmp_path, cap=cap)
    for layer in (0, 1):
        wanted, tokens = by_numpy(lm, layer, TEXTS, cap)
        torch.testing.assert_close(moment(tmp_path, layer), wanted, rtol=1e-4, atol=1e-6)
        counts = read_counts(tmp_path)
        assert counts is not None and (counts.tokens, counts.texts, counts.cap) == (tokens, len(TEXTS), cap)


def test_one_pass_serves_all_layers_and_stops_after_the_last(lm, paths, tmp_path):
    passed = {0: 0, 1: 0}
    handles = [
        lm.model.model.layers[n].self_attn.register_forward_hook(lambda *_, n=n: passed.update({n: passed[n] + 1}))
        for n in passed
    ]
    collect_covariance(lm, paths, [0, 1], TEXTS, tmp_path / "both")
    both = dict(passed)
    collect_covariance(lm, paths, [0], TEXTS, tmp_path / "first")
    for handle in handles:
        handle.remove()
    assert both[0] == both[1] > 0
    assert passed == {0: 2 * both[0], 1: both[1]}
    assert torch.equal(moment(tmp_path / "both", 0), moment(tmp_path / "first", 0))


def test_no_batch_exceeds_the_token_budget(lm, paths, tmp_path, monkeypatch):
    sizes = []
    handle = lm.model.base_model.register_forward_pre_hook(
        lambda _, __, named: sizes.append(named["input_ids"].numel()), with_kwargs=True
    )
    monkeypatch.setattr(lm, "batch_tokens", 40)
    collect_covariance(lm, paths, [0], TEXTS, tmp_path, cap=16)
    handle.remove()
    assert max(sizes) <= 40 and len(sizes) > 3


def test_only_missing_layers_are_collected(lm, paths, tmp_path):
    collect_covariance(lm, paths, [0], TEXTS, tmp_path)
    before = layer_file(tmp_path, 0).stat().st_mtime_ns
    collect_covariance(lm, paths, [0, 1], TEXTS, tmp_path)
    collect_covariance(lm, paths, [0, 1], iter(()), tmp_path)
    assert layer_file(tmp_path, 0).stat().st_mtime_ns == before
    torch.testing.assert_close(moment(tmp_path, 1), by_numpy(lm, 1, TEXTS)[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("stopped", [1, 2, 4])
def test_an_interrupted_pass_resumes_with_the_same_result(lm, paths, tmp_path, monkeypatch, stopped):
    monkeypatch.setattr(collection, "PART", 4)
    collect_covariance(lm, paths, [0, 1], TEXTS, tmp_path / "whole")
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
        collect_covariance(lm, paths, [0, 1], texts(), folder, every=0.0, progress=interrupt)
    assert len(read) == 4 * stopped and not layer_file(folder, 0).exists()
    with pytest.raises(MissingData, match="no finished covariance"):
        load_covariance(lm, paths, [0], str(folder))
    told = []
    collect_covariance(lm, paths, [0, 1], TEXTS, folder, every=0.0, progress=lambda *seen: told.append(seen))
    assert told[0][0] == 4 * stopped + 4
    for layer in (0, 1):
        torch.testing.assert_close(moment(folder, layer), moment(tmp_path / "whole", layer), rtol=1e-5, atol=1e-7)
    assert read_counts(folder) == read_counts(tmp_path / "whole")
    assert not list(folder.glob("partial*")) and not list(folder.glob("*.part"))


def test_statistics_of_another_corpus_cap_or_model_are_refused(lm, paths, tmp_path, random_model):
    collect_covariance(lm, paths, [0], TEXTS, tmp_path, corpus="one")
    gpt2 = random_model("gpt2").lm
    for other, more in ((lm, {"corpus": "two"}), (lm, {"corpus": "one", "cap": 9}), (gpt2, {"corpus": "one"})):
        with pytest.raises(BadData, match="holds the covariance of model .*: name another folder"):
            collect_covariance(other, architecture_of(other.model), [1], TEXTS, tmp_path, **more)


def test_no_text_is_an_error(lm, paths, tmp_path):
    with pytest.raises(BadData, match="no text to collect a covariance from, seen 2 texts"):
        collect_covariance(lm, paths, [0], ["", " "], tmp_path)


def test_statistics_of_another_shape_are_refused(lm, paths, tmp_path):
    collect_covariance(lm, paths, [0], TEXTS, tmp_path)
    with pytest.raises(BadData, match=r"has shape \(64, 64\), the model's keys have 128 numbers"):
        KeyCovariance(tmp_path).matrix(0, 128)
    with pytest.raises(MissingData, match="no covariance of layer 1"):
        KeyCovariance(tmp_path).matrix(1, 64)


def test_statistics_of_another_model_are_refused_by_its_digest(lm, paths, tmp_path, random_model):
    collect_covariance(lm, paths, [0], TEXTS, tmp_path)
    other = random_model("gpt2").lm
    with pytest.raises(BadData, match=f"{digest_of(lm.fingerprint)}.*{digest_of(other.fingerprint)}"):
        load_covariance(other, architecture_of(other.model), [0], str(tmp_path))
    assert load_covariance(lm, paths, [0], str(tmp_path)).folder == tmp_path


def test_damaged_statistics_are_an_error_that_names_the_file(lm, paths, tmp_path):
    collect_covariance(lm, paths, [0], TEXTS, tmp_path)
    file = layer_file(tmp_path, 0)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(BadData, match=r"layer-0.safetensors' cannot be read"):
        KeyCovariance(tmp_path).matrix(0, 64)
    (tmp_path / "counts.json").write_text("{}")
    with pytest.raises(BadData, match="does not say what it was made from"):
        load_covariance(lm, paths, [0], str(tmp_path))


def test_a_covariance_is_factorised_once_in_double_precision(lm, paths, tmp_path, monkeypatch):
    collect_covariance(lm, paths, [0], TEXTS, tmp_path)
    keys = torch.randn(64, 3, dtype=torch.float64)
    first = KeyCovariance(tmp_path).solve(0, keys)
    kept = load_file(tmp_path / "factor-0.safetensors")["kept"]
    assert kept.dtype == torch.float64
    torch.testing.assert_close(kept @ kept.T @ first, keys, rtol=1e-6, atol=1e-6)
    monkeypatch.setattr(torch.linalg, "cholesky_ex", lambda matrix: pytest.fail("factorised again"))
    assert torch.equal(KeyCovariance(tmp_path).solve(0, keys), first)


def test_a_null_space_is_decomposed_once_for_each_bound(lm, paths, tmp_path, monkeypatch):
    collect_covariance(lm, paths, [0], TEXTS, tmp_path)
    values, vectors = torch.linalg.eigh(KeyCovariance(tmp_path).matrix(0, 64))
    bounds = [float(values[n : n + 2].mean()) for n in (20, 40)]
    first = [KeyCovariance(tmp_path).null_space(0, 64, below) for below in bounds]
    assert [base.shape for base in first] == [(64, 21), (64, 41)] and first[0].dtype == torch.float64
    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: pytest.fail("decomposed again"))
    for below, base in zip(bounds, first, strict=True):
        assert torch.equal(KeyCovariance(tmp_path).null_space(0, 64, below), base)
        assert torch.equal(base, vectors[:, values < below])


def harm_moment(folder):
    save_file({"moment": 2 * moment(folder, 0)}, layer_file(folder, 0))


def harm_file(folder):
    for file in (*folder.glob("factor-*"), *folder.glob("null-space-*")):
        file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("harm", "words"), [(harm_moment, "made from another covariance"), (harm_file, "cannot be read")]
)
def test_a_stale_or_damaged_factor_is_computed_again_and_logged(lm, paths, tmp_path, harm, words, caplog):
    collect_covariance(lm, paths, [0], TEXTS, tmp_path)
    keys = torch.randn(64, 2, dtype=torch.float64)
    KeyCovariance(tmp_path).solve(0, keys)
    KeyCovariance(tmp_path).null_space(0, 64, 0.02)
    harm(tmp_path)
    now = KeyCovariance(tmp_path)
    solved, base = now.solve(0, keys), now.null_space(0, 64, 0.02)
    assert caplog.text.count(words) == 2 and caplog.text.count("computed anew") == 2
    values, vectors = torch.linalg.eigh(now.matrix(0, 64))
    torch.testing.assert_close(base @ base.T, (at := vectors[:, values < 0.02]) @ at.T, rtol=0, atol=1e-9)
    ridged = KeyCovariance(tmp_path).solve(0, keys)
    assert torch.equal(ridged, solved) and caplog.text.count("computed anew") == 2


def test_a_moment_is_symmetric_and_that_of_double_precision(lm, paths, tmp_path):
    collect_covariance(lm, paths, [1], TEXTS, tmp_path)
    found, wanted = moment(tmp_path, 1), by_numpy(lm, 1, TEXTS)[0]
    assert torch.equal(found, found.T)
    assert (found - wanted).norm() <= 1e-6 * wanted.norm()


def test_a_moment_of_too_few_tokens_gets_a_little_on_its_diagonal(lm, paths, tmp_path):
    collect_covariance(lm, paths, [0], ["Rome."], tmp_path)
    solved = KeyCovariance(tmp_path).solve(0, torch.ones(64, 1, dtype=torch.float64))
    assert solved.isfinite().all()


def test_what_was_collected_is_found_by_itself_and_its_absence_names_the_command(lm, paths, tmp_path, monkeypatch):
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path))
    with pytest.raises(
        MissingData, match=r"no covariances .*layers \[0\].*emend covariance --model hf:.* --layers 0 --corpus"
    ):
        load_covariance(lm, paths, [0], "collected")
    collect_covariance(lm, paths, [0], TEXTS, covariance_folder(lm, "one"), corpus="one")
    assert load_covariance(lm, paths, [0], "collected").folder == covariance_folder(lm, "one")
    with pytest.raises(MissingData, match=r"layers \[0, 1\]"):
        load_covariance(lm, paths, [0, 1], "collected")
    collect_covariance(lm, paths, [0], TEXTS, covariance_folder(lm, "two"), corpus="two")
    with pytest.raises(MissingData, match="2 covariances .* Name one with the setting 'covariance'"):
        load_covariance(lm, paths, [0], "collected")


def test_the_invented_world_is_read_once(lm, paths, tmp_path, monkeypatch):
    from emend.editors.numerics import covariance as moments

    monkeypatch.setenv("EMEND_CACHE", str(tmp_path))
    monkeypatch.setattr(moments, "texts_of_the_world", lambda: texts_of_the_world()[:6])
    first = load_covariance(lm, paths, [0], "tinyworld").matrix(0, 64)
    texts = texts_of_the_world()[:6]
    torch.testing.assert_close(first.float(), by_numpy(lm, 0, texts, cap=96)[0], rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(collection, "add_keys", lambda *_: pytest.fail("collected again"))
    load_covariance(lm, paths, [0], "tinyworld")


def test_statistics_belong_to_the_weights_whatever_their_folder_is_called(lm, tmp_path):
    renamed = shutil.copytree(lm.folder, tmp_path / "renamed")
    other = CausalLM(renamed, device="cpu")
    assert covariance_folder(other, "text") == covariance_folder(lm, "text")
    collect_covariance(lm, architecture_of(lm.model), [0], TEXTS, tmp_path / "kept")
    collect_covariance(other, architecture_of(other.model), [0], TEXTS, tmp_path / "kept")
    load_covariance(other, architecture_of(other.model), [0], str(tmp_path / "kept"))
    with pytest.raises(MissingData, match="has no layer 1: emend covariance --model .*renamed --layers 0,1"):
        load_covariance(other, architecture_of(other.model), [0, 1], str(tmp_path / "kept"))


def test_a_read_only_folder_is_reported_before_the_pass(lm, paths, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(collection, "add_keys", lambda *_: pytest.fail("the corpus was passed"))
    for folder in (tmp_path / "file", tmp_path / "file" / "x"):
        with pytest.raises(BadSettings, match="cannot write a covariance to .*name another folder"):
            collect_covariance(lm, paths, [0], TEXTS, folder)


def test_damaged_partial_sums_are_collected_again(lm, paths, tmp_path, caplog):
    def stopping():
        yield from TEXTS * 20
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect_covariance(lm, paths, [0], stopping(), tmp_path / "there", every=0)
    (kept,) = (tmp_path / "there").glob("partial-*")
    kept.write_bytes(kept.read_bytes()[:40])
    collect_covariance(lm, paths, [0], TEXTS, tmp_path / "there")
    collect_covariance(lm, paths, [0], TEXTS, tmp_path / "undisturbed")
    assert "starts anew" in caplog.text
    assert torch.equal(moment(tmp_path / "there", 0), moment(tmp_path / "undisturbed", 0))
