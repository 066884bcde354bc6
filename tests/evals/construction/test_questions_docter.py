"""Questions about fifty of DocTER's documents, whose facts a scripted author knows, and an oracle who reads them."""

import json
from pathlib import Path

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.build import build
from emend.evals.data.facts.fact_formats import read_facts
from emend.evals.evaluate.run import run
from emend.evals.results.aggregate.rows import report
from emend.graphs.construction.document_facts import DocumentFact, DocumentFacts
from emend.graphs.extraction.sentences import split_sentences
from tests.evals.construction.authors import TASKS
from tests.paths import SHARED
from tests.provider.protocols import Asked
from tests.provider.server import Provider

DOCTER = SHARED / "data" / "docter"
COUNT = 50
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DOCTER.is_dir(), reason=f"no real data at {DOCTER}")]


def rows(name: str) -> list[dict[str, str]]:
    return list(json.loads((DOCTER / name).read_bytes())["data"])


class Oracle:
    """Knows the facts of the documents: as the author writes them down, as a reader finds them in a document alone."""

    def __init__(self) -> None:
        facts = {row["id"]: row for row in rows("gold_facts.json")}
        pairs = ((row["src"].strip(), facts[row["id"]]) for row in rows("en_doc.json")[: 2 * COUNT])
        self.facts = {text: fact for text, fact in pairs if fact["altered_target"] in text}
        self.documents = list(self.facts)[:COUNT]

    def __call__(self, asked: Asked) -> str:
        prompt = asked.prompt
        document = next((text for text in self.documents if text in prompt), "")
        if not document:
            return "I do not know."
        fact = self.facts[document]
        if TASKS["document_facts"] not in prompt:
            return fact["altered_target"]
        return DocumentFacts(facts=[written(fact, document)]).model_dump_json()


def written(fact: dict[str, str], document: str) -> DocumentFact:
    new = fact["altered_target"]
    return DocumentFact(
        sentence=next(sentence for sentence in split_sentences(document) if new in sentence),
        subject=fact["subject"],
        question=f"What completes this: {fact['prompt']} ...?",
        paraphrase=f"Which word or name comes next in: {fact['prompt']} ...?",
        answer=new,
        wrong_answer=fact["original_target"],
        statement=f"{fact['prompt']} {new}.",
    )


def test_fifty_documents_give_two_hundred_probes_that_only_a_reader_of_them_answers(tmp_path: Path):
    oracle, folder = Oracle(), tmp_path / "documents"
    folder.mkdir()
    for number, text in enumerate(oracle.documents):
        (folder / f"{number:03}.txt").write_text(text)
    with Provider(oracle) as provider:
        model = provider.spec("chat")
        build("questions", BuildConfig(source=str(folder), model=model), tmp_path / "built")
        editors = ("unedited", "in_context")
        run(RunConfig(benchmark=str(tmp_path / "built"), editors=editors, model=model), tmp_path / "run")
    facts = read_facts(str(tmp_path / "built" / "questions.jsonl"))
    assert sum(len(row.case.probes) for row in facts) >= 200
    assert all(str(row.tags["proof"]) in str(row.document) for row in facts)
    scores = {row.editor: row.mean or 0.0 for row in report(tmp_path / "run").rows if row.metric == "efficacy"}
    assert scores["in_context"] >= 95 and scores["unedited"] <= 10
