import time

import pytest

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.conformance import TEXTS, entries
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.focus import Focus, focused, sentences


@pytest.mark.parametrize(
    ("query", "asking"),
    [
        ("Initially  and  are zero. Toko Yasuda, performing on the", "Toko Yasuda, performing on the"),
        ("He left in 1972. Where is Lyon?", "Where is Lyon?"),
        ("Is it? It is! The twin city of Lyon is.", "The twin city of Lyon is."),
        ("A line\nThe twin city of Lyon is", "The twin city of Lyon is"),
        ('She said "no." The twin city of Lyon is', "The twin city of Lyon is"),
        ("今天下雨。里昂的姐妹城市是", "里昂的姐妹城市是"),
        ("He joined Liverpool F.C. Lyon is a twin city of", "Lyon is a twin city of"),
        ("Rain fell, snow, etc. Lyon is a twin city of", "Lyon is a twin city of"),
    ],
)
def test_sentences_before_the_last_one_are_dropped(query, asking):
    assert focused(query) == asking


@pytest.mark.parametrize(
    "query",
    [
        "The twin city of Lyon is",
        "M. S. Viswanathan's occupation is",
        "U.S. Route 129 in Florida is in",
        "Dr. Who and Mr. T play",
        "R.A. Dickey plays",
        "The Piano Sonata No. 5, Op. 10 was written by",
        "Mount St. Helens is in",
        "The album Help! by the Beatles is",
        "It rose by 3.5 percent in",
        " spaces around ",
        "",
        "...",
    ],
)
def test_a_query_of_one_sentence_is_left_as_it_is(query):
    assert focused(query) == query


@pytest.mark.parametrize(
    ("query", "asking"),
    [
        ("Rain fell. What is the twin city of Lyon? It is", "What is the twin city of Lyon? It is"),
        ("Rain fell. Peter Šťastný is an athlete. He plays", "Peter Šťastný is an athlete. He plays"),
        ("Rain fell. Where is PAX? !", "Where is PAX? !"),
        ("下雨。里昂在哪里？它在", "里昂在哪里？ 它在"),
    ],
)
def test_a_fragment_with_a_pronoun_keeps_the_sentence_before_it(query, asking):
    assert focused(query) == asking


def test_no_letter_is_lost_or_added_by_cutting():
    text = "One. Two of No. 5! Three? (Four.) Five e.g. Six… Seven。Eight"
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_long_queries_without_an_end_are_cut_in_linear_time():
    start = time.process_time()
    for odd in ("?" * 50_000, '."' * 50_000, "a." * 50_000, "\n" * 50_000):
        focused(odd)
    assert time.process_time() - start < 5  # in quadratic time it takes minutes


def test_the_inner_strategy_gets_the_part_that_asks_and_the_rest_does_not_mislead_it():
    over = ExactCorpus.of(entries(TEXTS), LexicalEmbedding())
    query = "The river Aske flows through three countries. The capital of Veldania is"
    assert BM25(over).search(query, 1)[0].entry.text == TEXTS[2]
    assert Focus(over, inner=BM25).search(query, 3) == BM25(over).search("The capital of Veldania is", 3)


@pytest.mark.parametrize(
    ("query", "asking"),
    [
        ("Question: Who is the mayor of Lyon?\nAnswer:", "Question: Who is the mayor of Lyon?"),
        ("Q: Who is the mayor of Lyon?\nA:", "Q: Who is the mayor of Lyon?"),
        ("It rained. Who is the mayor of Lyon? Answer briefly.", "Who is the mayor of Lyon?"),
        ("Who is it? Please reply in one word. Be brief.", "Who is it?"),
        ("里昂的市长是谁？请用一句话回答。", "里昂的市长是谁？"),
        ("Is it? The answer of Lyon is", "The answer of Lyon is"),
        ("Is it? In one of the towns he", "In one of the towns he"),
        ("Answer:", "Answer:"),
    ],
)
def test_a_cue_for_the_answer_is_not_part_of_the_question(query, asking):
    assert focused(query) == asking


@pytest.mark.parametrize("query", ["x" * 100_000 + " y. Who?", "a b c d. " * 20_000])
def test_a_text_without_a_question_is_processed_fast(query):
    began = time.process_time()
    focused(query)
    assert time.process_time() - began < 5
