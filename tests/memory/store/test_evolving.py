"""A small version of `tests/benchmarks/bench_evolving.py`: facts that change among others that do not."""

import pytest

from emend.graphs.extraction.graph import extract_edits
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.store.chroma import ChromaMemory
from tests.benchmarks.bench_evolving import VARIED, facts, measure, unrelated

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


def test_extracted_facts_leave_fewer_stale_entries():
    told = facts(PAIRS, "document")
    others, embedding = unrelated(50, "document", told), LexicalEmbedding(512)
    read = measure(told, others, embedding, "arrival", True)
    assert (read.right, read.stale, read.unread, read.lost) == (PAIRS, 0, 0, 0)
    worded = measure(told, others, embedding, "arrival", True, normalisation=False)
    plain = measure(told, others, embedding, "never")
    assert worded.current == PAIRS and 0 < worded.stale_first < plain.stale_first


def test_more_paraphrases_leave_only_unparsable_facts_stale():
    told = facts(PAIRS, "document", wordings=VARIED)
    others, embedding = unrelated(20, "document", told, VARIED), LexicalEmbedding(512)
    read, plain = (measure(told, others, embedding, "arrival", True), measure(told, others, embedding, "never"))
    assert read.unread > 0 and read.lost == 0 and read.current == PAIRS
    assert read.stale < plain.stale and read.stale_first < plain.stale_first / 2


@pytest.mark.parametrize(("validation", "current"), [("both", 2), ("subject", 1)])
def test_a_value_that_is_no_name_is_superseded_where_the_subject_alone_is_validated(validation, current):
    texts = ["The sport of Toleix is cycling.", "Toleix's new sport is rowing."]
    embedding = LexicalEmbedding()
    edits = extract_edits(
        [Edit(form="document", text=text) for text in texts], embedding=embedding, validation=validation
    )
    with ChromaMemory(None, embedding, superseding="arrival") as memory:
        memory.add(edits)
        kept = {entry.text for entry in memory.view().entries()}
    assert kept == set(texts[-current:])
