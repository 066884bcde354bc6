"""Key covariances in use: found, checked, factorised once, named by fingerprints, warned about when too small."""

import gc
import json
import shutil
import weakref
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from emend.agents.local.causal_lm import CausalLM
from emend.agents.tiny import texts_of_the_world
from emend.editors.conformance import CAPITAL
from emend.editors.hyperparameters import covariance_layers
from emend.editors.numerics import covariance as moments
from emend.editors.numerics import factorise as decomposing
from emend.editors.numerics import tensor_files
from emend.editors.numerics.architectures import find_architecture
from emend.editors.numerics.collect_covariance import collect_covariance, layer_file, read_counts
from emend.editors.numerics.covariance import KeyCovariance, covariance_folder, load_covariance
from emend.editors.numerics.tensor_files import parse_digest, sha256_of
from emend.editors.parametric.alphaedit import AlphaEdit
from emend.editors.parametric.covariance_layers import covariance_settings
from emend.editors.parametric.memit import Memit
from emend.editors.parametric.rome import Rome
from emend.memory.errors import BadData, BadSettings, MissingData
from tests.editors.numerics.covariances import TEXTS, collected, load, moment
from tests.editors.writers import editor


@pytest.fixture
def model(random_model) -> Any:
    return random_model()


def filled(model, folder, texts=TEXTS):
    collected(model.lm, folder, [0, 1], texts, corpus="one")
    return folder


@pytest.fixture
def lm(random_model) -> Any:
    return random_model().lm


METHODS = [Rome, Memit, AlphaEdit]


ROOM = {AlphaEdit: {"nullspace_threshold": 1e3}}


def test_a_layer_or_a_count_that_is_not_there_is_an_error(lm, tmp_path):
    collected(lm, tmp_path)
    with pytest.raises(MissingData, match="no covariance of layer 1"):
        KeyCovariance(tmp_path).matrix(1, 64)
    (tmp_path / "counts.json").write_text("{}")
    with pytest.raises(BadData, match="does not say what it was made from"):
        load(lm, [0], tmp_path)


def test_statistics_of_another_model_are_refused_by_its_digest(lm, tmp_path, random_model):
    collected(lm, tmp_path)
    other = random_model("gpt2").lm
    with pytest.raises(BadData, match=f"{parse_digest(lm.fingerprint)}.*{parse_digest(other.fingerprint)}"):
        load_covariance(other, find_architecture(other.model), [0], str(tmp_path))
    assert load(lm, [0], tmp_path).folder == tmp_path


def test_a_covariance_is_factorised_once_in_double_precision(lm, tmp_path, monkeypatch):
    collected(lm, tmp_path)
    keys = torch.randn(64, 3, dtype=torch.float64)
    first = KeyCovariance(tmp_path).solve(0, keys)
    kept = load_file(tmp_path / "factor-0.safetensors")["kept"]
    assert kept.dtype == torch.float64
    torch.testing.assert_close(kept @ kept.T @ first, keys, rtol=1e-6, atol=1e-6)
    monkeypatch.setattr(torch.linalg, "cholesky_ex", lambda matrix: pytest.fail("factorised again"))
    assert torch.equal(KeyCovariance(tmp_path).solve(0, keys), first)


def test_a_null_space_is_decomposed_once_for_each_bound(lm, tmp_path, monkeypatch):
    collected(lm, tmp_path)
    values, vectors = torch.linalg.eigh(KeyCovariance(tmp_path).matrix(0, 64))
    bounds = [float(values[n : n + 2].mean()) for n in (20, 40)]
    first = [KeyCovariance(tmp_path).null_space(0, 64, below) for below in bounds]
    assert [base.shape for base in first] == [(64, 21), (64, 41)] and first[0].dtype == torch.float64
    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: pytest.fail("decomposed again"))
    for below, base in zip(bounds, first, strict=True):
        assert torch.equal(KeyCovariance(tmp_path).null_space(0, 64, below), base)
        assert torch.equal(base, vectors[:, values < below])


@pytest.mark.parametrize(("method", "file"), [(Rome, "factor-0.*"), (Memit, "factor-0.*"), (AlphaEdit, "null-space-*")])
def test_a_covariance_is_factorised_when_an_editor_is_made(model, tmp_path, method, file):
    editor(method, model, covariance=str(filled(model, tmp_path)), **ROOM.get(method, {}))
    assert list(tmp_path.glob(file))


def harm_moment(folder):
    save_file({"moment": 2 * moment(folder, 0)}, layer_file(folder, 0))


def harm_file(folder):
    for file in (*folder.glob("factor-*"), *folder.glob("null-space-*")):
        file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("harm", "words"), [(harm_moment, "made from another covariance"), (harm_file, "cannot be read")]
)
def test_a_stale_or_damaged_factor_is_computed_again_and_logged(lm, tmp_path, harm, words, caplog):
    collected(lm, tmp_path)
    keys = torch.randn(64, 2, dtype=torch.float64)
    KeyCovariance(tmp_path).solve(0, keys)
    KeyCovariance(tmp_path).null_space(0, 64, 0.02)
    harm(tmp_path)
    now = KeyCovariance(tmp_path)
    solved, base = now.solve(0, keys), now.null_space(0, 64, 0.02)
    assert caplog.text.count(words) == 2 and caplog.text.count("computed again") == 2
    values, vectors = torch.linalg.eigh(now.matrix(0, 64))
    torch.testing.assert_close(base @ base.T, (at := vectors[:, values < 0.02]) @ at.T, rtol=0, atol=1e-9)
    ridged = KeyCovariance(tmp_path).solve(0, keys)
    assert torch.equal(ridged, solved) and caplog.text.count("computed again") == 2


def test_what_was_collected_is_found_by_itself_and_its_absence_names_the_command(lm, tmp_path, monkeypatch):
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path))
    with pytest.raises(MissingData, match=r"no covariances .*layers \[0\].*emend prepare covariance --model hf:"):
        load(lm, [0], "collected")
    collected(lm, covariance_folder(lm, "one"), corpus="one")
    assert load(lm, [0], "collected").folder == covariance_folder(lm, "one")
    with pytest.raises(MissingData, match=r"layers \[0, 1\]"):
        load(lm, [0, 1], "collected")
    collected(lm, covariance_folder(lm, "two"), corpus="two")
    with pytest.raises(MissingData, match="2 covariances .* Name one with the setting 'covariance'"):
        load(lm, [0], "collected")


def test_statistics_belong_to_the_weights_whatever_their_folder_is_called(lm, tmp_path):
    renamed = shutil.copytree(lm.folder, tmp_path / "renamed")
    other = CausalLM(renamed, device="cpu")
    assert covariance_folder(other, "text") == covariance_folder(lm, "text")
    collect_covariance(lm, find_architecture(lm.model), [0], TEXTS, tmp_path / "kept")
    collect_covariance(other, find_architecture(other.model), [0], TEXTS, tmp_path / "kept")
    load_covariance(other, find_architecture(other.model), [0], str(tmp_path / "kept"))
    with pytest.raises(
        MissingData, match="has no layer 1.* emend prepare covariance --model .*renamed --corpus FILES --out "
    ):
        load_covariance(other, find_architecture(other.model), [0, 1], str(tmp_path / "kept"))


@pytest.mark.parametrize("broken", ["eigh", "cholesky_ex"])
def test_a_moment_that_cannot_be_decomposed_is_named_with_the_remedy(lm, tmp_path, monkeypatch, broken):
    def fail(matrix):
        raise decomposing.LinAlgError("linalg.eigh: (Batch element 0): The algorithm failed to converge")

    collected(lm, tmp_path)
    monkeypatch.setattr(torch.linalg, broken, fail)
    made = KeyCovariance(tmp_path)
    with pytest.raises(
        BadData, match=r"layer 0 in '.*' cannot be decomposed .*Collect it with `emend prepare covariance`"
    ):
        made.null_space(0, 64, 0.02) if broken == "eigh" else made.factor(0, 64)


def test_a_moment_without_an_inverse_is_named(lm, tmp_path):
    collected(lm, tmp_path)
    save_file({"moment": torch.zeros(64, 64)}, layer_file(tmp_path, 0))
    with pytest.raises(
        BadData, match=r"cannot be decomposed \(it has no inverse\): it was collected over too little text"
    ):
        KeyCovariance(tmp_path).factor(0, 64)


@pytest.mark.parametrize("method", METHODS)
def test_the_statistics_in_use_are_in_the_fingerprint(model, tmp_path, method):
    folder = filled(model, tmp_path / "there")
    told = editor(method, model, covariance=str(folder)).fingerprint
    counts = read_counts(folder)
    assert counts is not None
    digest = sha256_of(layer_file(folder, 0))[:16]
    assert told["covariance"] == {
        "corpus": "one",
        "texts": counts.texts,
        "tokens": counts.tokens,
        "sha256": {"0": digest},
    }
    assert json.loads(json.dumps(told))["covariance"] == told["covariance"]


def test_the_same_settings_with_exchanged_statistics_are_another_fingerprint(model, tmp_path):
    folder = tmp_path / "there"
    made = editor(Rome, model, covariance=str(filled(model, folder)))
    then = made.fingerprint
    for file in folder.iterdir():
        file.unlink()
    filled(model, folder, [text.replace("e", "a") for text in TEXTS])
    assert editor(Rome, model, covariance=str(folder)).fingerprint != then
    assert made.fingerprint == then, "an editor goes on with what it has read"


def test_the_identity_needs_no_mention_and_the_invented_world_no_digest(model, tmp_path, monkeypatch):
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path))
    monkeypatch.setattr(moments, "texts_of_the_world", lambda: texts_of_the_world()[:40])
    assert "covariance" not in editor(Rome, model).fingerprint
    told = editor(Rome, model, covariance="tinyworld").fingerprint["covariance"]
    assert told["corpus"] == "tinyworld" and told["texts"] == 40 and set(told) == {"corpus", "texts", "tokens"}


def test_a_file_is_digested_once_for_all_editors(model, tmp_path, monkeypatch):
    folder = filled(model, tmp_path)
    seen = []

    def watched(file):
        seen.append(file)
        return sha256_of(file)

    monkeypatch.setattr(tensor_files, "sha256_of", watched)
    for method in METHODS:
        editor(method, model, covariance=str(folder), layers=[0])
    assert seen == [layer_file(folder, 0)]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_making_the_editor_decomposes_the_statistics_and_lets_go_of_them(model, tmp_path, monkeypatch, method):
    folder = filled(model, tmp_path)
    load, read = KeyCovariance.matrix, []

    def watched(self, *args):
        made = load(self, *args)
        read.append(weakref.ref(made))
        return made

    monkeypatch.setattr(KeyCovariance, "matrix", watched)
    made = editor(method, model, covariance=str(folder), **ROOM.get(method, {}))
    gc.collect()
    assert len(read) == 1 and read[0]() is None
    for name in ("eigh", "cholesky_ex"):
        monkeypatch.setattr(torch.linalg, name, lambda matrix: pytest.fail("charged to an edit"))
    assert made.solve([CAPITAL]) and len(read) == 1


def test_the_identity_is_not_decomposed_at_all(model, monkeypatch):
    for name in ("eigh", "cholesky_ex"):
        monkeypatch.setattr(torch.linalg, name, lambda matrix: pytest.fail("decomposed"))
    assert editor(AlphaEdit, model, nullspace_threshold=2.0).solve([CAPITAL])


@pytest.mark.parametrize(("method", "layers"), [(Rome, [0, 1]), (Memit, [1, 0])])
def test_layers_that_a_method_cannot_write_to_are_refused_before_statistics_are_touched(
    model, monkeypatch, method, layers
):
    monkeypatch.setattr(
        "emend.editors.parametric.locate_then_edit.load_covariance", lambda *_: pytest.fail("statistics were touched")
    )
    with pytest.raises(BadSettings, match="not to layers"):
        editor(method, model, layers=layers)


@pytest.mark.parametrize(("texts", "tokens"), [(["Rome."], 4), (["Rome."] * 40, 160), (TEXTS, None)])
def test_statistics_of_too_little_text_are_used_with_one_warning(lm, tmp_path, caplog, texts, tokens):
    """Of fewer tokens than a key has numbers, or of more that say the same."""
    collected(lm, tmp_path, [0, 1], texts)
    made = KeyCovariance(tmp_path)
    for layer in (0, 1):
        assert made.solve(layer, torch.ones(64, 1, dtype=torch.float64)).isfinite().all()
        made.null_space(layer, 64, 0.02)
    said = f"was collected over {tokens} tokens, for keys of 64 numbers, and is singular without"
    assert [said in line for line in caplog.messages] == [True] * (tokens is not None)
    assert caplog.text.count("Collect it over more text with `emend prepare covariance`") == len(caplog.messages)


def test_few_tokens_are_warned_of_each_time_and_alphaedit_s_null_space_too(lm, tmp_path, caplog):
    collected(lm, tmp_path, [0], ["Rome."])
    for _ in range(2):
        KeyCovariance(tmp_path).null_space(0, 64, 0.02)
    assert caplog.text.count("tokens, for keys of 64 numbers: it is unreliable") == 2


def layers_of(lm, overrides):
    return {layer for settings in covariance_settings(lm, overrides).values() for layer in settings.layers}


def test_the_layers_to_collect_are_those_of_all_editors_that_need_a_covariance(lm):
    assert layers_of(lm, {}) == set(covariance_layers(lm.model.config))
    named = {name: {"layers": [layer]} for name, layer in (("rome", 1), ("r_rome", 1), ("memit", -1), ("alphaedit", 0))}
    assert layers_of(lm, named) == {0, 1, -1}


@pytest.mark.parametrize("method", METHODS)
def test_an_editor_without_covariance_names_the_command_that_serves_them_all(
    random_model, method, tmp_path, monkeypatch
):
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path))
    model = random_model()
    with pytest.raises(MissingData, match="emend prepare covariance --model") as refused:
        editor(method, model, covariance="collected")
    assert "--layers" not in str(refused.value)
    monkeypatch.setattr(moments, "covariance_layers", lambda config: [1])
    with pytest.raises(MissingData, match="emend prepare covariance --model .* --layers 0,1"):
        editor(method, model, covariance="collected")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"rome": {"layers": 2}}, "layers"),
        ({"rome": {"layers": "abc"}}, "layers"),
        ({"rome": {"nosuch": 1}}, "unknown setting 'nosuch'"),
        ({"ft": {}}, "'ft', which needs no covariance"),
        ({"rag": {}}, "'rag', which needs no covariance"),
    ],
)
def test_a_setting_that_no_editor_takes_is_refused(lm, named, said):
    with pytest.raises(BadSettings, match=said):
        covariance_settings(lm, named)
