"""Sentences of streams and what is read in them."""

import pytest

from emend.agents.tiny.world import relations
from emend.evals.streams.sentences.wordings import ask, read_question, read_turn, state
from emend.evals.streams.turn import FactClaim

NOUNS = [each.noun for each in relations().values()]


@pytest.mark.parametrize("noun", [*NOUNS, "shoe size"])
def test_three_wordings_of_each_relation_are_read_as_the_same_fact(noun: str):
    claims = {read_turn(state(noun, "Vireus Seduov", "Luncleor", wording)) for wording in range(3)}
    assert claims == {(FactClaim(subject="Vireus Seduov", relation=noun, object="Luncleor"),)}


@pytest.mark.parametrize("noun", NOUNS)
def test_questions_are_read_as_the_path_that_they_ask_along(noun: str):
    target = read_question(ask("Vireus Seduov", (noun, "head of state", noun)))
    assert target is not None
    assert (target.subject, target.path) == ("Vireus Seduov", (noun, "head of state", noun))


@pytest.mark.parametrize("text", ["", "Hello!", "How is Ana today?", "What if Ana works for Orsa?", "Rule: be nice."])
def test_other_texts_state_nothing(text: str):
    assert read_turn(text) == ()


@pytest.mark.parametrize("text", ["", "Who?", "Where did Ana go?"])
def test_other_questions_are_not_read(text: str):
    assert read_question(text) is None
