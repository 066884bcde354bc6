"""A small version of `tests/benchmarks/bench_evolving.py`: facts that change among others that do not."""

import pytest

from emend.memory.embed import LexicalEmbedding
from tests.benchmarks.bench_evolving import facts, measure, unrelated

PAIRS = 25


@pytest.mark.parametrize("form", ["triplet", "document"])
def test_the_current_value_is_found_and_none_that_it_superseded(form):
    told = facts(PAIRS, form)
    others, embedding = unrelated(150, form, told), LexicalEmbedding(512)
    kept = measure(told, others, embedding, "arrival")
    assert (kept.pairs, kept.right, kept.current, kept.stale) == (PAIRS, PAIRS, PAIRS, 0)
    assert (kept.history, kept.withdrawn) == (PAIRS, PAIRS)
    plain = measure(told, others, embedding, "never")
    assert plain.stale == PAIRS and plain.stale_first > PAIRS / 3


def test_facts_read_out_of_documents_leave_less_that_is_stale():
    told = facts(PAIRS, "document")
    others, embedding = unrelated(50, "document", told), LexicalEmbedding(512)
    read, plain = (measure(told, others, embedding, "arrival", True), measure(told, others, embedding, "never"))
    assert read.current == PAIRS
    assert read.stale_first < plain.stale_first
