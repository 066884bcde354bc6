"""The scorer of answer equivalence without an encoder: values decide, not resemblance."""

import pytest

from emend.evals.metrics.equivalence.rows import RepliedQuestion
from emend.evals.metrics.equivalence.scorer import (
    THRESHOLD,
    EquivalenceScorer,
    decide,
    gives_rival,
    load_equivalence,
)
from emend.memory.embeddings.embed import LexicalEmbedding


@pytest.fixture(scope="module")
def scorer() -> EquivalenceScorer:
    return load_equivalence()


RIGHT = [
    ("Who built the bridge?", ["Ana Rojo"], "The bridge was built by Ana Rojo in 1911."),
    ("When was the bridge opened?", ["4 May 1911"], "It was opened on May 4th, 1911."),
    ("How many arches does the bridge have?", ["12"], "The bridge has twelve arches."),
    (
        "What did she do on Sunday evening?",
        ["had dinner with friends from the gym"],
        "She had dinner with some friends from the gym.",
    ),
]
WRONG = [
    ("Who built the bridge?", ["Ana Rojo"], "The bridge was built by Ben Ode in 1911."),
    ("When was the bridge opened?", ["4 May 1911"], "It was opened on May 9th, 1911."),
    ("How many arches does the bridge have?", ["12"], "The bridge has fourteen arches."),
    ("How many arches does the bridge have?", ["12"], "The bridge has several arches."),
    ("What did she do on Sunday evening?", ["had dinner with friends from the gym"],
     "She went to a film with a neighbour."),
    ("Which city did he recommend?", ["Barcelona"], "A vibrant European city known for its culture."),
]  # fmt: skip


@pytest.mark.parametrize(("question", "golds", "reply"), RIGHT)
def test_a_reply_with_the_gold_in_another_writing_is_right(scorer, question, golds, reply):
    assert scorer.probability(question, golds, reply) >= THRESHOLD


@pytest.mark.parametrize(("question", "golds", "reply"), WRONG)
def test_another_value_or_a_general_word_in_its_position_is_wrong(scorer, question, golds, reply):
    assert scorer.probability(question, golds, reply) < THRESHOLD


def test_a_reply_that_does_not_know_is_wrong(scorer):
    reply = "The text does not say who built the bridge."
    assert scorer.probability("Who built the bridge?", ["Ana Rojo"], reply) < 0.2


def test_the_old_object_of_an_edit_is_wrong_whatever_its_likeness(scorer):
    question, golds = "Where is the seat of Arvo?", ["Bergen, Norway"]
    reply = "The seat of Arvo is in Oslo, Norway."
    assert scorer.probability(question, golds, reply, ["Oslo"]) == 0


@pytest.mark.parametrize(
    ("reply", "wrong"),
    [
        ("Ben Ode", True),
        ("Ben Ode and Ana Rojo", True),
        ("It was Ben Ode.", True),
        ("Ana Rojo", False),
        ("Ana Rojo, not Ben Ode.", False),
        ("Ana Rojo, who succeeded Ben Ode.", False),
    ],
)
def test_a_rival_counts_unless_it_is_denied_or_past_beside_the_gold(reply, wrong):
    row = RepliedQuestion("Who is the head of Arvo?", ("Ana Rojo",), reply, ("Ben Ode",))
    assert gives_rival(row) is wrong


def test_a_rival_within_the_gold_is_no_rival():
    row = RepliedQuestion("Where was she born?", ("New York City",), "New York City", ("York",))
    assert not gives_rival(row)


def test_probabilities_are_of_each_row_in_order(scorer):
    rows = [RepliedQuestion(question, tuple(golds), reply) for question, golds, reply in RIGHT + WRONG]
    probabilities = scorer.probabilities(rows)
    alone = [scorer.probability(row.question, row.golds, row.reply) for row in rows]
    assert probabilities.tolist() == pytest.approx(alone)
    assert all(0 <= probability <= 1 for probability in probabilities)


@pytest.mark.parametrize("reply", ["", "  \n", "???", "🙂", "a" * 50_000])
def test_odd_replies_are_wrong(scorer, reply):
    assert scorer.probability("Who built the bridge?", ["Ana Rojo"], reply) < THRESHOLD


def test_an_empty_reply_has_probability_0_and_no_rows_none(scorer):
    assert scorer.probability("Who?", ["Ana"], " ") == 0
    assert scorer.probabilities([]).shape == (0,)


def test_a_band_around_the_threshold_is_unscored():
    assert decide(0.66, threshold=0.65) is True
    assert decide(0.66, threshold=0.65, band=0.05) is None
    assert decide(0.59, threshold=0.65, band=0.05) is False
    assert decide(0.71, threshold=0.65, band=0.05) is True


def test_another_encoder_leaves_the_weights_without_one():
    scorer = load_equivalence(LexicalEmbedding())
    assert (scorer.name, scorer.embedding) == ("lexical", None)
