from functools import partial

import pytest

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.conformance import TEXTS, RetrieverContract, entries
from emend.memory.retrieval.dense import Dense
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.rerank import Rerank
from emend.memory.retrieval.tokens import words
from tests.memory.tiny import tiny_bert

CORPUS = ExactCorpus.of(entries(TEXTS), LexicalEmbedding())


class Overlap:
    """Scores a pair by the share of words that both texts have."""

    def predict(self, inputs, *, show_progress_bar=False):
        assert not show_progress_bar
        pairs = [(set(words(query)), set(words(text))) for query, text in inputs]
        return [len(asked & said) / max(1, len(asked | said)) for asked, said in pairs]


class TestRerank(RetrieverContract):
    def factory(self):
        return partial(Rerank, inner=Dense, model=Overlap())


class Beginning(Overlap):
    """Has a window of 100 tokens, of which a word is one."""

    max_length = 100

    def tokenizer(self, text, **options):
        return {"input_ids": text.split()}

    def predict(self, inputs, *, show_progress_bar=False):
        assert all(len(text.split()) < 36 for _, text in inputs)
        return super().predict(inputs, show_progress_bar=show_progress_bar)


def test_the_best_piece_of_a_text_that_is_longer_than_the_window_counts():
    filler = "The board met again and talked of cranes. " * 12
    corpus = ExactCorpus.of(entries([filler + "Ida keeps the lighthouse.", filler]), LexicalEmbedding())
    first, second = Rerank(corpus, inner=Dense, model=Beginning()).search("Who keeps the lighthouse?", 2)
    assert first.entry.text.endswith("lighthouse.") and first.score > second.score


def test_it_reads_the_first_hits_only_and_orders_them_by_the_model():
    query = "The capital of Veldania and the river Aske"
    first = BM25(CORPUS).search(query, 2)
    reread = Rerank(CORPUS, inner=BM25, model=Overlap(), depth=2).search(query, 5)
    assert {hit.entry.id for hit in reread} == {hit.entry.id for hit in first}
    scores = sorted(Overlap().predict([(query, hit.entry.text) for hit in reread]), reverse=True)
    assert [hit.score for hit in reread] == pytest.approx(scores, abs=1e-6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("sentence_transformers", reason="pip install 'emend-eval[minilm]'")
    return tiny_bert(tmp_path_factory.mktemp("models") / "cross", labels=1)


def test_a_cross_encoder_is_loaded_from_a_folder_by_the_chain(folder):
    from sentence_transformers import CrossEncoder

    found = load_retriever(f"bm25>rerank(model={folder}, depth=3)")(CORPUS).search(TEXTS[0], 3)
    scores = CrossEncoder(str(folder)).predict([(TEXTS[0], hit.entry.text) for hit in found])
    assert [hit.score for hit in found] == pytest.approx(sorted(map(float, scores), reverse=True), abs=1e-5)
    assert len(found) > 1


def test_models_that_do_not_score_pairs_are_refused_with_the_remedy(tmp_path):
    pytest.importorskip("sentence_transformers", reason="pip install 'emend-eval[minilm]'")
    with pytest.raises(BadSettings, match="has 3 outputs"):
        Rerank(CORPUS, model=str(tiny_bert(tmp_path / "three", labels=3)))
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadSettings, match=r"rerank\(model=FOLDER\)"):
        Rerank(CORPUS, model=str(tmp_path / "empty"))
    folder = tiny_bert(tmp_path / "plain", labels=1)
    config = folder / "config.json"
    config.write_text(config.read_text("utf-8").replace("BertForSequenceClassification", "BertModel"), "utf-8")
    with pytest.raises(BadSettings, match="BertModel, which does not score pairs"):
        load_retriever(f"bm25>rerank(model={folder})")(CORPUS)
