"""The release gate: limits on efficacy, forgetting, ability and perplexity, and the last safe number of edits."""

from math import inf, nan
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from emend.evals.metrics.estimate import Estimate
from emend.evals.metrics.paired import Paired
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.gate import GateLimits, check_gate, compared_end
from emend.evals.results.aggregate.junit import write_junit
from emend.evals.results.aggregate.rows import ForgettingRow, Report
from emend.evals.results.aggregate.rows import report as read_report
from emend.evals.results.aggregate.side_effects import AbilityRow, PerplexityRow
from emend.memory.errors import BadSettings
from tests.evals import toy_runs
from tests.evals.command_line import emend as command
from tests.evals.toys import EDITOR

PLACE = {"editor": "rome", "setting": "triplet", "mode": "sequential:10", "unscored": 0, "low": None, "high": None}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A report of a toy run, for the fields that the gate does not read."""
    folder = tmp_path_factory.mktemp("gate") / "run"
    toy_runs.go(folder, editors=(EDITOR,), benchmark_options={"cases": "2"})
    return read_report(folder)


def curve(report: Report, now: list[float | None], drops: list[float], ratios: list[float]) -> Report:
    """The report of a sequence of 10, 20, 30 ... edits, each with efficacy, loss of ability and perplexity."""
    first = Estimate(mean=100.0, n=10)
    fields: dict[str, Any] = PLACE | {"n": 10}
    numbers = range(10, 10 * len(now) + 1, 10)
    return report.model_copy(
        update={
            "rows": (MetricRow(**fields | {"metric": "EM", "mean": 100.0}),),
            "forgetting": tuple(
                ForgettingRow(**fields | {"metric": "EM", "mean": mean, "standing": number, "first": first})
                for number, mean in zip(numbers, now, strict=True)
            ),
            "ability": tuple(
                AbilityRow(
                    **fields | {"metric": "acc", "mean": 60 - drop, "task": "built_in", "standing": number},
                    before=Estimate(mean=60.0, n=10),
                    change=Paired(difference=-drop, low=-drop - 1, high=-drop + 1, n=10),
                )
                for number, drop in zip(numbers, drops, strict=True)
            ),
            "perplexity": tuple(
                PerplexityRow(
                    **fields | {"metric": "perplexity", "mean": 10 * ratio, "standing": number},
                    before=Estimate(mean=10.0, n=10),
                )
                for number, ratio in zip(numbers, ratios, strict=True)
            ),
        }
    )


@pytest.mark.parametrize(
    "limits, safe, passes",
    [
        ({"min_efficacy": 90}, 20, False),
        ({"min_efficacy": 0.9}, 20, False),
        ({"min_efficacy": 50}, 40, True),
        ({"max_forgetting": 5}, 10, False),
        ({"max_forgetting": 50}, 40, True),
        ({"max_ability_drop": 2}, 30, False),
        ({"max_ability_drop": 0.5}, None, False),
        ({"max_perplexity": 1.5}, 20, True),
        ({"min_efficacy": 90, "max_ability_drop": 0.5}, None, False),
    ],
)
def test_the_last_safe_number_of_edits_is_the_last_one_before_a_limit_is_passed(
    report: Report, limits: dict[str, float], safe: int | None, passes: bool
) -> None:
    sequence = curve(report, [100, 92, 80, 60], [1, 0.8, 2, 3], [1, 1.4, 2, 1.2])
    (verdict,) = check_gate(sequence, GateLimits.model_validate(limits))
    assert (verdict.safe_edits, verdict.passes) == (safe, passes)


def test_efficacy_is_that_of_edited_prompts_and_not_a_mean_over_other_kinds(report: Report) -> None:
    sequence = curve(report, [100], [0], [1])
    (metric, *_), (row,) = report.metrics, sequence.rows
    metrics = (
        metric.model_copy(update={"name": "S", "kinds": ("efficacy", "neighborhood")}),
        metric.model_copy(update={"name": "magnitude", "kinds": ("efficacy",), "share": False}),
        metric.model_copy(update={"name": "ES", "kinds": ("efficacy",)}),
    )
    rows = tuple(row.model_copy(update={"metric": each.name}) for each in metrics)
    measured = report.model_copy(update={"metrics": metrics, "rows": rows})
    (verdict,) = check_gate(measured, GateLimits(min_efficacy=90))
    assert verdict.passes and verdict.checks[0].quantity == "ES (exact)"
    (verdict,) = check_gate(measured, GateLimits(min_efficacy=90, metric="S"))
    assert verdict.checks[0].quantity == "S (exact)"


def test_a_drop_has_the_interval_of_the_difference(report: Report) -> None:
    (verdict,) = check_gate(curve(report, [100], [3], [1]), GateLimits(max_ability_drop=2))
    (check,) = verdict.checks
    assert check.value.mean == 3 and (check.value.low, check.value.high) == (2, 4)
    assert "built_in acc" in check.message and "limit 2" in check.message


def test_what_was_not_measured_does_not_pass_and_says_how_to_measure_it(report: Report) -> None:
    (verdict,) = check_gate(report, GateLimits(max_forgetting=5, max_ability_drop=2, max_perplexity=2))
    assert not verdict.passes and verdict.safe_edits is None
    forgetting, ability, _ = (check.message for check in verdict.checks)
    assert "--reevaluate-at" in forgetting and "--ability" in ability
    sequence = curve(report, [100], [1], [1])
    others = tuple(row.model_copy(update={"editor": "ft"}) for row in sequence.ability)
    (verdict,) = check_gate(sequence.model_copy(update={"ability": others}), GateLimits(max_ability_drop=2))
    assert not verdict.passes and "weights" in verdict.checks[0].message
    (unscored,) = check_gate(curve(report, [None], [0], [1]), GateLimits(min_efficacy=1))
    assert not unscored.passes and "no score" in unscored.checks[0].message


def test_what_was_measured_after_the_last_edit_alone_decides_too(report: Report) -> None:
    sequence = curve(report, [100, 92], [1, 0.8], [1, 1.4])
    last = sequence.perplexity[-1].model_copy(update={"standing": 40, "mean": 500.0})
    (verdict,) = check_gate(
        sequence.model_copy(update={"perplexity": (*sequence.perplexity, last)}), GateLimits(max_perplexity=1.5)
    )
    assert not verdict.passes and verdict.safe_edits == 20


def test_a_limit_that_is_met_exactly_passes(report: Report) -> None:
    sequence = curve(report, [29 / 50 * 100], [0.0], [1.0])
    (verdict,) = check_gate(sequence, GateLimits(min_efficacy=58))
    assert verdict.passes


@pytest.mark.parametrize("field", ["missing", "failed"])
def test_a_run_with_units_that_are_not_done_is_refused(report: Report, field: str) -> None:
    sequence = curve(report, [100], [0.0], [1.0]).model_copy(update={field: 1})
    with pytest.raises(BadSettings, match="emend resume"):
        check_gate(sequence, GateLimits(min_efficacy=90))


def test_a_wrong_limit_is_refused(report: Report) -> None:
    with pytest.raises(BadSettings, match="--min-efficacy"):
        check_gate(report, GateLimits())
    with pytest.raises(BadSettings, match="EM"):
        check_gate(report, GateLimits(min_efficacy=1, metric="EMM"))
    unedited = report.model_copy(
        update={"rows": tuple(row.model_copy(update={"editor": "unedited"}) for row in report.rows)}
    )
    with pytest.raises(BadSettings, match="no edited model"):
        check_gate(unedited, GateLimits(min_efficacy=1))


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("min_efficacy", nan),
        ("min_efficacy", 500),
        ("min_efficacy", -5),
        ("max_forgetting", 101),
        ("max_ability_drop", inf),
        ("max_perplexity", -1),
        ("max_perplexity", inf),
    ],
)
def test_a_limit_that_nothing_can_pass_or_miss_is_refused(report: Report, name: str, limit: float) -> None:
    with pytest.raises(BadSettings, match=f"--{name.replace('_', '-')} is {limit:g}: give a"):
        check_gate(curve(report, [100], [0], [1]), GateLimits.model_validate({name: limit}))


def test_each_check_is_a_test_case_of_junit(report: Report, tmp_path: Path) -> None:
    verdicts = check_gate(curve(report, [100, 80], [0, 0], [1, 1]), GateLimits(min_efficacy=90, max_perplexity=2))
    checks = [check for verdict in verdicts for check in verdict.checks]
    write_junit(checks, "emend gate", tmp_path / "gate.xml")
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    (failure,) = suite.iter("failure")
    assert "EM (exact) is 80" in failure.get("message", "")


def test_the_command_ends_with_1_where_a_limit_is_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toy_runs.go(tmp_path / "run", editors=(EDITOR,), benchmark_options={"cases": "3"}, mode="sequential")
    assert command("gate", str(tmp_path / "run"), "--min-efficacy", "100", "--max-forgetting", "0") == 0
    assert "last safe number of edits: 3" in capsys.readouterr().out
    assert command("gate", str(tmp_path / "run"), "--max-ability-drop", "1", "--json") == 1
    assert '"safe_edits": null' in capsys.readouterr().out


def test_the_low_end_of_an_interval_may_decide(report: Report) -> None:
    (row,) = curve(report, [100], [0], [1]).rows
    wide = row.model_copy(update={"low": 51.0, "high": 100.0, "metric": report.metrics[0].name})
    measured = report.model_copy(update={"rows": (wide,)})
    for limits, passes in ((GateLimits(min_efficacy=90), True), (GateLimits(min_efficacy=90, by="low"), False)):
        (verdict,) = check_gate(measured, limits)
        assert verdict.passes is passes
    drops = curve(report, [100], [3], [1])
    assert check_gate(drops, GateLimits(max_ability_drop=3.5))[0].passes
    assert not check_gate(drops, GateLimits(max_ability_drop=3.5, by="low"))[0].passes


def test_another_end_of_an_interval_is_none() -> None:
    with pytest.raises(BadSettings, match="low"):
        compared_end("lower")
