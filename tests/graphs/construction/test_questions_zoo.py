"""Facts of documents with questions, by hand and by a small model: each to keep, or to drop for a reason.

`first` were written in one go before the filters were run on them, `model` by Qwen2.5-Coder-0.5B-Instruct and labelled
before that too, `later` after the filters had been made to drop the first ones, most of the bad ones to evade them.
"""

from typing import NamedTuple

import pytest

from emend.agents.roles.author import SHIPPED
from emend.graphs.construction.document_facts import DocumentFact, DocumentFacts
from emend.graphs.construction.pipeline import ConstructionContext
from emend.graphs.construction.questions import build
from emend.graphs.execution import run_graph
from tests.fakes import ScriptedChatModel
from tests.graphs.construction.zoo import check_keeping, named, once, read_items, read_specimens

FILTER_OF = {
    "sentence not in document": "proof",
    "sentence altered": "proof",
    "sentence shortened": "proof",
    "sentences joined": "proof",
    "sentence empty": "proof",
    "heading as sentence": "proof",
    "answer not in sentence": "answer_in_proof",
    "answer of another sentence": "answer_in_proof",
    "answer empty": "answer_in_proof",
    "answer is a function word": "answer_in_proof",
    "answer is a pronoun": "answer_in_proof",
    "answer long": "short_answer",
    "no question": "question",
    "question empty": "question",
    "question too short": "question",
    "question without subject": "question",
    "subject is a pronoun": "question",
    "paraphrase without subject": "question",
    "two questions": "question",
    "answer in question": "leak",
    "answer in paraphrase": "leak",
    "part of the answer in the question": "leak",
    "options in the question": "leak",
    "paraphrase repeats": "paraphrase",
    "paraphrase asks something else": "answerable",
    "answer to another question": "answerable",
    "unclear question": "answerable",
    "prompt repeated": "answerable",
    "known without the document": "not_guessable",
    "speaks of the document": "about_document",
    "wrong answer is right": "wrong_answer",
    "wrong answer empty": "wrong_answer",
    "wrong answer in the sentence": "wrong_answer",
    "statement without answer": "statement",
    "statement with wrong answer": "statement",
    "statement without subject": "statement",
    "statement is a question": "statement",
    "injected instruction": "instruction",
    "address": "instruction",
    "markup": "markup",
    "placeholder": "markup",
    "other language": "language",
    "talk to the reader": "talk",
    "doubt in the statement": "talk",
    "refusal": "talk",
}
UNSEEN = "statement not true"
"""Kind that no filter and no reader of the questions sees."""


class Specimen(NamedTuple):
    """A labelled fact; `reads` and `rereads` are what a careful reader answers to its questions, `guess` without it.

    The reader gives the fact's own answer where these are None.
    """

    document: str
    fact: dict[str, str]
    label: str
    kind: str
    author: str
    written: str
    reads: str | None = None
    rereads: str | None = None
    guess: str = "I do not know."
    language: str = "en"

    def read(self, prompt: str) -> str:
        """The careful reader's reply."""
        if SHIPPED["read_without"].task in prompt:
            return self.guess
        question, answer = prompt.rpartition("Question: ")[2].partition("\n")[0], self.fact["answer"]
        reply = self.reads if question == self.fact["question"] else self.rereads
        return answer if reply is None else reply


ZOO = read_specimens("questions_zoo.jsonl", Specimen)
DOCUMENTS = read_items("questions_documents.json")
GRAPH = build()


@once
def rejecting_filter(specimen: Specimen) -> str:
    """The name of the filter that drops the fact, or an empty text."""
    reply = DocumentFacts(facts=[DocumentFact.model_validate(specimen.fact)]).model_dump_json()
    author, judge = ScriptedChatModel(reply=lambda prompt: reply), ScriptedChatModel(reply=specimen.read)
    context = ConstructionContext(author, judge, language=specimen.language, attempts=1)
    state, _ = run_graph(GRAPH, {"item": {"text": DOCUMENTS[specimen.document]}}, context)
    assert ("result" in state) != bool(state["rejections"])
    return str(state["rejections"][0]["filter"]) if state["rejections"] else ""


def text_of(each: Specimen) -> str:
    return str(each.fact["question"])


@pytest.mark.slow
def test_precision_and_recall_of_keeping_are_at_least_95_percent():
    check_keeping(ZOO, rejecting_filter)


@pytest.mark.slow
@pytest.mark.parametrize(
    "specimen", named((each for each in ZOO if each.label == "drop" and each.author == "hand"), text_of)
)
def test_a_bad_fact_is_dropped_by_the_filter_meant_for_it(specimen: Specimen):
    assert rejecting_filter(specimen) == FILTER_OF[specimen.kind]
