"""Questions joined from facts of several documents, and facts next to each other."""

import pytest

from emend.evals.construction.sources.questions import PlacedFact, near_facts, two_hop_questions


def fact(subject: str, question: str, answer: str, description: str = "", document: str = "") -> PlacedFact:
    fields = {"subject": subject, "question": question, "answer": answer, "description": description}
    return PlacedFact(document or subject, document or f"{subject} ... {answer}", fields)


BUILDER = fact("Pell Lock", "Who built Pell Lock?", "Ana Rojo", "the builder of Pell Lock")
BIRTH = fact("Ana Rojo", "Where was Ana Rojo born?", "Skien")
AGE = fact("Ana Rojo", "How old was Ana Rojo when she left the town?", "nineteen")


def test_two_facts_that_meet_become_one_question_with_the_second_answer():
    (hops,) = two_hop_questions([BUILDER, BIRTH])
    assert hops.question == "Where was the builder of Pell Lock born?"
    assert (hops.first, hops.second) == (BUILDER, BIRTH)


def test_an_article_before_the_subject_goes_and_the_question_begins_with_a_capital():
    operator = fact("Skerry Harbour", "Who runs Skerry Harbour?", "The Calder Line", "the operator of Skerry Harbour")
    seat = fact("Calder Line", "The Calder Line has its seat where?", "Skien")
    (hops,) = two_hop_questions([operator, seat])
    assert hops.question == "The operator of Skerry Harbour has its seat where?"


def test_a_subject_is_replaced_in_any_case():
    operator = fact("Skerry Harbour", "Who runs Skerry Harbour?", "the Calder line", "the operator of Skerry Harbour")
    seat = fact("Calder line", "Where does the Calder Line have its seat?", "Skien")
    (hops,) = two_hop_questions([operator, seat])
    assert hops.question == "Where does the operator of Skerry Harbour have its seat?"


def replaced(placed: PlacedFact, **fields: str) -> PlacedFact:
    return placed._replace(fact={**placed.fact, **fields})


@pytest.mark.parametrize(
    "facts",
    [
        [replaced(BUILDER, description=""), BIRTH],
        [BUILDER, BIRTH._replace(document=BUILDER.document)],
        [BUILDER, replaced(BIRTH, subject="Eva Berg", question="Where was Eva Berg born?")],
        [BUILDER, replaced(BIRTH, question="Was Ana Rojo of Pell Lock born in Skien?")],
        [BUILDER, replaced(BIRTH, question="Where was Ana Rojo, called Ana Rojo, born, near Skien or not?")],
        [BUILDER, replaced(BUILDER, answer="Eva Berg", question="Who else built Pell Lock?"), BIRTH],
    ],
    ids=["no description", "one document", "no meeting", "answer given", "answer given twice", "two answers"],
)
def test_facts_that_do_not_meet_or_would_give_an_answer_away_are_not_joined(facts: list[PlacedFact]):
    assert list(two_hop_questions(facts)) == []


def test_near_facts_have_the_subject_or_the_relation_and_another_answer():
    other_lock = fact("Tarn Lock", "Who built Tarn Lock?", "Luis Vera")
    same_answer = fact("Orsa Lock", "Who built Orsa Lock?", "Ana Rojo")
    far = fact("Skerry", "When did Skerry open?", "1902")
    country = fact("Pell Lock", "In which country is Pell Lock?", "Norway")
    everything = [BUILDER, other_lock, same_answer, far, country, BIRTH]
    assert near_facts(BUILDER, everything) == [other_lock, country]
    assert near_facts(BIRTH, [BIRTH, AGE, far]) == [AGE]
