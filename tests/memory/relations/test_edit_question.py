"""Questions that an edit answers by itself, and others in nearly the same words."""

import pytest

from emend.memory.edit import Edit, Triplet
from emend.memory.relations.edit_question import asks_for


def edit_of(subject: str, relation: str, target: str, prompt: str, question: str = "") -> Edit:
    return Edit.from_triplet(Triplet(subject=subject, relation=relation, object=target), prompt, question=question)


MAYOR = edit_of("Kesselby", "mayor", "Paul", "The mayor of {} is", "Who is the mayor of Kesselby?")
BORN = edit_of("Ana", "P19", "Brask", "{} was born in the city of", "Which city was Ana born in?")
FOUNDER = edit_of("Acme", "founded by", "Eva", "{} was founded by", "Who was Acme founded by?")
GERMAN = edit_of("Brask", "P6", "Ida", "{} regiert", "Wer ist der Bürgermeister von Brask?")


@pytest.mark.parametrize(
    ("question", "edit"),
    [
        ("The mayor of Kesselby is", MAYOR),
        ("who is the mayor of kesselby", MAYOR),
        ("What is the name of the mayor of Kesselby?", edit_of("Kesselby", "name of the mayor", "Paul", "{}: mayor")),
        ("Kesselby's mayor?", MAYOR),
        ("Ana was born in the city of", BORN),
        ("What city was Ana born in?", BORN),
        ("Who was Acme founded by?", FOUNDER),
        ("Wer ist der Bürgermeister von Brask?", GERMAN),
    ],
)
def test_an_edit_answers_what_asks_for_its_fact(question: str, edit: Edit):
    assert asks_for(question, edit.triplets[0], edit)


@pytest.mark.parametrize(
    ("question", "edit"),
    [
        ("Who is the mayor of Brask?", MAYOR),
        ("When was the mayor of Kesselby?", MAYOR),
        ("Who is the spouse of the mayor of Kesselby?", MAYOR),
        ("Who is the mayor of the mayor of Kesselby?", MAYOR),
        ("Where is Kesselby?", MAYOR),
        ("When was Ana born in the city?", BORN),
        ("Which city is Ana from?", BORN),
        ("Which city was Anabel born in?", BORN),
        ("Who was founded by Acme?", FOUNDER),
        ("Who founded Acme in Brask?", FOUNDER),
        ("Wo ist Brask?", GERMAN),
        ("", MAYOR),
    ],
)
def test_other_questions_about_the_subject_are_left_to_a_plan(question: str, edit: Edit):
    assert not asks_for(question, edit.triplets[0], edit)


def test_of_an_edit_with_several_facts_the_prompt_is_that_of_its_subject():
    both = MAYOR.model_copy(
        update={"triplets": (*MAYOR.triplets, Triplet(subject="Paul", relation="age", object="40"))}
    )
    assert asks_for("What is the age of Paul?", both.triplets[1], both)
    assert not asks_for("Who is the mayor of Kesselby?", both.triplets[1], both)
