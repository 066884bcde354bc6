"""ReCoE's perplexities and the indicator that an edit took, on the paper's inequality and on a scripted model."""

import json
import math

import pytest

from emend.evals.aggregate.rows import report
from emend.evals.log.config import RunConfig
from emend.evals.log.records import read_records
from emend.evals.metrics.recoe import EFFECTIVE, effectiveness, indicator
from emend.evals.metrics.scorers import ask_of
from emend.evals.runner.ask_probe import needs_baseline
from emend.evals.runner.run import run
from emend.memory.probe import Answer, Probe
from tests.evals.metrics.test_recoe_scoring import FIXTURE
from tests.fakes import ScriptedChatModel, ScriptedScoringModel

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
    values, unscored = effectiveness(PROBE, answer(4.0, 10.0, 20.0), answer(30.0, 5.0, 7.0, tokens=9))
    assert unscored == {}
    assert values == {
        "ppl_counter_before": pytest.approx(30.0),
        "ppl_fact_before": pytest.approx(6.0),
        "ppl_counter": pytest.approx(4.0),
        "ppl_fact": pytest.approx(15.0),
        "effective": 1.0,
    }


def test_an_edit_that_makes_nothing_likelier_is_no_success():
    values, _ = effectiveness(PROBE, answer(9.0, 5.0, 5.0), answer(9.0, 5.0, 5.0))
    assert values["effective"] == 0.0


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
            "impossible",
        ),
        (
            answer(2.0, 2.0, 2.0).but(log_probs=(-1.0, math.nan, -1.0)),
            answer(2.0, 2.0, 2.0),
            {"ppl_fact", "ppl_counter", EFFECTIVE},
            "its perplexity is no number",
        ),
    ],
)
def test_what_cannot_be_measured_says_why_and_is_not_zero(now, before, missing, why):
    values, unscored = effectiveness(PROBE, now, before)
    assert unscored.keys() == missing
    assert values.keys() == ALL - missing
    assert all(why in reason for reason in unscored.values())


def test_a_model_is_asked_for_all_facts_at_once_before_and_after_or_for_nothing():
    probe = PROBE.model_copy(update={"scorers": ("effectiveness",)})
    assert ask_of(probe, scorable=True) == (False, ("A is c.", "A is f.", "B is f."))
    assert ask_of(probe, scorable=False) == (False, ())
    assert needs_baseline(probe)


def run_of(model, tmp_path):
    options = {"schemes": "comparative,counting"}
    config = RunConfig(
        benchmark="recoe",
        data=str(FIXTURE),
        benchmark_options=options,
        editors=("unedited", "in_context"),
        model="scripted",
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
    assert all("Q:" in prompt or "\nA:" in prompt for prompt in model.calls)
    assert {json.dumps(r.values) for r in records} == {"{}"}
    assert {r.unscored[EFFECTIVE] for r in records} == {"the unedited model gives no probabilities"}
    assert (rows["in_context", "facts mean"].mean, rows["in_context", "facts mean"].unscored) == (None, 2)
