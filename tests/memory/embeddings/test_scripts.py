"""Encoders of English alone say so when they get texts in other scripts."""

import logging

import pytest

from emend.memory.embeddings.scripts import ScriptWarning, is_english_only, is_foreign

NAMES = {
    "all-MiniLM-L6-v2": True, "sentence-transformers/all-mpnet-base-v2": True, "bge-small-en-v1.5": True,
    "contriever": True, "e5-base-v2": True, "mcontriever": False, "multilingual-e5-base": False, "bge-m3": False,
    "paraphrase-multilingual-MiniLM-L12-v2": False,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_encoders_of_english_alone_are_known_by_name(name):
    assert is_english_only(name) == NAMES[name]


def test_a_text_is_foreign_if_most_of_its_letters_are():
    assert is_foreign("\u0628\u0627\u0631\u064a\u0633") and is_foreign("\u0e01\u0e02 a")
    assert not is_foreign("Z\u00fcrich, \u010capek") and not is_foreign("1999") and not is_foreign("")


def test_it_is_said_once_and_of_no_other_encoder(caplog):
    warning, other = ScriptWarning("all-MiniLM-L6-v2"), ScriptWarning("bge-m3")
    with caplog.at_level(logging.WARNING):
        for texts in (["Paris"], ["\u043f\u0430\u0440\u0438\u0436", "Paris"], ["\u043f\u0430\u0440\u0438\u0436"]):
            warning.note(texts)
            other.note(texts)
    [record] = caplog.records
    assert "1 of 2 texts" in record.getMessage() and "lexical" in record.getMessage()
