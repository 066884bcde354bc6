from typing import Any

import pytest

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings
from emend.memory.probe import Probe
from emend.memory.retrieval.base import search_probe
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.conformance import TEXTS, entries
from emend.memory.retrieval.default import LEXICAL, NAMES, STEMS, Default
from emend.memory.retrieval.dense import Dense
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.gold import GoldRetriever

CORPUS = ExactCorpus.of(entries(TEXTS), LexicalEmbedding())


def test_the_score_is_the_weighted_sum_of_its_three_parts():
    query = "Which cities is Kestrel Bay twinned with?"
    parts: list[tuple[Any, float]] = [
        (Dense(CORPUS), LEXICAL),
        (BM25(CORPUS, tokens="stems", k1=1.2, b=0.6), STEMS),
        (BM25(CORPUS, tokens="names", k1=1.0, b=0.0), NAMES),
    ]
    total = dict.fromkeys((entry.id for entry in CORPUS.entries()), 0.0)
    for part, weight in parts:
        for hit in part.search(query, 10):
            total[hit.entry.id] += weight * hit.score
    found = {hit.entry.id: hit.score for hit in Default(CORPUS).search(query, 10)}
    assert found == pytest.approx(total, abs=1e-4)
    assert max(found, key=lambda id_: found[id_]) == "005"


def test_an_unrelated_sentence_changes_nothing_and_a_whole_name_ranks_before_a_part():
    asked = "The capital of Veldania is"
    alone, behind = (Default(CORPUS).search(text, 3) for text in (asked, f"Kestrel Bay is twinned. {asked}"))
    assert alone == behind
    texts = ["Cristiano Ronaldo has moved to S.S.C. Napoli.", "Ronaldo has made a move to Boavista F.C."]
    over = ExactCorpus.of(entries(texts), LexicalEmbedding())
    assert Default(over).search("Which city does Ronaldo live in?", 1)[0].entry.text == texts[1]


def test_settings_in_the_chain_reach_the_strategy():
    query = "Who flows through Aske?"
    chosen = load_retriever("default(dense=0, names=0)")(CORPUS).search(query, 2)
    assert chosen == Default(CORPUS, dense=0, names=0).search(query, 2) != Default(CORPUS).search(query, 2)
    ranked = load_retriever("focus>hybrid(fusion=ranks)")
    assert ranked.__qualname__ == "focus>hybrid(fusion=ranks)"
    for spec, told in (
        ("bm25(token=stems)", "no setting 'token': did you mean 'tokens'"),
        ("bm25(stems)", "is not a setting"),
        ("bm25(k1=1.2, k1=2)", "'k1' twice"),
        ("bm25(k1=1.2", "cannot be parsed"),
        ("threshold(inner=dense)", "no setting 'inner'"),
    ):
        with pytest.raises(BadSettings, match=told):
            load_retriever(spec)


def test_gold_finds_the_edits_of_the_probe_and_needs_it():
    gold = GoldRetriever(CORPUS)
    probe = Probe(kind="efficacy", prompt="anything", gold=("x",), edit_ids=("edit-3", "edit-1"))
    assert [hit.entry.edit_id for hit in search_probe(gold, probe, 5)] == ["edit-1", "edit-3"]
    assert len(search_probe(gold, probe, 1)) == 1 and search_probe(gold, probe, 0) == []
    assert search_probe(gold, probe.model_copy(update={"edit_ids": ()}), 5) == []
    with pytest.raises(BadSettings, match="not in a chain"):
        gold.search("anything", 1)
    assert GoldRetriever(ExactCorpus.of([], LexicalEmbedding())).search("anything", 1) == []
    asked = search_probe(BM25(CORPUS), probe.model_copy(update={"query": TEXTS[4]}), 1)
    assert asked[0].entry.text == TEXTS[4]
