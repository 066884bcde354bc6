"""The writers of the model on 127.0.0.1 by which memories of others read messages."""

import pytest

from tests.evals.streams.extraction import VERBATIM, edges_of, writer_by_rules


def test_a_message_is_one_edge_as_it_is():
    (edge,) = edges_of("user: The capital of Ostrim is Velm.", VERBATIM)
    assert edge["fact"] == "user: The capital of Ostrim is Velm."
    assert (edge["source_entity_name"], edge["relation_type"]) == ("Ostrim", "CAPITAL")


@pytest.mark.slow
def test_the_extractor_by_rules_writes_what_it_reads_alone():
    writer = writer_by_rules()
    assert writer.texts("The capital of Ostrim is Velm.") == ["The capital of Ostrim is Velm."]
    assert writer.texts("What a long day!") == []
