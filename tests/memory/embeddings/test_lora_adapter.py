"""Adapters beside an encoder: merged as PEFT would apply them, and refused where they do not fit."""

import json

import numpy as np
import pytest

from emend.memory.embeddings.embed import load_embedding
from emend.memory.embeddings.lora_adapter import SETTINGS, WEIGHTS
from emend.memory.errors import BadSettings
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


@pytest.mark.parametrize("told", [{"use_dora": True}, {"bias": "all"}, {"rank_pattern": {"query": 2}}])
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


@pytest.mark.parametrize("spoiled", ["{", "[]", "{}"])
def test_files_that_cannot_be_read_are_refused(encoder, adapted, spoiled):
    folder, _ = adapted
    (folder / SETTINGS).write_text(spoiled)
    with pytest.raises(BadSettings, match="cannot be read"):
        load_embedding(f"{encoder}+{folder}")


def test_a_folder_without_adapter_names_the_training_command(encoder, tmp_path):
    with pytest.raises(BadSettings, match=r"no adapter in 'nowhere'.*emend prepare encoder"):
        load_embedding(f"{encoder}+nowhere")
