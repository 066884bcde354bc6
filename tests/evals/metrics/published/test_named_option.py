import pytest

from emend.evals.metrics.published.recoe import read_option

QUESTION = "Which of Anguilla, Kosovo, New Zealand and Sudan has the greatest coastline?"
CASES = [
    ("New Zealand", True),
    ("The country with the greatest coastline is New Zealand.", True),
    ("Among Anguilla, Kosovo, New Zealand, and Sudan, New Zealand has the greatest coastline.", True),
    ("New Zealand has a greater coastline than Anguilla.", True),
    ("New Zealand has the greatest coastline, followed by Sudan.", True),
    ("Anguilla, Kosovo, New Zealand and Sudan have the greatest coastline.", False),
    ("New Zealand and Sudan have the greatest coastline.", False),
    ("New Zealand, Sudan and Kosovo do.", False),
    ("Sudan has a greater coastline than New Zealand.", False),
    ("Kosovo has the greatest coastline. New Zealand is second.", False),
    ("The greatest coastline of the four: Anguilla, Kosovo, and New Zealand", False),
    ("Let us see.\n- New Zealand has 15,134 km.\n- Sudan has 853 km.\n- Kosovo has", False),
    ("The greatest coastline among Anguilla, Kosovo, New Zealand and Sudan is New Zealand. It has 15,134 km.", True),
    ("It is not New Zealand.", False),
    ("None of them.", False),
    ("", False),
]


@pytest.mark.parametrize(("passage", "right"), CASES)
def test_a_list_said_again_is_no_answer_and_the_first_option_after_it_is(passage, right):
    assert read_option(passage, ["New Zealand"], ["Sudan"], QUESTION).right is right


def test_a_long_name_said_twice_is_one_option():
    question = "Which of Jersey, Palau and Saint Vincent and the Grenadines has the greatest area?"
    passage = "the country with the greatest area is Saint Vincent and the Grenadines.\nSaint Vincent has 389 sq km."
    assert read_option(passage, ["Saint Vincent and the Grenadines"], ["Palau"], question).right
    assert not read_option(passage, ["Palau"], ["Saint Vincent and the Grenadines"], question).right


def test_a_name_with_and_in_it_is_no_list():
    names = ["Serbia", "Bosnia and Herzegovina"]
    question = "Which of Serbia and Bosnia and Herzegovina is larger?"
    assert read_option("Bosnia and Herzegovina is larger.", names[1:], names[:1], question).right
    assert not read_option("Serbia and Bosnia and Herzegovina are.", names[1:], names[:1], question).right
    question = "Which of Bosnia and Herzegovina, Czechia, Malta and Serbia has the greatest median age?"
    assert read_option("Bosnia and Herzegovina has the greatest median age.", names[1:], ["Czechia"], question).right
    assert not read_option(
        "Bosnia and Herzegovina has a greater one than Czechia.", ["Czechia"], names[:1], question
    ).right


def test_an_answer_that_the_question_does_not_name_may_stand_anywhere():
    question = "How many of Alder, Brisk and Corran have a harbour?"
    assert read_option("Of Alder, Brisk and Corran, two have a harbour.", ["2", "two"], ["3", "three"], question).right
    assert not read_option("All three of them have one.", ["2", "two"], ["3", "three"], question).right
    assert read_option("Yes, Alder is deeper than Corran.", ["yes"], ["no"], "Is Alder deeper than Corran?").right
