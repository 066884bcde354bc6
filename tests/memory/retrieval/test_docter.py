"""How often the right one of 300 real documents is found first, without a language model."""

import json

import pytest

from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.registry import RETRIEVERS
from tests.paths import SHARED

DOCTER = SHARED / "data/docter"


def _rows(name: str) -> list[dict]:
    rows: list[dict] = json.loads((DOCTER / name).read_text("utf-8"))["data"]
    return rows


@pytest.fixture(scope="module")
def docter():
    if not (DOCTER / "en_doc.json").is_file():
        pytest.skip(f"no DocTER files in {DOCTER}")
    asked = _rows("edit_success_eval.json")[:300]
    documents = {row["id"]: row["src"] for row in _rows("en_doc.json")}
    edits = [Edit(id=str(row["id"]), form="document", text=documents[row["id"]]) for row in asked]
    found = [Entry(id=edit.id, edit_id=edit.id, text=edit.text) for edit in edits]
    return ExactCorpus.of(found, LexicalEmbedding()), asked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "plain", "paraphrased"),
    [("bm25", 0.98, 0.94), ("dense", 0.97, 0.82), ("hybrid", 0.98, 0.95), ("focus", 0.98, 0.98)],
)
def test_the_document_of_a_query_comes_first_as_often_as_measured(docter, name, plain, paraphrased):
    corpus, asked = docter
    retriever = RETRIEVERS.load(name)(corpus)

    def hit(query: str, of: int) -> bool:
        hits = retriever.search(query, 1)
        return bool(hits) and hits[0].entry.edit_id == str(of)

    queries = [hit(row["query"], row["id"]) for row in asked]
    paraphrases = [hit(query, row["id"]) for row in asked for query in row["paraphrase_query"]]
    assert plain <= sum(queries) / len(queries) < 1
    assert paraphrased <= sum(paraphrases) / len(paraphrases) < 1
