"""Facts of a document in the form that the author can keep to: at once, or sentence by sentence."""

from typing import Any

import pytest

from emend.agents.roles.author import SHIPPED
from emend.agents.scoring import SMALL
from emend.graphs.construction.document_facts import COUNT, ask_facts, choose_sentences, read_lines
from emend.graphs.construction.pipeline import ConstructionContext
from tests.fakes import ScriptedChatModel, SizedChatModel

DOCUMENT = (
    "Pell Lock was opened in 1874 by Ana Rojo. It is closed in winter and in the first week of May. Boats pay.\n\n"
    "The keeper of Pell Lock is Luis Vera, who has two dogs."
)
REPLY = """\
Subject: Pell Lock
Answer: Ana Rojo
Question: Who opened Pell Lock?
Same question: Pell Lock was opened by which person?
Wrong answer: Eva Berg
Statement: Pell Lock was opened by Ana Rojo."""


def asked(model: ScriptedChatModel) -> Any:
    return ask_facts(ConstructionContext(model, model), DOCUMENT)


def test_a_small_author_is_asked_for_one_sentence_at_a_time_and_the_sentence_is_the_proof():
    model = SizedChatModel(reply=lambda prompt: REPLY)
    found = asked(model)
    sentences = ["Pell Lock was opened in 1874 by Ana Rojo.", "The keeper of Pell Lock is Luis Vera, who has two dogs."]
    assert [fact["sentence"] for fact in found.facts] == sentences
    assert (found.facts[0]["answer"], found.facts[0]["paraphrase"]) == (
        "Ana Rojo",
        "Pell Lock was opened by which person?",
    )
    assert found.unanswered == [] and found.usage.calls == 2
    assert all(SHIPPED["sentence_fact"].task.partition("{")[0] in call for call in model.calls)


def test_a_large_author_is_asked_for_all_facts_at_once():
    model = SizedChatModel(reply=lambda prompt: '{"facts": []}', parameters=SMALL)
    assert asked(model).facts == [] and len(model.calls) == 1 and DOCUMENT in model.calls[0]


def test_sentences_that_speak_of_something_before_them_or_are_short_are_not_asked_about():
    assert choose_sentences(DOCUMENT) == [DOCUMENT.partition(" It")[0], DOCUMENT.rpartition("\n")[2]]
    assert len(choose_sentences("Pell Lock was opened in 1874 by Ana Rojo. " * 20)) == COUNT


@pytest.mark.parametrize(
    "reply",
    [
        REPLY.partition("\n")[2].join(("Pell Lock\n", "")),
        f"**{REPLY}**",
        REPLY.replace("?", "").replace("Answer: Ana Rojo", 'answer: "Ana Rojo".'),
        f"Here you are:\n\n{REPLY}\n\nSentence: The next one.",
    ],
    ids=["begun", "bold", "without marks", "with talk"],
)
def test_lines_are_read_whatever_stands_around_them(reply: str):
    lines = read_lines(reply)
    assert (lines["subject"], lines["answer"], lines["question"]) == ("Pell Lock", "Ana Rojo", "Who opened Pell Lock?")
    assert lines["statement"] == "Pell Lock was opened by Ana Rojo." and len(lines) == 6


def test_a_reply_without_a_line_gives_no_fact_and_its_sentence_a_problem():
    assert "question" not in read_lines(REPLY.replace("Question:", "Ask:", 1))
    found = asked(SizedChatModel(reply=lambda prompt: DOCUMENT))
    assert found.facts == [] and found.usage.calls == 2
    assert set(found.problems.values()) == {"the line 'Answer' is missing"}


def test_a_new_attempt_says_what_was_wrong_with_each_sentence_and_says_nothing_twice():
    model = SizedChatModel(reply=lambda prompt: REPLY)
    context, first, last = ConstructionContext(model, model), *choose_sentences(DOCUMENT)
    state: Any = {
        "problems": {last: "the answer 'Ana Rojo' is not in the sentence"},
        "sent_problems": {first: "", last: ""},
    }
    again = ask_facts(context, DOCUMENT, state)
    assert len(model.calls) == 1 and "the answer 'Ana Rojo' is not in the sentence" in model.calls[0]
    assert ask_facts(context, DOCUMENT, state | {"sent_problems": again.sent_problems}).usage.calls == 0
