from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from emend.memory.edit import Edit
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.embeddings.model_families import ModelFamily, find_family, shaped
from emend.memory.errors import MemoryMismatch
from emend.memory.store.chroma import ChromaMemory
from tests.memory.tiny import tiny_bert

TEXTS = ["the capital", "the river of a city is in the capital of a city", "a"]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("facebook/contriever-msmarco", ModelFamily(dot=True)),
        ("/models/mcontriever/", ModelFamily(dot=True)),
        ("intfloat/multilingual-e5-large", ModelFamily(query="query: ", passage="passage: ")),
        ("intfloat/e5-base-v2", ModelFamily(query="query: ", passage="passage: ")),
        ("sentence-transformers/all-MiniLM-L6-v2", ModelFamily()),
        ("/contriever/other-model", ModelFamily()),
        ("someone/make5-small", ModelFamily()),
    ],
)
def test_the_name_of_a_model_or_its_folder_tells_its_family(name, family):
    assert find_family(name) == family


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    pytest.importorskip("sentence_transformers", reason="pip install 'emend-eval[minilm]'")
    root = tmp_path_factory.mktemp("models")
    return {name: tiny_bert(root / name) for name in ("mcontriever", "multilingual-e5-tiny", "plain")}


def mean_pooled(folder, texts) -> np.ndarray:
    """Written out: the mean over the tokens that are no padding."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in texts:  # one by one, so that nothing is padded
        with torch.inference_mode():
            rows.append(model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0).numpy())
    return np.stack(rows)


def unit(rows: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def loaded(folders, name: str) -> Embedding:
    return load_embedding(str(folders[name]))


def test_contriever_is_the_masked_mean_with_its_length_kept_and_e5_gets_prefixes(folders):
    found = loaded(folders, "mcontriever")
    wanted = mean_pooled(folders["mcontriever"], TEXTS)
    assert found.documents(TEXTS) == pytest.approx(wanted, abs=1e-5)
    assert found.queries(TEXTS) == pytest.approx(wanted, abs=1e-5)
    assert np.ptp(np.linalg.norm(wanted, axis=1)) > 0.01  # lengths differ, or nothing is shown
    found, folder = loaded(folders, "multilingual-e5-tiny"), folders["multilingual-e5-tiny"]
    asked, said = (unit(mean_pooled(folder, [p + text for text in TEXTS])) for p in ("query: ", "passage: "))
    assert found.queries(TEXTS) == pytest.approx(asked, abs=1e-5)
    assert found.documents(TEXTS) == pytest.approx(said, abs=1e-5)
    assert np.abs(asked - said).max() > 0.01


def test_a_normalisation_that_was_saved_with_contriever_is_left_out(folders, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize

    saved = SentenceTransformer(str(folders["mcontriever"]))
    saved.append(Normalize())
    saved.save(str(tmp_path / "contriever"))
    found = load_embedding(str(tmp_path / "contriever")).documents(TEXTS)
    assert found == pytest.approx(mean_pooled(folders["mcontriever"], TEXTS), abs=1e-5)


def test_prompts_that_a_model_has_are_kept_and_none_are_made_for_other_families():
    model: Any = SimpleNamespace(prompts={"query": "own: "}, eval=lambda: model)
    assert shaped(model, find_family("e5-base")).prompts == {"query": "own: ", "document": "passage: "}
    plain: Any = SimpleNamespace(prompts={}, eval=lambda: plain)
    assert shaped(plain, ModelFamily()).prompts == {}


def test_another_model_is_the_normalised_mean_and_the_identity_has_prefixes_and_similarity(folders):
    found = loaded(folders, "plain")
    assert found.documents(TEXTS) == pytest.approx(unit(mean_pooled(folders["plain"], TEXTS)), abs=1e-5)
    identities = [loaded(folders, name).identity for name in ("mcontriever", "multilingual-e5-tiny", "plain")]
    assert identities[0].endswith("/dot")
    assert identities[1].endswith("/query:/passage:")
    assert identities[2].count("/") == 2


@pytest.mark.parametrize("limit", [20_000, 1])
def test_a_memory_compares_contriever_by_dot_product_in_exact_search_and_in_the_index(folders, monkeypatch, limit):
    monkeypatch.setattr("emend.memory.store.chroma.EXACT_LIMIT", limit)
    found = loaded(folders, "mcontriever")
    with ChromaMemory(None, found) as memory:
        memory.add([Edit(form="document", text=text) for text in TEXTS])
        hits = memory.view().nearest("the city", 3)
    dots = found.documents(TEXTS) @ found.queries(["the city"])[0]
    order = np.argsort(-dots)
    assert [hit.entry.text for hit in hits] == [TEXTS[i] for i in order]
    assert [hit.score for hit in hits] == pytest.approx(dots[order].tolist(), rel=1e-3)


def test_a_folder_made_by_one_family_is_refused_to_another(folders, tmp_path):
    with ChromaMemory(tmp_path / "memory", loaded(folders, "mcontriever")) as memory:
        memory.add([Edit(form="document", text=TEXTS[0])])
    with pytest.raises(MemoryMismatch, match="mcontriever/.*/dot"):
        ChromaMemory(tmp_path / "memory", loaded(folders, "multilingual-e5-tiny"))
