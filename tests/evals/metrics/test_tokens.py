"""Scores by the most probable tokens equal the published formulas.

`token_cases.json` has 60 answers of one to seven tokens with the five most probable ones in each place, and what the
published expressions give for them: `np.mean(np.equal(...))` for accuracy and locality (EasyEdit, WikiBigEdit),
scikit-learn's `f1_score(..., average="macro")` (WikiBigEdit), and the counts of tokens among the first five or the
first one (UniEdit). They were computed by numpy and scikit-learn, which nothing here uses.
"""

import json

import pytest

from emend.evals.metrics.scorers import ask_of, score
from emend.evals.metrics.scoring.tokens import macro_f1, share_likely, share_same, share_still_likely
from emend.memory.probe import Answer, Probe
from tests.paths import DATA

CASES = json.loads((DATA / "editing" / "token_cases.json").read_text("utf-8"))


def positions(case, top="now"):
    if top == "before":
        return [(right, token) for right, token in zip(case["right"], case["before"], strict=True)]
    return [(right, *tokens) for right, tokens in zip(case["right"], case["now"], strict=True)]


def answer(tokens):
    greedy = sum(place[0] == place[1] for place in tokens)
    return Answer(
        log_probs=(-1.0,), target_tokens=(len(tokens),), greedy_tokens=(greedy,), likely_tokens=(tuple(tokens),)
    )


def asked(*scorers, **fields):
    return Probe(kind="edit", prompt="Pell Lock is kept by", gold=("Ana Rojo",), scorers=scorers, **fields)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_score_is_that_of_the_published_formula(number):
    case = CASES[number]
    now, before = positions(case), positions(case, "before")
    assert share_same(now, before) == pytest.approx(case["same"])
    assert macro_f1(now) == pytest.approx(case["f1"])
    assert (share_likely(now, 5), share_likely(now, 1)) == pytest.approx((case["likely"], case["likely_one"]))
    still = share_still_likely(now, before, 5), share_still_likely(now, before, 1)
    assert still == pytest.approx((case["still"], case["still_one"]))


@pytest.mark.parametrize("number", range(0, len(CASES), 6))
def test_scorers_give_these_scores(number):
    case = CASES[number]
    now, before = answer(positions(case)), answer(positions(case, "before"))
    probe = asked("teacher_forced", "same_tokens", "token_f1", "likely_target", "likely_same")
    values = score(probe, now, before).values
    expected = {"token_accuracy": "accuracy", "tokens_same": "same", "token_f1": "f1"}
    expected |= {"target_likely": "likely", "same_likely": "still"}
    assert values == pytest.approx({output: case[name] for output, name in expected.items()})
    choice = asked("likely_target", "likely_same", choices=("Yes", "No"))
    alone = score(choice, now, before).values
    assert alone == pytest.approx({"target_likely": case["likely_one"], "same_likely": case["still_one"]})


def test_a_score_stands_under_each_criterion_that_the_probe_has():
    probe = asked("likely_target", tags={"multi_hop": True, "rephrase": False})
    values = score(probe, answer([(1, 2, 1), (3, 4, 5)])).values
    assert values == {"target_likely": 0.5, "target_likely_multi_hop": 0.5}


@pytest.mark.parametrize(
    ("now", "before", "reason"),
    [
        (Answer(text="Ana"), Answer(text="Ana"), "probabilities"),
        (Answer(log_probs=(-1.0,)), Answer(log_probs=(-1.0,)), "most probable"),
        (answer([(1, 2)]), Answer(log_probs=(-1.0,)), "unedited model"),
        (answer([(1, 2)]), answer([(1, 2), (3, 4)]), "number of tokens"),
        (answer([(1, 2)]), None, "unedited"),
    ],
)
def test_what_cannot_be_compared_has_a_reason_and_no_number(now, before, reason):
    for name in ("same_tokens", "likely_same"):
        found = score(asked(name), now, before)
        assert not found.values and reason in next(iter(found.unscored.values()))


def test_only_scorers_of_tokens_have_the_most_probable_ones_kept():
    assert ask_of(asked("same_tokens"), scorable=True) == (False, ("Ana Rojo",), True)
    assert not ask_of(asked("teacher_forced"), scorable=True).likely
    assert not ask_of(asked("same_tokens"), scorable=False).targets
