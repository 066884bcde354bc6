import time
import tomllib

import pytest

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.conformance import TEXTS, entries
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.focus import Focus, focused, sentences
from tests.paths import DATA

CASES = tomllib.loads((DATA / "retrieval/focus.toml").read_text("utf-8"))


@pytest.mark.parametrize(("query", "asking"), [case for cases in CASES.values() for case in cases])
def test_a_query_is_cut_to_the_part_that_asks(query, asking):
    assert focused(query) == asking


def test_cutting_loses_and_adds_no_letter_in_linear_time():
    text = "One. Two of No. 5! Three? (Four.) Five e.g. Six… Seven。Eight"
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
    start = time.process_time()
    for odd in ("?" * 50_000, '."' * 50_000, "a." * 50_000, "\n" * 50_000):
        focused(odd)
    assert time.process_time() - start < 5  # in quadratic time it takes minutes


def test_the_inner_strategy_gets_the_part_that_asks_and_the_rest_does_not_mislead_it():
    over = ExactCorpus.of(entries(TEXTS), LexicalEmbedding())
    query = "The river Aske flows through three countries. The capital of Veldania is"
    assert BM25(over).search(query, 1)[0].entry.text == TEXTS[2]
    assert Focus(over, inner=BM25).search(query, 3) == BM25(over).search("The capital of Veldania is", 3)


@pytest.mark.parametrize("query", ["x" * 100_000 + " y. Who?", "a b c d. " * 20_000])
def test_a_text_without_a_question_is_processed_fast(query):
    began = time.process_time()
    focused(query)
    assert time.process_time() - began < 5
