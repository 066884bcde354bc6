"""Adapters beside an encoder: merged as PEFT would apply them, and refused where they do not fit."""

import json
from typing import Any

import numpy as np
import pytest

from emend.memory.embeddings.embed import load_embedding
from emend.memory.embeddings.lora_adapter import SETTINGS, WEIGHTS
from emend.memory.errors import BadSettings, ModelError
from tests.memory.tiny import tiny_bert

TEXTS = ["the capital", "the river of a city is in the capital of a city", "a"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    pytest.importorskip("sentence_transformers", reason="pip install 'emend-eval[minilm]'")
    return tiny_bert(tmp_path_factory.mktemp("encoder") / "plain")


@pytest.fixture
def adapted(encoder, tmp_path):
    """A folder with an adapter of random weights, and the vectors that PEFT itself gives with it."""
    peft = pytest.importorskip("peft", reason="pip install 'emend-eval[lora]'")
    import torch
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(encoder))
    plan = peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False)
    torch.manual_seed(1)
    body = peft.get_peft_model(model[0].auto_model, plan)
    body.save_pretrained(str(tmp_path / "learned"))
    return tmp_path / "learned", model.eval().encode(TEXTS, normalize_embeddings=True)


def test_a_merged_adapter_gives_what_peft_gives_at_its_own_scale(encoder, adapted):
    folder, expected = adapted
    embedding = load_embedding(f"{encoder}+{folder}")
    assert np.allclose(embedding.documents(TEXTS), expected, atol=1e-5)
    plain = load_embedding(str(encoder))
    assert not np.allclose(plain.documents(TEXTS), expected, atol=1e-2)
    assert plain.identity != embedding.identity, "a memory made with one refuses the other"
    changed(folder, use_rslora=True, lora_alpha=4)  # 4 / sqrt(4), as 8 / 4
    assert np.allclose(load_embedding(f"{encoder}+{folder}").documents(TEXTS), expected, atol=1e-5)


def changed(folder, **told):
    settings = json.loads((folder / SETTINGS).read_text())
    (folder / SETTINGS).write_text(json.dumps(settings | told))


OTHER_KINDS = [
    {"use_dora": True}, {"bias": "all"}, {"rank_pattern": {"query": 2}}, {"peft_type": "LOHA"},
    {"fan_in_fan_out": True}, {"lora_bias": True}, {"layer_replication": [[0, 1]]},
]  # fmt: skip


@pytest.mark.parametrize("told", OTHER_KINDS)
def test_other_kinds_of_adapters_are_refused_by_what_they_use(encoder, adapted, told):
    folder, _ = adapted
    changed(folder, **told)
    with pytest.raises(BadSettings, match=f"uses {next(iter(told))}.*plain LoRA"):
        load_embedding(f"{encoder}+{folder}")


def test_an_adapter_of_another_encoder_says_which_it_was_made_for(encoder, adapted):
    from safetensors.torch import load_file, save_file

    folder, _ = adapted
    changed(folder, base_model_name_or_path="some-encoder")
    tensors = load_file(folder / WEIGHTS)
    save_file({name.replace("layer.0", "layer.7"): tensor for name, tensor in tensors.items()}, folder / WEIGHTS)
    with pytest.raises(BadSettings, match=r"does not fit its encoder at 'encoder.layer.7.*some-encoder"):
        load_embedding(f"{encoder}+{folder}")


SCALES = [
    {"r": 0}, {"r": -4}, {"r": True}, {"r": "4"}, {"r": 10**400}, {"lora_alpha": 0}, {"lora_alpha": float("nan")},
    {"lora_alpha": float("inf")}, {"lora_alpha": True}, {"use_rslora": True, "r": -4},
]  # fmt: skip


@pytest.mark.parametrize("told", SCALES)
def test_ranks_and_scales_that_are_no_positive_numbers_are_refused(encoder, adapted, told):
    folder, _ = adapted
    changed(folder, **told)
    with pytest.raises(BadSettings, match="cannot be read.*train it again"):
        load_embedding(f"{encoder}+{folder}")


def test_a_rank_other_than_that_of_the_weights_is_refused(encoder, adapted):
    folder, _ = adapted
    changed(folder, r=64)
    with pytest.raises(BadSettings, match="of rank 64 does not fit"):
        load_embedding(f"{encoder}+{folder}")


QUERY = "base_model.model.encoder.layer.0.attention.self.query"
ODD_TENSORS = {
    "a change without factors": (lambda down, up: {"x": up}, "uses x: only plain"),
    "no tensor": (lambda down, up: {}, "uses no weights"),
    "one factor": (lambda down, up: {f"{QUERY}.lora_B.weight": up}, "uses .*lora_B.weight"),
    "names of another format": (lambda down, up: pair(down, up, QUERY, ".default.weight"), "default.weight"),
    "an escape sequence": (lambda down, up: pair(down, up, "\x1b[2J\n"), r"at '\\x1b\[2J\\n'"),
    "the root": (lambda down, up: {"lora_A.weight": down, "lora_B.weight": up}, "uses lora_A.weight"),
    "complex numbers": (lambda down, up: pair(down + 0j, up + 0j), "uses .*lora_A.weight"),
    "one row for all": (lambda down, up: pair(down, up[:1]), "of rank 4 does not fit"),
    "a norm": (lambda down, up: pair(down, up[:1], "encoder.layer.0.output.LayerNorm"), "does not fit"),
    "not a number": (lambda down, up: pair(down / 0, up), "not finite"),
}  # fmt: skip


def pair(down, up, path=QUERY, end=".weight"):
    return {f"{path}.lora_A{end}": down.contiguous(), f"{path}.lora_B{end}": up.contiguous()}


@pytest.mark.parametrize("name", ODD_TENSORS)
def test_tensors_that_are_no_factors_of_a_change_are_refused(encoder, adapted, name):
    from safetensors.torch import load_file, save_file

    folder, _ = adapted
    tensors = load_file(folder / WEIGHTS)
    change, message = ODD_TENSORS[name]
    save_file(change(tensors[f"{QUERY}.lora_A.weight"], tensors[f"{QUERY}.lora_B.weight"]), folder / WEIGHTS)
    with pytest.raises(BadSettings, match=message):
        load_embedding(f"{encoder}+{folder}")


@pytest.mark.parametrize("spoiled", ["{", "[]", "{}"])
def test_files_that_cannot_be_read_are_refused(encoder, adapted, spoiled):
    folder, _ = adapted
    (folder / SETTINGS).write_text(spoiled)
    with pytest.raises(BadSettings, match="cannot be read"):
        load_embedding(f"{encoder}+{folder}")


def test_a_folder_without_adapter_names_the_training_command(encoder, tmp_path):
    with pytest.raises(BadSettings, match=r"no adapter in 'nowhere'.*emend prepare encoder"):
        load_embedding(f"{encoder}+nowhere")


def test_an_encoder_whose_vectors_are_not_finite_is_refused(encoder):
    import torch

    embedding: Any = load_embedding(str(encoder))
    torch.nn.init.constant_(embedding.model[0].auto_model.embeddings.LayerNorm.weight, float("nan"))
    with pytest.raises(ModelError, match="not finite numbers"):
        embedding.queries(TEXTS)
