"""ReCoE's scoring: what counts as the same answer, and when an edit turned one answer into another."""

import json
import math
from typing import NamedTuple

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.recoe.benchmark import ReCoE
from emend.evals.evaluate.baseline import needs_baseline
from emend.evals.evaluate.run import run
from emend.evals.log.records import read_records
from emend.evals.metrics.published.recoe import EFFECTIVE, Effectiveness, indicator, matches, number
from emend.evals.metrics.scorers import ask_of, score
from emend.evals.results.aggregate.rows import report
from emend.memory.probe import Answer, Probe
from tests.fakes import ScriptedChatModel, ScriptedScoringModel
from tests.paths import DATA

FIXTURE = DATA / "recoe"


def probes(scheme: str) -> list[Probe]:
    return [case.probes[0] for case in ReCoE(FIXTURE, {"schemes": scheme}).cases("atomic")]


class Flip(NamedTuple):
    values: dict[str, float]
    unscored: dict[str, str]


def flip(probe, before: str | None, after: str | None):
    """The scores of both answers, and the reasons why some have none."""
    scores = score(probe, Answer(text=after), Answer(text=before))
    return Flip(scores.values, scores.unscored)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-2", -2),
        ("\u22122", -2),
        ("minus two", -2),
        ("Negative ten", -10),
        ("one hundred and ninety-five", 195),
        ("one hundred ninety five", 195),
        ("six hundred and fifty", 650),
        ("1,204", 1204),
        ("0", 0),
        ("zero", 0),
        ("2 moons", None),
        ("one two", None),
        ("twenty-twelve", 2012),
        ("1,2", None),
        ("", None),
        ("minus", None),
    ],
)
def test_whole_numbers_are_read_in_digits_and_words(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    ("reply", "gold", "right"),
    [
        ("yes", "Yes.", True),
        ("No", "Yes.", False),
        ("Yes, it is deeper", "Yes.", False),
        ("Three.", "3", True),
        ("3", "-3", False),
        ("minus three", "-3", True),
        ("The Alps, Ural and Jura", "Alps, Ural, Jura", True),
        ("Ural, Alps, Jura", "Alps, Ural, Jura", False),
        ("Trinidad and Tobago", "Trinidad and Tobago", True),
        ("Alps,Ural; Jura", "Alps, Ural, Jura", True),
        ("", "", False),
    ],
)
def test_replies_match_whatever_the_writing_but_never_another_order_or_sign(reply, gold, right):
    assert matches(reply, [gold]) is right


def test_a_flip_is_from_the_original_answer_to_the_new_one():
    probe = probes("counting")[0]
    assert flip(probe, "five", "Four.") == ({"pre_edit": 1.0, "correct_flip": 1.0, "correct_flip_clean": 1.0}, {})
    assert flip(probe, "5", "5") == ({"pre_edit": 1.0, "correct_flip": 0.0, "correct_flip_clean": 0.0}, {})
    assert flip(probe, "5", "6").values["correct_flip"] == 0.0
    why = "the unedited model did not give the original answer"  # outside the rate, not 0
    assert flip(probe, "6", "4") == ({"pre_edit": 0.0}, {"correct_flip": why, "correct_flip_clean": why})


def test_an_alias_counts_on_both_sides_and_may_lack_the_sign_but_not_be_another_number():
    fewer = probes("subtraction")[0]
    assert flip(fewer, "three", "two").values["correct_flip"] == 1.0
    assert flip(fewer, "thirty", "two").values == {"pre_edit": 0.0}
    probe = probes("comparative")[1]
    assert flip(probe, "The novel Salt", "the novel rye").values == {"pre_edit": 1.0, "correct_flip": 1.0}


def test_a_record_that_another_contradicts_counts_but_not_among_the_clean_ones():
    probe = probes("comparative")[0]
    assert probe.tags["contested"]
    assert flip(probe, "yes", "no") == ({"pre_edit": 1.0, "correct_flip": 1.0}, {})


def test_answers_in_sentences_flip_by_contains_and_not_by_the_papers_rule():
    probe = probes("counting")[0].model_copy(update={"scorers": ("correct_flip", "contains_flip")})
    before, after = "There are five of them.", "There are now four of them."
    values, unscored = flip(probe, before, after)
    assert values == {"pre_edit": 0.0, "pre_edit_contains": 1.0, "correct_flip_contains": 1.0}
    assert set(unscored) == {"correct_flip", "correct_flip_clean"}
    assert flip(probe, before, before).values["correct_flip_contains"] == 0.0
    assert flip(probe, after, after).unscored["correct_flip_contains"]


def test_where_one_form_stands_for_both_answers_no_flip_is_claimed():
    _, turned, equal, _ = probes("subtraction")
    for probe, said in ((turned, "3"), (equal, "7")):
        values, unscored = flip(probe, said, said)
        assert values == {"pre_edit": 1.0}
        assert f"'{said}' stands for both" in unscored["correct_flip"]
        assert probe.tags["shared_form"] == said


def test_without_answers_both_outputs_are_unscored():
    probe = probes("counting")[0]
    outputs = {"pre_edit", "correct_flip", "correct_flip_clean"}
    assert needs_baseline(probe) and ask_of(probe, scorable=True)[:2] == (True, ())
    assert set(score(probe, Answer(text="4")).unscored) == outputs
    assert set(score(probe, Answer(text="4"), Answer()).unscored) == outputs
    values, unscored = flip(probe, "5", None)
    assert values == {"pre_edit": 1.0}
    assert unscored == dict.fromkeys(outputs - {"pre_edit"}, "the model was not asked for text")


def test_a_run_flips_what_the_model_knew_and_leaves_the_rest_out_of_the_rate(tmp_path):
    def reply(prompt: str) -> str:
        if "lighthouses" in prompt:
            return "4" if "Kelp Light stands on the isle of Marn." in prompt else "5"
        return "Torvay, Marn, Elsk" if "Sort" in prompt else "unsure"

    editors = ("unedited", "in_context")
    options = {"schemes": "counting,sorting,aggregation"}
    config = RunConfig(
        benchmark="recoe", data=str(FIXTURE), benchmark_options=options, editors=editors, model="scripted"
    )
    run(config, tmp_path / "run", model=ScriptedChatModel(reply=reply))
    found = {(r.editor, r.kind): r for r in read_records(tmp_path / "run") if not r.kind.endswith("_facts")}
    flips = {key: r.values.get("correct_flip") for key, r in found.items()}
    assert flips == {
        ("unedited", "counting"): 0.0,
        ("unedited", "sorting"): 0.0,
        ("unedited", "aggregation"): None,
        ("in_context", "counting"): 1.0,
        ("in_context", "sorting"): 0.0,
        ("in_context", "aggregation"): None,
    }
    assert {r.values["pre_edit"] for r in found.values() if r.kind == "aggregation"} == {0.0}


PROBE = Probe(kind="counting_facts", prompt="", gold=("A is c.",), choices=("A is f.", "B is f."))
ALL = {"ppl_fact_before", "ppl_counter_before", "ppl_fact", "ppl_counter", EFFECTIVE}


class CountingModel(ScriptedScoringModel):
    """Also tells how many tokens, here words, each target has."""

    def score(self, prompt, targets):
        return (
            super().score(prompt, targets).model_copy(update={"target_tokens": tuple(len(t.split()) for t in targets)})
        )


def answer(*perplexities: float, tokens: int = 3) -> Answer:
    log_probs = tuple(-tokens * math.log(value) for value in perplexities)
    return Answer(log_probs=log_probs, target_tokens=(tokens,) * len(perplexities))


@pytest.mark.parametrize(
    ("before", "after", "took"),
    [(4.8, -2.4, True), (4.8, 1.0, False), (-2.2, -28.9, True), (-5.9, -3.0, False), (0, -0.1, True), (-1, -1, False)],
)
def test_an_edit_took_when_counterfactuals_are_likelier_than_facts_and_more_so_than_before(before, after, took):
    assert indicator(before, after) is took


def test_perplexity_is_per_token_and_its_mean_over_the_facts():
    values, unscored, _ = Effectiveness().score(PROBE, answer(4.0, 10.0, 20.0), answer(30.0, 5.0, 7.0, tokens=9))
    assert unscored == {}
    assert values == {
        "ppl_counter_before": pytest.approx(30.0),
        "ppl_fact_before": pytest.approx(6.0),
        "ppl_counter": pytest.approx(4.0),
        "ppl_fact": pytest.approx(15.0),
        "effective": 1.0,
    }
    assert Effectiveness().score(PROBE, *[answer(9.0, 5.0, 5.0)] * 2)[0]["effective"] == 0.0  # nothing became likelier


@pytest.mark.parametrize(
    ("now", "before", "missing", "why"),
    [
        (Answer(), Answer(), ALL, "gives no probabilities"),
        (answer(2.0, 2.0, 2.0), None, {"ppl_fact_before", "ppl_counter_before", EFFECTIVE}, "was not asked"),
        (Answer(), answer(2.0, 2.0, 2.0), {"ppl_fact", "ppl_counter", EFFECTIVE}, "the model gives no probabilities"),
        (
            Answer(log_probs=(-1.0,) * 3),
            answer(2.0, 2.0, 2.0),
            {"ppl_fact", "ppl_counter", EFFECTIVE},
            "how many tokens",
        ),
        (
            answer(2.0, 2.0, 2.0).but(log_probs=(-math.inf, -1.0, -1.0)),
            answer(2.0, 2.0, 2.0),
            {"ppl_fact", "ppl_counter", EFFECTIVE},
            "probability 0",
        ),
        (
            answer(2.0, 2.0, 2.0).but(log_probs=(-1.0, math.nan, -1.0)),
            answer(2.0, 2.0, 2.0),
            {"ppl_fact", "ppl_counter", EFFECTIVE},
            "its perplexity is not finite",
        ),
    ],
)
def test_what_cannot_be_measured_says_why_and_is_not_zero(now, before, missing, why):
    values, unscored, _ = Effectiveness().score(PROBE, now, before)
    assert unscored.keys() == missing
    assert values.keys() == ALL - missing
    assert all(why in reason for reason in unscored.values())


def test_a_model_is_asked_for_all_facts_at_once_before_and_after_or_for_nothing():
    probe = PROBE.model_copy(update={"scorers": ("effectiveness",)})
    assert ask_of(probe, scorable=True)[:2] == (False, ("A is c.", "A is f.", "B is f."))
    assert ask_of(probe, scorable=False)[:2] == (False, ())
    assert needs_baseline(probe)


def run_of(model, tmp_path):
    options = {"schemes": "comparative,counting"}
    editors = ("unedited", "in_context")
    config = RunConfig(
        benchmark="recoe", data=str(FIXTURE), benchmark_options=options, editors=editors, model="scripted"
    )
    run(config, tmp_path / "run", model=model)
    records = [r for r in read_records(tmp_path / "run") if r.kind.endswith("_facts")]
    return records, {(row.editor, row.metric): row for row in report(tmp_path / "run").rows}


def test_a_run_measures_facts_before_and_after_and_says_what_took(tmp_path):
    def log_prob(prompt: str, target: str) -> float:
        return -1.0 if target in prompt else -3.0 * len(target.split())

    records, rows = run_of(CountingModel(reply=lambda prompt: "x", log_prob=log_prob), tmp_path)
    assert {(r.editor, r.kind): r.values[EFFECTIVE] for r in records} == {
        ("unedited", "comparative_facts"): 0.0,
        ("unedited", "counting_facts"): 0.0,
        ("in_context", "comparative_facts"): 1.0,
        ("in_context", "counting_facts"): 1.0,
    }
    assert rows["in_context", "facts mean"].mean == 100.0
    assert rows["in_context", "PPL CF before"].mean == pytest.approx(math.exp(3))
    assert rows["in_context", "PPL CF after"].mean < rows["in_context", "PPL F after"].mean


def test_a_model_without_probabilities_is_not_asked_about_facts_and_they_are_unscored(tmp_path):
    model = ScriptedChatModel(reply=lambda prompt: "x")
    records, rows = run_of(model, tmp_path)
    assert all("?" in prompt for prompt in model.calls)  # questions, and no fact
    assert {json.dumps(r.values) for r in records} == {"{}"}
    assert {r.unscored[EFFECTIVE] for r in records} == {"the unedited model gives no probabilities"}
    assert (rows["in_context", "facts mean"].mean, rows["in_context", "facts mean"].unscored) == (None, 2)
