"""Filters of questions that stand alone, in several languages."""

import pytest

from emend.graphs.construction.filters.questions import find_several, find_yes_no


@pytest.mark.parametrize(
    "question",
    [
        "Where was Ana Rojo born? Who is mayor there?",
        "Which team does she play for, and who coaches it?",
        "Wo wurde Ana Rojo geboren und wer ist dort Bürgermeister?",
        "Où est née Ana Rojo et qui est maire de cette ville ?",
        "On which continent is it: Africa, America or Asia?",
        "Who is it, A) Ana Rojo or B) Eva Lind?",
    ],
)
def test_several_questions_and_listed_answers_are_found(question: str):
    assert find_several(question)


@pytest.mark.parametrize(
    "question",
    [
        "Who is the mayor of the place where Ana Rojo was born?",
        "Name the mayor: who leads the place in which Ana Rojo was born?",
        "Who is the mayor of the city or town of Ana Rojo?",
        "Quelle est la capitale du pays d'où vient Ana Rojo ?",
    ],
)
def test_one_question_passes(question: str):
    assert find_several(question) == ""


@pytest.mark.parametrize(
    ("question", "is_yes_no"),
    [
        ("Is Ana Rojo the mayor?", True),
        ("Must Ana Rojo be the mayor?", True),
        ("Ist Ana Rojo Bürgermeisterin?", True),
        ("Est-ce que c'est Ana Rojo ?", True),
        ("安娜·罗霍是市长吗？", True),
        ("安娜·罗霍是不是市长？", True),
        ("Do you know who the mayor is?", False),
        ("Can you tell me who the mayor is?", False),
        ("Who is the mayor?", False),
        ("市长是谁？", False),
        ("市長は誰か?", False),
        ("彼女は市長ですか?", True),
    ],
)
def test_questions_to_be_answered_by_yes_or_no_are_told_apart(question: str, is_yes_no: bool):
    assert bool(find_yes_no(question)) == is_yes_no
