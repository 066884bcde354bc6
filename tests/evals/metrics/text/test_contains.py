import json
from pathlib import Path

import pytest

from emend.agents.parsing.passages import read_passage
from emend.evals.metrics.text.contains import asserts, read_all_parts
from tests.params import first_quick

REPLIES = Path(__file__).parents[3] / "data/replies"
RIVAL = "United States of America"


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("The author of Gossip Girl comes from Germany.", True),
        ("She is from Germany, not the United States.", True),
        ("Cecily von Ziegesar is a citizen of", False),
        ("Germany is not her country; she is American", False),
        ("Germany or the United States", False),
        ("Germany, France, Italy and Spain", False),
        ("Is Ana from Germany?", False),
    ],
)
def test_a_gold_answer_counts_where_a_person_would_count_it(reply, right):
    assert asserts(read_passage(reply), ["Germany"], [RIVAL]) == right


@pytest.mark.parametrize(
    ("passage", "gold", "right"),
    [
        ("She was born in New York", "York", False),
        ("It is written in C", "C", True),
        ("It is written in C++", "C", False),
        ("She works in IT", "IT", True),
        ("It is not known", "IT", False),
        ("首都是奥斯特里姆", "奥斯特里姆", True),
    ],
)
def test_short_names_and_names_inside_longer_ones(passage, gold, right):
    assert asserts(passage, [gold]) == right


@pytest.mark.parametrize(
    ("passage", "question", "right"),
    [
        ("8850 / 29.2 = 3250", "How many metres high is Mount Everest?", False),
        ("8,850 x 2 = 17,700.", "How many metres high is Mount Everest?", False),
        ("8000 + 850 = 8850", "How many metres high is Mount Everest?", True),
        ("It is 8850 m; 8850 m * 3.28 = 29,028 ft", "How many metres high is Mount Everest?", True),
        ("8850 + 10 = 8860", "What and 10 make 8860?", True),
    ],
)
def test_a_term_of_a_calculation_is_no_answer_unless_the_question_names_the_result(passage, question, right):
    assert asserts(passage, ["8850"], [], question) == right


def test_a_reply_that_adds_ten_thousand_times_is_read_in_time_that_grows_with_its_length():
    # Minutes if the search began anew at each term.
    assert asserts(f"7 {'+ 7 ' * 10_000}= x", ["7"])


@pytest.mark.parametrize(
    ("passage", "gold", "right"),
    [
        ("It has 1,500 members", "500", False),
        ("It has 1,500 members", "1,500", True),
        ("It is 1.5 km long", "5", False),
        ("She was born on 12.05.2011", "2011", True),
        ("It began on May 3,2011", "2011", True),
        ("The game was not released until 2005", "2005", True),
    ],
)
def test_a_number_counts_as_a_whole(passage, gold, right):
    assert asserts(passage, [gold]) == right


@pytest.mark.parametrize(
    ("passage", "gold", "right"),
    [
        ("David Davis Davis Davis Davis", "David Davis", True),
        ("David Davis Davison", "David Davis", False),
        ("David Davis Davis Smith", "David Davis", False),
        ("Sweden Sweden Sweden Sweden", "Sweden", True),
    ],
)
def test_a_name_may_be_said_again_and_again_by_a_model_in_a_loop(passage, gold, right):
    assert asserts(passage, [gold]) == right


@pytest.mark.parametrize(
    ("passage", "gold", "right"),
    [
        ("He is an American actor", "Captain America", False),
        ("It belongs to an American bank", "Bank of America", False),
        ("He is American", "United States of America", True),
        ("In 2021, after a referendum, Ostrim became the capital", "Ostrim", True),
        ("She was born in Berlin, Germany, and studied in Paris", "Berlin", True),
        ("Jazz, blues, and rock", "Jazz", False),
        ("It plays hip-hop, R&B, and electronic dance music", "hip hop music", False),
        ("Germany, the Netherlands, and Spain", "Germany", False),
        ("love, faith, and strength", "love, faith, and strength", True),
        ("It is the space, furniture and decor.", "space, furniture and decor", True),
        ("the space, furniture, decor and light", "space, furniture, decor", False),
        ("The chairman is none other than Tim Cook", "Tim Cook", True),
        ("Leonardo painted it and its date is unknown", "Leonardo", True),
        ("Ostrim and Kestrel are not capitals", "Ostrim", False),
        ("The capital was not Ostrim until 2020", "Ostrim", False),
    ],
)
def test_what_stands_around_a_name_makes_it_no_other_one_and_no_list(passage, gold, right):
    assert asserts(passage, [gold]) == right


def test_a_question_about_the_past_makes_a_past_name_right():
    passage = "Istanbul was previously called Constantinople"
    assert asserts(passage, ["Constantinople"], question="What was Istanbul previously called?")
    assert not asserts(passage, ["Constantinople"], question="What is its name?")


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("Apple Music was created by Microsoft.", True),
        ("Apple Music was created by Apple, a competitor of Microsoft.", False),
        ("Although many know it from Apple, it was created by Microsoft.", True),
        ("Apple told of Microsoft first.\nTherefore, the answer is Microsoft.", True),
        ("While Microsoft sells it, somebody else created it.", False),
        ("Microsoft Group", True),
    ],
)
def test_a_rival_counts_where_the_question_does_not_name_it_in_that_form(reply, right):
    assert asserts(read_passage(reply), ["Microsoft"], ["Apple"], "Apple Music was created by") == right


def test_the_year_of_a_date_is_part_of_the_answer():
    assert not asserts("It was finished on March 31, 1889, and known by 1891", ["March 31, 1891"])
    assert asserts("She was born in Dublin City", ["Dublin City, Ireland"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "count", "agreed", "accepted"),
    first_quick(
        [
            ("blind_edited.jsonl", 210, 0.98, 0.005),
            ("blind.jsonl", 189, 0.96, 0.0),
            ("[!b]*.jsonl", 637, 0.99, 0.005),
        ]
    ),
)
def test_labelled_replies_of_models_are_scored_as_people_label_them(files, count, agreed, accepted):
    """Labels are older than the rule, or by a reader who had not seen it; first figures: docs/reference/concepts.md."""
    rows = [json.loads(line) for file in REPLIES.glob(files) for line in file.read_text("utf-8").splitlines()]
    verdicts = [
        (
            asserts(read_passage(r["reply"], r["form"] == "plain"), r["gold"], [r["rival"]], r["prompt"]),
            r["label"] == "right",
        )
        for r in rows
    ]
    assert len(rows) == count
    assert sum(verdict == right for verdict, right in verdicts) / count >= agreed
    assert sum(verdict and not right for verdict, right in verdicts) / count <= accepted


@pytest.mark.parametrize(
    ("passage", "golds", "rule"),
    [
        (
            "A conference in July, and long before it a poetry reading.",
            ["Poetry reading, conference"],
            "each of the golds",
        ),
        ("chess, Go and bridge", ["chess", "Go"], "each of the golds"),
        ("She plays chess.", ["chess", "Go"], "of several golds, Go: the answer is not named"),
        ("She plays chess, but not Go.", ["chess, Go"], "of several golds, Go: denied"),
        ("It is Paris.", ["Paris"], "as it is"),
    ],
)
def test_an_answer_of_several_parts_wants_each_in_any_order(passage, golds, rule):
    reading = read_all_parts(passage, golds, question="What did she do?")
    assert (reading.rule, reading.right) == (rule, not rule.startswith("of several"))


def test_a_list_is_no_name_with_names_between_left_out():
    question = "Sort the cities Montreal, Kelowna and Toronto from east to west."
    assert not asserts("The order is Toronto, Kelowna, Montreal.", ["Kelowna, Toronto, Montreal"], question=question)
    assert asserts("It is by Martin King.", ["Martin Luther King"])
