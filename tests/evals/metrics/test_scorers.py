"""From an answer to values, or to the reason why there are none."""

import math

import pytest

from emend.editors.answerers import direct_answerer
from emend.evals.metrics.scorers import ask_of, score
from emend.evals.metrics.scoring.registry import own_scorers
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer, Probe
from tests.fakes import ScriptedChatModel


def probe(*scorers, **more):
    told = {"kind": "efficacy", "prompt": "Rome lies in", "gold": ("Italy",), "rival": "Spain", "scorers": scorers}
    return Probe(**told | more)


YES = {"kind": "reasoning", "gold": ("true",), "rival": "false"}


def test_exact_match_takes_aliases_choice_the_named_one_and_several_scorers_add_up():
    asked = probe("exact_match", gold=("Italy", "Italia"))
    assert score(asked, Answer(text="italia.")).values == {"em": 1.0}
    assert score(asked, Answer(text="Spain")).values == {"em": 0.0}
    asked = probe("choice", choices=("Italy", "Spain"))
    assert score(asked, Answer(text="In Italy.")).values == {"choice": 1.0}
    assert score(asked, Answer(text="In Spain.")).values == {"choice": 0.0}
    found = score(probe("exact_match", "likelihood"), Answer(text="Italy", log_probs=(-1.0, -2.0)))
    assert found.values == {"em": 1.0, "success": 1.0, "magnitude": 0.5}


def test_an_answer_that_is_the_gold_text_contains_it_whatever_its_sentences_deny():
    text = "Rome lies in Italy. It does not lie in Spain, nor was it founded there."
    assert score(probe("exact_match", "contains", gold=(text,)), Answer(text=text)).values == {
        "em": 1.0,
        "contains": 1.0,
    }
    assert score(probe("contains"), Answer(text="Rome does not lie in Italy.")).values == {"contains": 0.0}
    text = "Ada Quill, a painter who is known for her large works, was born in the north of Italy."
    assert score(probe("contains", gold=(text,)), Answer(text="Ada Quill was a writer.")).values == {"contains": 0.0}


def test_abstention_reads_all_sentences_that_answer_and_a_missing_text_is_unscored():
    asked = probe("abstention", prompt="Who built Rome?", style="question", gold=("I do not know.",))
    model = ScriptedChatModel(reply=lambda prompt: "I do not know. It was Romulus.")
    hedged = direct_answerer(model, "new_fact").answer(asked)
    assert score(asked, hedged).values == {"abstains": 0.0}
    assert score(asked, Answer(text="It is not known.")).values == {"abstains": 1.0}
    assert list(score(asked, Answer(text=None)).unscored) == ["abstains"]


@pytest.mark.parametrize(("reply", "strict"), [("Italy", 1.0), ("Italy.", 0.0), (" Italy\nQ:", 1.0), ("italy", 0.0)])
def test_strict_match_is_letter_by_letter_with_the_full_stop(reply, strict):
    model = ScriptedChatModel(reply=lambda prompt: reply)
    asked = probe("exact_match", "strict_match")
    answer = direct_answerer(model, "new_fact").answer(asked)
    assert score(asked, answer).values == {"em": 1.0, "strict": strict}
    assert score(asked, Answer(text=reply.strip().partition("\n")[0])).values["strict"] == strict  # of a plug-in


def test_likelihood_compares_gold_with_rival():
    found = score(probe("likelihood"), Answer(log_probs=(-1.0, -4.0)))
    assert found.values == {"success": 1.0, "magnitude": 0.75}
    assert found.unscored == {}
    assert score(probe("likelihood"), Answer(log_probs=(1e-9, -4.0))).values["magnitude"] == 1.0  # rounding's excess


@pytest.mark.parametrize(
    ("now", "before", "agrees"),
    [
        (Answer(text="Italy."), Answer(text="italy"), 1.0),
        (Answer(text="Italy"), Answer(text="Spain"), 0.0),
        (Answer(log_probs=(-1, -2)), Answer(log_probs=(-5, -9)), 1.0),
        (Answer(log_probs=(-1, -2)), Answer(log_probs=(-9, -5)), 0.0),
        (Answer(text="Italy", log_probs=(-2, -1)), Answer(log_probs=(-3, -1)), 1.0),
    ],
)
def test_agreement_is_with_the_unedited_model(now, before, agrees):
    assert score(probe("agreement"), now, before).values == {"agreement": agrees}


@pytest.mark.parametrize(
    ("gold", "now", "before", "agrees"),
    [
        ("Paris", "Paris", "The capital of France is Paris", 1.0),
        ("Paris", "It's Paris, the largest city", "Paris is the capital", 1.0),
        ("Paris", "Not Paris", "Paris", 0.0),
        ("Paris", "Paris or Lyon", "Paris", 0.0),
        ("Paris", "Lyon", "The capital is Lille", 0.0),
        ("", "Paris", "The capital of France is Paris", 1.0),
        ("", "Paris is the capital of France", "It is Paris", 1.0),
        ("", "The capital of France is not Paris", "Paris", 0.0),
        ("", "The capital of France is Paris", "The capital of France is Lyon", 0.0),
        ("", "The capital of Spain is Paris", "Paris", 0.0),
        ("", "The capital is Paris\nIt is small", "The capital is Paris\nIt is large", 0.0),
    ],
)
def test_agreement_reads_the_answer_in_a_sentence(gold, now, before, agrees):
    asked = probe("agreement", prompt="What is the capital of France?", gold=(gold,), rival=None)
    first, then = (Answer(text=passage.replace("\n", ". "), passage=passage) for passage in (now, before))
    assert score(asked, first, then).values == {"agreement": agrees}


@pytest.mark.parametrize(
    ("log_probs", "gold", "right"),
    [
        ((-1.0, -2.0), "true", 1.0),
        ((-2.0, -1.0), "true", 0.0),
        ((-2.0, -2.0), "true", 0.0),
        ((-1.0, -2.0), "false", 1.0),
    ],
)
def test_reasoning_takes_the_likelier_word_and_no_tie(log_probs, gold, right):
    asked = probe("reasoning", **YES | {"gold": (gold,), "rival": "false" if gold == "true" else "true"})
    values = score(asked, Answer(log_probs=log_probs)).values
    assert values == {"acc": right, f"acc_{gold}": right, "constant": float(gold == "true")}


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("Italy.", 1.0),
        ("It lies in Italy, not far from Rome", 1.0),
        ("Spain", 0.0),
        ("Italy or Spain", 0.0),
        ("not Italy", 0.0),
        ("France", 0.0),
        ("", 0.0),
    ],
)
def test_generation_wants_the_gold_answer_named_and_not_its_rival(reply, value):
    assert score(probe("generation"), Answer(text=reply)).values == {"generated": value}


@pytest.mark.parametrize(("text", "right"), [("True.", 1.0), ("Yes", 1.0), ("No", 0.0)])
def test_reasoning_reads_the_text_of_a_model_without_probabilities(text, right):
    assert score(probe("reasoning", **YES), Answer(text=text)).values["acc"] == right


@pytest.mark.parametrize(
    ("asked", "answer", "before", "why"),
    [
        (probe("exact_match"), Answer(log_probs=(-1, -2)), None, {"em": "not asked for text"}),
        (probe("choice", choices=("Italy", "Spain")), Answer(text="well"), None, {"choice": "none of the choices"}),
        (probe("choice", choices=("Italy", "Spain")), Answer(), None, {"choice": "not asked for text"}),
        (probe("choice", choices=("Peru", "Spain")), Answer(text="Peru"), None, {"choice": "gold 'Italy' is none"}),
        (probe("likelihood"), Answer(text="Italy"), None, dict.fromkeys(("success", "magnitude"), "no probabilities")),
        (probe("likelihood", rival=None), Answer(), None, dict.fromkeys(("success", "magnitude"), "no rival")),
        (probe("likelihood"), Answer(log_probs=(-1,)), None, dict.fromkeys(("success", "magnitude"), "two log-prob")),
        (
            probe("likelihood"),
            Answer(log_probs=(-1, math.nan)),
            None,
            dict.fromkeys(("success", "magnitude"), "not a number"),
        ),
        (probe("agreement"), Answer(text="Italy"), None, {"agreement": "unedited model was not asked"}),
        (probe("agreement"), Answer(log_probs=(-1, -2)), Answer(text="Italy"), {"agreement": "unedited model: "}),
        (
            probe("reasoning", **YES),
            Answer(text="Who knows"),
            None,
            dict.fromkeys(("acc", "acc_true"), "none of the choices"),
        ),
        (probe("reasoning", **YES), Answer(), None, dict.fromkeys(("acc", "acc_true"), "no probabilities")),
        (probe("judged"), Answer(text="It may rise."), None, {"judged": "awaits a judge"}),
        (probe("generation", rival=None), Answer(text="Italy"), None, {"generated": "no rival"}),
    ],
)
def test_what_cannot_be_scored_says_why_and_is_not_zero(asked, answer, before, why):
    found = score(asked, answer, before)
    assert found.values == {}
    assert found.unscored.keys() == why.keys()
    for output, reason in why.items():
        assert reason in found.unscored[output]


@pytest.mark.parametrize(
    ("scorers", "scorable", "text", "targets"),
    [
        (("exact_match",), True, True, ()),
        (("likelihood",), True, False, ("Italy", "Spain")),
        (("likelihood",), False, False, ()),
        (("exact_match", "likelihood"), True, True, ("Italy", "Spain")),
        (("exact_match", "likelihood"), False, True, ()),
        (("reasoning",), True, False, ("Italy", "Spain")),
        (("reasoning",), False, True, ()),
        (("agreement",), True, True, ()),
        (("likelihood", "agreement"), True, False, ("Italy", "Spain")),
        (("likelihood", "generation"), True, False, ("Italy", "Spain")),
        (("likelihood", "generation"), False, True, ()),
        (("judged",), True, True, ()),
        (("effectiveness",), False, False, ()),
    ],
)
def test_a_model_is_asked_for_what_the_scorers_need_and_no_more(scorers, scorable, text, targets):
    assert ask_of(probe(*scorers), scorable) == (text, targets, False)


BY_TOKENS = ("teacher_forced", "same_tokens", "token_f1", "likely_target", "likely_same")
UNREAD = ("likelihood", "likelihood_code", "difference", "per_token", "effectiveness", *BY_TOKENS)
"""Scorers that have no use for a text."""


@pytest.mark.parametrize("name", sorted(own_scorers()))
@pytest.mark.parametrize("scorable", [True, False])
def test_what_a_scorer_asks_for_is_enough_for_it(name, scorable):
    names = (name, "exact_match") if name == "wrong_before" else (name,)  # it says what another scorer says
    asked = probe(*names, choices=("true", "false"), gold=("true",), rival="false", rubric=("true",))
    wanted = ask_of(asked, scorable)
    text = "true"
    answer = Answer(
        text=text if wanted.text else None,
        log_probs=(-1.0, -2.0, -2.0)[: len(wanted.targets)],
        target_tokens=(1, 1, 1)[: len(wanted.targets)],
        greedy_tokens=(1, 0, 0)[: len(wanted.targets)],
        likely_tokens=(((1, 1),), ((2, 1),), ((2, 1),))[: len(wanted.targets)],
    )
    found = score(asked, answer, answer)
    needs_judge, needs_probabilities = name in ("judged", "judged_same", "judged_equivalence"), name in UNREAD
    assert bool(found.values) != (needs_judge or needs_probabilities and not scorable)


def test_an_unknown_scorer_is_refused_with_the_nearest_name():
    with pytest.raises(BadSettings, match="'exact_match'"):
        score(probe("exact_macht"), Answer(text="Italy"))
    with pytest.raises(BadSettings, match="'likelihood'"):
        ask_of(probe("likelyhood"), True)


@pytest.mark.parametrize(
    "reply, gold",
    [
        ("the cat sat on the mat", "a cat lay on that mat"),
        ("Ana Rojo built Pell Lock in 1914.", "Pell Lock was built by Ana Rojo, in 1914"),
        ("one two three", "three two one"),
        ("", "nothing was said"),
    ],
)
def test_rouge_l_is_that_of_the_library(reply, gold):
    rouge = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rougeL"])
    expected = rouge.score(gold, reply)["rougeL"].fmeasure
    assert score(probe("rouge_l", gold=(gold,)), Answer(text=reply)).values["rouge_l"] == pytest.approx(expected)


def test_similarity_tells_the_same_in_other_words_from_something_else():
    gold = "Pell Lock was built by Ana Rojo in 1914."
    values = [
        score(probe("similarity", gold=(gold,)), Answer(text=text)).values["similarity"]
        for text in (gold, "Ana Rojo constructed Pell Lock in the year 1914.", "The soup is too salty.")
    ]
    assert values[0] == pytest.approx(1) and values[0] > values[1] > 0.7 > 0.3 > values[2]
    assert not score(probe("similarity", gold=(gold,)), Answer()).values


def test_equivalence_takes_an_answer_in_other_words_and_refuses_the_old_object():
    probe = Probe(
        kind="efficacy",
        prompt="Who was the first director of the museum?",
        gold=("Maria Elena Rojo Santos",),
        rival="Ben Ode",
        scorers=("equivalence",),
    )
    other_words = score(probe, Answer(text="The first director was M. Rojo Santos."))
    rival = score(probe, Answer(text="The first director was Ben Ode."))
    assert rival.values == {"equivalence": 0.0}
    assert other_words.values["equivalence"] in (0.0, 1.0)


def test_equivalence_within_its_band_is_unscored_with_the_probability():
    probe = Probe(kind="efficacy", prompt="Where?", gold=("Ostrim",), scorers=("equivalence:0.4999",))
    scores = score(probe, Answer(text="It may be somewhere near the old harbour of that town"))
    assert scores.values or "probability" in scores.unscored["equivalence"]
