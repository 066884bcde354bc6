"""The specifics of a gold answer: what a reply gives of them, whatever else it says."""

import pytest

from emend.agents.judging.specifics import LEAST, best_coverage, coverage, find_specifics, side_of

MEAL, DATE = "What meal did they cook?", "When was Kelp Light built?"


@pytest.mark.parametrize(
    ("question", "gold", "reply"),
    [
        (MEAL, "a pizza", "They made two large pizzas."),
        (MEAL, "vegetable icecream", "Ice cream of vegetables"),
        (DATE, "7 May 1903", "It was finished on May 7th, 1903."),
        ("How many ships came?", "5", "Five of them"),
        ("How often did they win?", "twice", "2 times"),
        ("What did it cost?", "1,204 pounds", "£1204"),
        ("Who leads the museum?", "Halvard Brenn", "Brenn does"),
        ("Where is she from?", "Zürich", "from Zurich"),
        ("Which body decided?", "the United Nations", "It was the U.N."),
        ("Which body decided?", "NASA", "The National Aeronautics and Space Administration"),
        ("Is Norway a kingdom?", "yes", "Norway is a kingdom."),
        ("Is Norway a republic?", "No", "Norway isn't one."),
        ("Would she rather ski or swim?", "ski", "She would ski."),
        ("Which park is it, the old park?", "the old park", "The old park."),
        ("东京在哪里?", "日本", "在日本"),
    ],
)
def test_a_right_reply_gives_the_specifics_in_other_forms(question, gold, reply):
    assert coverage(question, gold, reply).share >= LEAST


@pytest.mark.parametrize(
    ("question", "gold", "reply"),
    [
        (MEAL, "a pizza", "Some kind of home-made dinner that they cooked together"),
        (DATE, "7 May 1903", "In the spring of 1903"),
        (DATE, "1903", "Early in the twentieth century"),
        ("How many ships came?", "5", "Several ships came"),
        ("Who leads the museum?", "Halvard Brenn", "An experienced person leads the museum"),
        ("Is Norway a kingdom?", "yes", "It depends on how one looks at it."),
        ("Is Norway a republic?", "No", "Yes"),
        (MEAL, "a pizza", ""),
    ],
)
def test_a_vague_or_wrong_reply_gives_none(question, gold, reply):
    assert coverage(question, gold, reply).present == ()


def test_words_of_the_question_are_no_specifics_unless_there_are_no_others():
    (specific,) = find_specifics("Which school of art?", "an art school in Bergen")
    assert specific.text == "bergen"
    assert [each.text for each in find_specifics("Which old park?", "the old park")] == ["old", "park"]


def test_the_alias_that_is_covered_best_counts():
    covered = best_coverage("Who?", ("Halvard Brenn", "the director of the museum"), "The director.")
    assert covered.present and best_coverage("Who?", (), "Anybody").share == 1.0


def test_a_long_gold_answer_needs_more_than_one_common_word():
    gold = "She wants to see fjords, glaciers, whales, harbours, lighthouses and her aunt in the north of Norway"
    assert coverage("Why does she travel?", gold, "To spend time with an aunt").share < LEAST


@pytest.mark.parametrize(
    ("text", "side"),
    [("Yes, likely", "yes"), ("**No**", "no"), ("Probably not", "no"), ("No. 5", ""), ("Nobody", ""), ("Oslo", "")],
)
def test_the_side_is_what_a_text_begins_with(text, side):
    assert side_of(text) == side
