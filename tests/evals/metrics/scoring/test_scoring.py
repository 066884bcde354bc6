"""A scorer says what it needs and gives; what is missing leaves it unscored."""

from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from emend.evals.metrics.scorers import ask_of, score
from emend.evals.metrics.scores import ProbeScores
from emend.evals.metrics.scoring.base import Output, Scorer
from emend.evals.metrics.scoring.conformance import ScorerContract
from emend.evals.metrics.scoring.registry import SCORERS, check_scorers, scorer_of
from emend.evals.metrics.scoring.setup import check_benchmark_scorers
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer, Probe
from emend.memory.registry import name_object

PROBE = Probe(kind="efficacy", prompt="Rome lies in", gold=("Italy",), rival="Spain", choices=("Spain", "Peru"))


class Margin(Scorer):
    """How much likelier the right answer is than the likeliest choice."""

    outputs = (Output("margin", share=False),)
    needs = ("log_probs", "choices")

    def targets(self, probe):
        return (*probe.choices, probe.gold[0])

    def score(self, probe, answer, before):
        *others, gold = answer.log_probs
        return gold - max(others)


class Changed(Scorer):
    """Whether the answer is another one than before the edit."""

    outputs = (Output("changed"),)
    needs = ("text", "baseline")

    def score(self, probe, answer, before):
        return float(answer.text != before.text)


class Failing(Scorer):
    outputs = (Output("failing"),)

    def score(self, probe, answer, before):
        return 1 / 0


class Odd(Scorer):
    outputs = (Output("long"), Output("silent"))

    def score(self, probe, answer, before):
        return {"long": "y" * 2_000_000, "silent": ""}


class Other(Scorer):
    outputs = (Output("right"),)

    def score(self, probe, answer, before):
        return {"wrong": 1.0}


class Numbers(Scorer):
    """The number that the answer says, in each way that a scorer may return it."""

    outputs = (Output("part"), Output("words", share=False))

    def score(self, probe, answer, before):
        number = float(answer.text)
        if probe.kind == "whole":
            return ProbeScores({"part": number, "words": number}, {})
        return {"part": number, "words": number} if probe.kind == "by name" else number


class Misspelt(Failing):
    needs = ("baselines",)  # type: ignore[assignment]


class Taken(Failing):
    outputs = (Output("em"),)


def named(component, *others):
    name = name_object(component.__name__, component)
    return name, PROBE.model_copy(update={"scorers": (*others, name)})


class TestMargin(ScorerContract):
    def factory(self):
        return Margin


class TestChanged(ScorerContract):
    def factory(self):
        return Changed


def test_a_scorer_gets_the_log_probabilities_of_its_own_targets():
    name, probe = named(Margin, "likelihood")
    asked = ask_of(probe, scorable=True)
    assert asked[:2] == (False, ("Italy", "Spain", "Peru"))
    scores = score(probe, Answer(log_probs=(-1.0, -4.0, -2.5)))
    assert scores.values == {"success": 1.0, "magnitude": 0.75, "margin": 1.5}
    _, first = named(Margin)
    assert ask_of(first, scorable=True).targets == ("Spain", "Peru", "Italy")


@pytest.mark.parametrize(
    ("component", "answer", "before", "reason"),
    [
        (Margin, Answer(text="Italy"), None, "no probabilities"),
        (Changed, Answer(text="Italy"), None, "unedited model"),
        (Changed, Answer(text="Italy"), Answer(), "unedited model"),
        (Changed, Answer(), Answer(text="x"), "not asked for text"),
    ],
)
def test_what_is_missing_leaves_it_unscored(component, answer, before, reason):
    _, probe = named(component)
    scores = score(probe, answer, before)
    assert not scores.values and reason in next(iter(scores.unscored.values()))


def test_an_output_without_a_value_or_with_an_odd_reason_is_unscored_with_a_short_one():
    _, probe = named(Other)
    assert "none of its outputs, but ['wrong']" in score(probe, Answer(text="Italy")).unscored["right"]
    _, probe = named(Odd)
    scores = score(probe, Answer(text="Italy"))
    assert not scores.values and len(scores.unscored["long"]) == 1_000
    assert scores.unscored["silent"] == "the scorer gave no reason"


@pytest.mark.parametrize("kind", ["whole", "by name", "alone"])
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        ("nan", "gave nan, which is not a number"),
        ("inf", "gave inf, which is not a number"),
        ("-inf", "gave -inf, which is not a number"),
        ("1.5", "gave 1.5, which is not a share from 0 to 1"),
        ("-2", "gave -2, which is not a share from 0 to 1"),
        ("1e300", "gave 1e+300, which is not a share from 0 to 1"),
    ],
)
def test_a_number_that_is_none_or_no_share_is_unscored(kind: str, number: str, reason: str):
    _, probe = named(Numbers)
    scores = score(probe.model_copy(update={"kind": kind}), Answer(text=number))
    assert "part" not in scores.values and reason in scores.unscored["part"]
    assert ("words" in scores.values) == ("share" in reason and number != "1e300")
    assert "words" in scores.values or reason in scores.unscored["words"] or "too large" in scores.unscored["words"]


@pytest.mark.parametrize("number", [0.0, 1.0, 0.5, 1 + 1e-12, -1e-12])
def test_a_share_may_miss_its_ends_by_rounding(number: float):
    _, probe = named(Numbers)
    scores = score(probe, Answer(text=str(number)))
    assert scores.values == {"part": min(max(number, 0.0), 1.0), "words": number} and not scores.unscored


def test_an_unknown_need_is_refused_with_the_nearest():
    with pytest.raises(BadSettings, match=r"needs 'baselines': did you mean 'baseline'"):
        check_scorers([name_object("Misspelt", Misspelt)])


def test_an_error_of_a_plug_in_names_it():
    name, probe = named(Failing)
    with pytest.raises(BadSettings, match=name):
        score(probe, Answer(text="Italy"))


@pytest.mark.parametrize("component", [Taken, SimpleNamespace, Probe])
def test_what_is_no_scorer_or_takes_an_output_is_refused(component):
    name = name_object(component.__name__, component)
    with pytest.raises(BadSettings, match="scorer"):
        check_scorers([name])


def test_names_are_checked_with_the_nearest():
    with pytest.raises(BadSettings, match="'contains'"):
        scorer_of("contians")
    with pytest.raises(BadSettings, match="0.5"):
        scorer_of("equivalence:0.9")


def test_the_list_says_what_each_scorer_needs_those_of_packages_too(monkeypatch):
    paths = {"margin": f"{__name__}:Margin", "torn": f"{__name__}:Missing"}
    points = {name: EntryPoint(name, path, "emend.scorers") for name, path in paths.items()}
    monkeypatch.setitem(vars(SCORERS), "plugins", points)
    rows = {row["name"]: row for row in SCORERS.rows()}
    assert {*SCORERS.builtin} < {*rows}
    assert rows["agreement"]["needs"] == "either, baseline"
    assert rows["margin"]["needs"] == "log_probs, choices" and "likelier" in rows["margin"]["summary"]
    assert rows["torn"]["needs"] == "" and rows["torn"]["summary"].startswith("broken")


def test_a_benchmark_that_is_code_brings_its_scorers_and_data_does_not():
    class Code:
        scorers: ClassVar[tuple[str, ...]] = ("tests.evals.metrics.scoring.test_scoring:Changed",)

        def cases(self, setting, limit=None, seed=0):
            return iter(())

    class Data(Code):
        scorers = ()

        def cases(self, setting, limit=None, seed=0):
            probe = PROBE.model_copy(update={"scorers": ("no_module:Words",)})
            return iter([SimpleNamespace(probes=(probe,))])

    benchmark: Any = Code()
    check_benchmark_scorers(benchmark, ("triplet",))
    data: Any = Data()
    with pytest.raises(BadSettings, match="--trust no_module:Words"):
        check_benchmark_scorers(data, ("triplet",))
