"""LoCoMo's F1 and BEAM's order of events, as their codes compute them."""

import pytest

from emend.agents.judging.event_order import events_of, order_scores
from emend.evals.metrics.scorers import score
from emend.evals.metrics.text.locomo_f1 import locomo_f1, stemmed_words
from emend.memory.probe import Answer, Probe


def test_words_are_stems_without_articles_punctuation_and_case():
    assert stemmed_words("The Dogs, and a cat's toys!") == ["dog", "cat", "toi"]
    assert stemmed_words("1,000 painting") == ["1000", "paint"]


@pytest.mark.parametrize(
    ("kind", "reply", "gold", "value"),
    [
        ("single_hop", "a grey cat", "the cat", 2 / 3),
        ("single_hop", "", "the cat", 0.0),
        ("temporal", "7 May 2023", "7 May 2023", 1.0),
        ("multi_hop", "pottery, camping", "camping, swimming, pottery", 2 / 3),
        ("single_hop", "pottery, camping", "camping, swimming, pottery", 0.8),
        ("open_domain", "likely no", "Likely no; she wants to be a counsellor", 1.0),
        ("adversarial", "That was Not Mentioned.", "unknown", 1.0),
        ("adversarial", "I do not know", "unknown", 0.0),
    ],
)
def test_f1_is_that_of_the_category(kind: str, reply: str, gold: str, value: float):
    assert locomo_f1(kind, reply, gold) == pytest.approx(value)


def test_a_question_without_a_published_answer_has_no_f1():
    probe = Probe(kind="single_hop", prompt="?", gold=("unknown",), scorers=("locomo_f1",), abstains=True)
    scores = score(probe, Answer(text="not mentioned"))
    assert not scores.values and "no published answer" in scores.unscored["locomo_f1"]


@pytest.mark.parametrize(
    ("reply", "events"),
    [
        ("1. Login\n2) Charts\n\n- Tests", ["Login", "Charts", "Tests"]),
        ("1) Login, 2) Charts, 3) Tests", ["Login", "Charts", "Tests"]),
        ("You mentioned, in this order: 1) Login, 2) Charts", ["Login", "Charts"]),
        ("**In this order:**\n\n1. Login\n2. Charts: bars", ["Login", "Charts: bars"]),
        ("In this order:", ["In this order:"]),
        ("It was one thing.", ["It was one thing."]),
        ("", []),
    ],
)
def test_events_are_lines_or_numbered_items(reply: str, events: list[str]):
    assert events_of(reply) == events


@pytest.mark.parametrize(
    ("count", "matches", "f1", "tau"),
    [
        (3, [0, 1, 2], 1.0, 1.0),
        (3, [2, 1, 0], 1.0, 0.0),
        (3, [0, 2, 1], 1.0, (1 / 3 + 1) / 2),
    ],
)
def test_order_is_tau_b_from_0_to_1_times_f1(count: int, matches: list[int | None], f1: float, tau: float):
    scores = order_scores(count, matches)
    assert (scores.f1, scores.tau, scores.score) == pytest.approx((f1, tau, f1 * tau))


def test_missing_and_strange_events_share_the_last_rank():
    # of a, b, c and x the ranks are 1 2 3 5 and 5 1 5 2: two pairs agree, three do not, and one is tied
    scores = order_scores(3, [1, None])
    assert scores.f1 == pytest.approx(0.4)
    assert scores.tau == pytest.approx((1 - 1 / 30**0.5) / 2)


def test_a_single_event_has_no_order_and_a_list_without_a_right_event_is_worth_nothing():
    assert order_scores(1, [0]) == (1.0, None, None)
    assert order_scores(3, [None, None]) == order_scores(2, []) == (0.0, None, 0.0)


def test_events_are_compared_by_an_encoder():
    probe = Probe(
        kind="event_ordering", prompt="?", gold=("x",), scorers=("event_order",), rubric=("Painting", "Swimming")
    )
    values = score(probe, Answer(text="1. Swimming\n2. Painting")).values
    assert values == {"event_order": 0.0, "event_f1": 1.0, "event_tau": 0.0}
