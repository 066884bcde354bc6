"""Fingerprints name the covariance; it is factorised when the editor is created, and then released."""

import gc
import json
import weakref
from typing import Any

import pytest
import torch

from emend.agents.tiny import texts_of_the_world
from emend.editors.conformance import CAPITAL
from emend.editors.numerics import covariance as moments
from emend.editors.numerics import tensor_files
from emend.editors.numerics.architectures import architecture_of
from emend.editors.numerics.collect_covariance import collect_covariance, layer_file, read_counts
from emend.editors.numerics.covariance import KeyCovariance
from emend.editors.numerics.tensor_files import sha256_of
from emend.editors.parametric.alphaedit import AlphaEdit
from emend.editors.parametric.memit import Memit
from emend.editors.parametric.rome import Rome
from emend.memory.errors import BadSettings
from tests.editors.writers import editor

TEXTS = ["The capital of France is Paris.", "Karo Benn wrote The Silent River, and much else.", "12 don't agree."] * 20
METHODS = [Rome, Memit, AlphaEdit]
ROOM = {AlphaEdit: {"nullspace_threshold": 1e3}}


@pytest.fixture
def model(random_model) -> Any:
    return random_model()


def filled(model, folder, texts=TEXTS, corpus="one"):
    collect_covariance(model.lm, architecture_of(model.lm.model), [0, 1], texts, folder, corpus=corpus)
    return folder


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
    with pytest.raises(BadSettings, match="seen layers"):
        editor(method, model, layers=layers)
