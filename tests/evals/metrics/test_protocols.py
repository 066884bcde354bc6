"""A run names the rules by which answers count as right; a benchmark's own are its paper's."""

from typing import Any

import pytest

from emend.evals.case import Metric
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.metrics.protocols import (
    PROTOCOLS,
    check_protocols,
    form_for,
    metrics_under,
    output_protocols,
    protocol_of_scorer,
    under_protocols,
)
from emend.evals.metrics.scorers import score
from emend.evals.metrics.scoring.base import Output, Scorer
from emend.evals.metrics.scoring.registry import own_scorers
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer, Probe
from emend.memory.registry import trust_names
from tests.evals.toy_runs import config

EM = Metric(name="efficacy", value="em", kinds=("efficacy",), group="main")
HIT = Metric(name="hit@1", value="hit@1", kinds=("efficacy",), group="main")
STRICT = Metric(name="strict", value="strict", kinds=("efficacy",), group="strict")
ES = Metric(name="ES", value="success", kinds=("efficacy",), group="likelihood")


def probe(*scorers: str, **fields: Any) -> Probe:
    return Probe(kind="efficacy", prompt="Ana lives in", gold=("Italy",), rival="Spain", scorers=scorers, **fields)


def test_each_protocol_has_a_scorer_and_each_of_its_scorers_exists():
    assert {protocol.scorer for protocol in PROTOCOLS.values()} <= own_scorers().keys()
    assert {name: output_protocols()[rule.value] for name, rule in PROTOCOLS.items()} == {
        name: name for name in PROTOCOLS
    }


class Capital(Scorer):
    """Whether the answer begins with a capital letter."""

    outputs = (Output("capital", is_right=True),)
    needs = ("text",)

    def score(self, probe, answer, before):
        return float(answer.text[:1].isupper())


def test_a_scorer_without_a_verdict_measures_no_correctness():
    names = ("contains", "strict_match", "teacher_forced", "fluency", "same_tokens")
    assert [protocol_of_scorer(name) for name in names] == ["contains", "exact", "teacher_forced", "", ""]
    own = [f"tests.evals.metrics.{name}" for name in ("test_protocols:Capital", "scoring.test_scoring:Changed")]
    trust_names(own)
    assert [protocol_of_scorer(name) for name in own] == [own[0], ""]


@pytest.mark.parametrize(
    ("own", "names", "scorers"),
    [
        (("exact_match", "strict_match"), (), ("exact_match", "strict_match", "contains")),
        (("exact_match", "strict_match"), ("exact",), ("exact_match", "strict_match")),
        (("exact_match", "strict_match"), ("contains",), ("contains",)),
        (("exact_match", "agreement"), ("likelihood",), ("agreement", "likelihood")),
        (("per_token", "likelihood", "difference"), (), ("per_token", "likelihood", "difference")),
        (("per_token", "likelihood"), ("likelihood", "exact"), ("per_token", "likelihood", "exact_match")),
        (("exact_match",), ("equivalence:0.1",), ("equivalence:0.1",)),
        (("likelihood",), ("teacher_forced", "judge"), ("teacher_forced", "judged_equivalence")),
        (("choice",), ("likelihood",), ("choice",)),
        (("correct_flip",), (), ("correct_flip", "contains_flip")),
        (("correct_flip",), ("contains",), ("contains_flip",)),
        (("correct_flip",), ("likelihood",), ("correct_flip",)),
        (("agreement",), ("exact",), ("agreement",)),
    ],
)
def test_a_probe_is_scored_by_the_protocols_named_or_by_its_own(own, names, scorers):
    assert under_protocols(probe(*own), names).scorers == scorers


def test_contains_stands_beside_exact_in_the_first_table_alone():
    columns = metrics_under([EM, HIT, STRICT, ES], ())
    assert [(column.name, column.value, column.protocol, column.group) for column in columns] == [
        ("efficacy", "em", "exact", "main"),
        ("efficacy contains", "contains", "contains", "main"),
        ("hit@1", "hit@1", "", "main"),
        ("strict", "strict", "exact", "strict"),
        ("ES", "success", "likelihood", "likelihood"),
    ]


def test_named_protocols_are_columns_side_by_side_under_the_name_that_the_benchmark_has_for_one():
    columns = metrics_under([EM, HIT, STRICT, ES], ("contains", "likelihood", "teacher_forced"))
    assert [(column.name, column.value, column.group) for column in columns] == [
        ("efficacy contains", "contains", "main"),
        ("ES", "success", "main"),
        ("efficacy teacher_forced", "token_accuracy", "main"),
        ("hit@1", "hit@1", "main"),
    ]


@pytest.mark.parametrize("name", BENCHMARKS.names())
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_benchmark_has_metrics_of_unique_names_under_every_protocol(name, protocol):
    definition = getattr(BENCHMARKS.load(name), "definition", None)
    if definition is None:
        pytest.skip(f"{name} has no definition in a file")
    names = [metric.name for metric in metrics_under(definition.metrics, (protocol,))]
    assert names and len(set(names)) == len(names)


@pytest.mark.parametrize("words", [{"form": "chatty"}, {"count_only": "wrong"}])
def test_an_unknown_form_or_filter_is_refused_with_the_nearest(words):
    with pytest.raises(BadSettings, match="chat|wrong_before"):
        config(**words)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("exakt", "exact"), ("contains:0.1", "equivalence"), ("equivalence:0.7", "0.5"), ("no_module:Words", "--trust")],
)
def test_an_unknown_protocol_is_refused_with_the_nearest(name, remedy):
    with pytest.raises(BadSettings, match=remedy):
        check_protocols([name])


@pytest.mark.parametrize(
    ("scorers", "style", "form", "weights", "asked"),
    [
        (("exact_match",), "cloze", None, False, "plain"),
        (("exact_match",), "question", None, False, "chat"),
        (("exact_match",), "question", None, True, "plain"),
        (("likelihood", "per_token"), "question", None, False, "plain"),
        (("likelihood", "exact_match"), "question", None, False, "chat"),
        (("reasoning",), "raw", None, False, "plain"),
        (("exact_match",), "cloze", "chat", True, "chat"),
        (("exact_match",), "question", "plain", False, "plain"),
    ],
)
def test_clozes_probabilities_and_edits_of_weights_are_asked_in_plain_text(scorers, style, form, weights, asked):
    assert form_for(probe(*scorers, style=style), form, weights) == asked


def test_teacher_forced_is_the_share_of_tokens_that_the_model_would_choose():
    answer = Answer(log_probs=(-1.0, -2.0), target_tokens=(4, 1), greedy_tokens=(3, 0))
    assert score(probe("teacher_forced"), answer).values == {"token_accuracy": 0.75}
    silent = Answer(log_probs=(-1.0,), target_tokens=(4,))
    assert "most probable" in score(probe("teacher_forced"), silent).unscored["token_accuracy"]
    assert score(probe("teacher_forced"), Answer(text="Italy")).unscored["token_accuracy"]


@pytest.mark.parametrize(("text", "right"), [("Italy", 1.0), ("Spain", 0.0)])
def test_wrong_before_says_whether_the_unedited_model_was_right(text, right):
    values = score(probe("exact_match", "wrong_before"), Answer(text="Italy"), Answer(text=text)).values
    assert values["right_before"] == right
