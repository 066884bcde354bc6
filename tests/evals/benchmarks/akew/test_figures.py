"""AKEW's figures: edits that stand together, denominators, and the two rules of matching."""

import json
import shutil
from pathlib import Path

import pytest

from emend.evals.benchmarks.akew.benchmark import Akew
from emend.evals.case import Case
from emend.evals.metrics.estimate import estimate
from emend.evals.metrics.scorers import ask_of, score
from emend.evals.metrics.text import strict_match
from emend.memory.probe import Answer
from tests.paths import DATA

FIXTURE = DATA / "akew"


def cases(dataset="mquake_cf", setting="struct", folder=FIXTURE, **options):
    return list(Akew(folder, {"dataset": dataset} | options).cases(setting))


def kinds(case: Case):
    return [probe.kind for probe in case.probes]


def measured(benchmark: Akew, setting: str, reply) -> dict:
    """(mean, n) of every metric when `reply(probe)` is what the model says."""
    asked = [(case, probe) for case in benchmark.cases(setting) for probe in case.probes]
    values = [(case.id, probe.kind, score(probe, Answer(text=reply(probe))).values) for case, probe in asked]
    told = {}
    for metric in benchmark.metrics():
        rows = [(scores.get(metric.value), case) for case, kind, scores in values if kind in metric.kinds]
        found = estimate([value for value, _ in rows], [case for _, case in rows], per=metric.per)
        told[metric.name] = (found.mean, found.n)
    return told


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FIXTURE, tmp_path / "akew"))


def rewrite(folder: Path, name: str, change):
    rows = json.loads((folder / name).read_text())
    change(rows)
    (folder / name).write_text(json.dumps(rows))


def test_an_edit_that_an_earlier_record_makes_too_is_a_repetition():
    assert [kinds(case)[0] for case in cases()] == ["efficacy", "efficacy_repeated", "efficacy"]


def test_a_record_whose_answer_another_records_edit_changes_is_contaminated():
    found = cases()
    assert [case.tags["contaminated"] for case in found] == [True, False, False]
    assert [kinds(case)[-1] for case in found] == ["multihop_contaminated", "multihop", "multihop"]


def test_edits_that_contradict_each_other_are_contaminated():
    found = cases("counterfact")
    assert [kinds(case)[0] for case in found] == ["efficacy_contaminated", "efficacy", "efficacy_contaminated"]
    assert [case.tags["contaminated"] for case in found] == [True, False, True]


def test_contamination_is_judged_among_the_records_drawn(folder):
    rewrite(folder, "MQuAKE-CF.json", lambda rows: rows.pop(1))
    assert not any(case.tags["contaminated"] for case in cases(folder=folder))


def test_a_perfect_model_has_full_marks_over_the_right_denominators():
    told = measured(Akew(FIXTURE), "struct", lambda probe: probe.gold[0])
    assert {name: value for name, value in told.items() if "strict" not in name and name != "hit@1"} == {
        "EditAcc": (1, 5),
        "EditAcc distinct": (1, 4),
        "EditAcc clean": (1, 4),
        "MultiHop": (1, 3),
        "MultiHop clean": (1, 2),
    }


def test_one_of_three_questions_is_enough_and_a_record_counts_once():
    told = measured(
        Akew(FIXTURE), "struct", lambda p: p.gold[0] if p.tags.get("n") == 2 and "Pell" in p.prompt else "?"
    )
    assert told["MultiHop"] == (pytest.approx(2 / 3), 3)
    assert told["MultiHop clean"] == (1 / 2, 2)
    assert told["EditAcc"] == (0, 5)


def test_the_old_answer_is_wrong():
    told = measured(Akew(FIXTURE), "struct", lambda probe: probe.rival)
    assert {value for value, n in told.values() if n} == {0}


def test_the_two_rules_differ_in_letter_case_alone_and_neither_looks_inside_a_reply():
    probe = cases()[0].probes[1]
    both = [score(probe, Answer(text=text)).values for text in ("Santiago", "SANTIAGO", "west", "St", "Santiago it is")]
    assert [(v["em"], v["strict"]) for v in both] == [(1, 1), (1, 0), (0, 0), (1, 0), (0, 0)]
    stopped = score(probe, Answer(text="Santiago.")).values
    assert (stopped["em"], stopped["strict"]) == (1, 0)
    told = measured(Akew(FIXTURE), "struct", lambda p: p.gold[0].upper())
    assert (told["MultiHop"][0], told["MultiHop strict"][0]) == (1, 0)


def test_strict_match_is_unscored_without_a_text_and_the_model_is_asked_for_text_alone():
    probe = cases()[0].probes[0]
    assert score(probe, Answer()).unscored.keys() == {"em", "strict"}
    assert ask_of(probe, scorable=True) == (True, ())
    assert strict_match("CL", ["Chile", "CL"]) == 1
    assert strict_match("", []) == 0


def test_columns_stand_by_rule_of_matching_in_percent():
    metrics = Akew(FIXTURE).metrics()
    assert list(dict.fromkeys(m.group for m in metrics)) == ["normalised match", "strict match", "retrieval"]
    assert [m.name for m in metrics][:5] == [
        "EditAcc",
        "EditAcc distinct",
        "EditAcc clean",
        "MultiHop",
        "MultiHop clean",
    ]
    assert {m.scale for m in metrics} == {100}
    assert len({m.name for m in metrics}) == len(metrics)
