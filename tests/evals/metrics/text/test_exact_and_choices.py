"""Replies against gold answers and choices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emend.evals.metrics.text.choices import parse_choice, parse_truth
from emend.evals.metrics.text.exact import exact_match, fold, normalise


@pytest.mark.parametrize(
    ("reply", "gold"),
    [
        ("Paris", "Paris"),
        (" paris. ", "Paris"),
        ("the United States!", "United States"),
        ("“Le Monde”", "Le Monde"),
        ("\n\nParis\nPrompt: the next one", "Paris"),
        ("New   York", "New York"),
        ("ＮＨＫ。", "NHK"),
        ("STRASSE", "Straße"),
        ("e\u0301clair", "\u00e9clair"),
        ("北京。", "北京"),
    ],
)
def test_spelling_of_the_same_answer_does_not_matter(reply, gold):
    assert exact_match(reply, [gold]) == 1.0


@pytest.mark.parametrize(
    ("reply", "gold"),
    [
        ("C", "C++"),
        ("ACDC", "AC/DC"),
        ("Paris, France", "Paris"),
        ("", "Paris"),
        ("...", "Paris"),
        ("", ""),
        ("A", "B"),
    ],
)
def test_another_answer_is_no_match(reply, gold):
    assert exact_match(reply, [gold]) == 0.0


def test_an_alias_is_as_good_as_the_answer_and_an_article_alone_is_kept():
    assert exact_match("NYC", ["New York City", "NYC"]) == 1.0
    assert normalise("A") == "a"
    assert normalise("The Who") == "who"
    assert normalise("Theatre") == "theatre"


@pytest.mark.slow
@given(st.text(max_size=40))
def test_an_answer_matches_itself_unless_it_is_only_punctuation(text):
    assert exact_match(text, [text]) == float(bool(normalise(text)))


@pytest.mark.parametrize(
    ("reply", "choices", "named"),
    [
        ("Yes.", ("yes", "no"), "yes"),
        ("It is Rome, I think.", ("Rome", "Romeo"), "Rome"),
        ("New York", ("York", "New York"), "New York"),
        ("The answer is (B)", ("A", "B"), "B"),
        ("答案是北京市", ("北京", "上海"), "北京"),
        ("no\nyes", ("yes", "no"), "no"),
        ("It is not true.", ("true", "false"), "false"),
        ("It isn't true", ("true", "false"), "false"),
        ("There is not much doubt left about it all: true", ("true", "false"), "true"),
    ],
)
def test_the_one_choice_that_a_reply_names_is_found(reply, choices, named):
    assert parse_choice(reply, choices)[0] == named


@pytest.mark.parametrize(
    ("reply", "choices", "why"),
    [
        ("perhaps", ("yes", "no"), "takes no side"),
        ("Yes and no", ("yes", "no"), "several"),
        ("New York or York", ("York", "New York"), "several"),
        ("不是英国", ("英国", "法国"), "negates"),
        ("答案并非英国。", ("英国", "法国"), "negates"),
        ("", ("yes", "no"), "empty"),
        ("Yesterday", ("yes", "no"), "none"),
        ("yes", (), "no choices"),
    ],
)
def test_a_reply_that_names_no_single_choice_is_not_guessed_at(reply, choices, why):
    named, reason = parse_choice(reply, choices)
    assert named is None
    assert why in reason


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        ("Yes, he no longer lives in Kravigrad", "yes"),
        ("No, there is no evidence", "no"),
        ("Yes. There is no doubt", "yes"),
        ("No, wait, yes", None),
        ("No, or is it yes?", None),
    ],
)
def test_a_reply_that_begins_with_a_verdict_gives_it(reply, named):
    assert parse_choice(reply, ("yes", "no"))[0] == named
    assert parse_truth(reply)[0] == {"yes": "true", "no": "false", None: None}[named]


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        ("The Eiffel Tower is indeed located in Paris, France", "yes"),
        ("The Eiffel Tower is not in Paris", "no"),
        ("True.", "yes"),
        ("That is correct.", "yes"),
        ("Indeed, the Eiffel Tower is in Paris.", "yes"),
        ("Nope", "no"),
        ("Sí.", "yes"),
        ("Ja.", "yes"),
        ("是的", "yes"),
        ("Not at all.", "no"),
        ("Absolutely not.", "no"),
        ("Of course.", "yes"),
        ("Of course not.", "no"),
        ("It isn\u2019t.", "no"),
        ("It is not.", "no"),
        ("It is indeed.", "yes"),
        ("That's not correct.", "no"),
        ("I don't think so.", "no"),
        ("I think so", "yes"),
        ("I'm afraid not.", "no"),
        ("Never.", "no"),
        ("Without a doubt.", "yes"),
        ("n", "no"),
        ("Of course not. Yes.", None),
        ("Possibly yes", None),
        ("Maybe not.", None),
        ("It is in Lyon.", None),
        ("Of course it depends.", None),
        ("Not that I know.", None),
        ("The Eiffel Tower was moved from Paris to Lyon.", None),
        ("The Eiffel Tower used to be in Paris.", None),
    ],
)
def test_a_yes_or_no_question_may_be_answered_in_other_words(reply, named):
    assert parse_choice(reply, ("yes", "no"), "Is the Eiffel Tower in Paris?")[0] == named


def test_no_before_another_word_is_no_verdict():
    assert parse_truth("No, it is not true") == ("false", "a verdict")
    assert parse_truth("No it is not") == ("false", "a verdict")
    assert parse_truth("It has no river")[0] is None


def test_yes_and_no_are_read_as_true_and_false():
    assert parse_truth("Yes, that is true.") == ("true", "a verdict")
    assert parse_truth("No.") == ("false", "a verdict")
    assert parse_truth("FALSE") == ("false", "a verdict")
    assert parse_truth("No, or is it true?")[0] is None


def test_a_text_of_symbols_alone_is_itself_and_one_of_punctuation_is_nothing():
    assert fold("🇬🇧") != fold("🇦🇹") and fold("⚾") == "⚾"
    assert fold("?!") == "" and fold("★ Ostrim ★") == "ostrim"
