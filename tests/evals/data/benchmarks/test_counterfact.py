"""CounterFact's loader: on a hand-made folder in its schemas, and on the real files where they lie beside it."""

import json
import math
import shutil
from collections import Counter
from pathlib import Path

import pytest

from emend.evals.data.benchmarks.counterfact import CounterFact
from emend.evals.metrics.estimate import estimate
from emend.evals.metrics.scorers import ask_of, score
from emend.evals.metrics.scores import difference
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer
from tests.paths import DATA, SHARED

FIXTURE = DATA / "counterfact"
REAL = SHARED / "data" / "counterfact"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")


def cases_of(dataset="original", folder=FIXTURE, setting="triplet", **more):
    return list(CounterFact(folder, {"dataset": dataset}).cases(setting, **more))


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FIXTURE, tmp_path / "counterfact"))


@pytest.fixture
def evidence(folder):
    shutil.copy(folder / "counterfact-edit.json", folder / "counterfact-edit-evidence-1k.json")
    return folder


def rewrite(folder: Path, name: str, change):
    rows = json.loads((folder / name).read_text())
    change(rows)
    (folder / name).write_text(json.dumps(rows))


def test_an_original_record_becomes_query_paraphrases_and_neighbours_each_of_its_own():
    case = cases_of()[0]
    assert [p.kind for p in case.probes] == ["efficacy"] + 2 * ["paraphrase"] + 3 * ["neighborhood"]
    assert [p.tags["n"] for p in case.probes[:3]] == [0, 0, 1]
    query, paraphrase, *_, neighbour = case.probes
    assert (query.prompt, query.gold, query.rival) == ("Rurik Vane plays the instrument", ("cello",), "flute")
    assert paraphrase.prompt == "Rain fell all day. Rurik Vane, player of the"
    assert (neighbour.gold, neighbour.rival, neighbour.in_scope, neighbour.edit_ids) == (("flute",), "cello", False, ())
    first, second = (p for p in case.probes if p.prompt == "Mila Thorn plays the instrument")
    assert first.id != second.id


def test_the_edit_is_one_sentence_with_its_targets():
    (edit,) = cases_of()[0].edits
    assert (edit.form, edit.text, edit.cloze) == (
        "triplet",
        "Rurik Vane plays the instrument cello.",
        "Rurik Vane plays the instrument",
    )
    assert (edit.target_new, edit.target_true, edit.triplets[0].relation_id) == ("cello", "flute", "P1303")


def test_both_forms_ask_the_same_of_the_same_fact():
    original, flat = cases_of()[0], cases_of("flat")[0]
    asked = {(p.kind, p.prompt, p.gold, p.rival) for p in original.probes}
    assert {(p.kind, p.prompt, p.gold, p.rival) for p in flat.probes} < asked
    assert (flat.edits[0].text, flat.edits[0].cloze) == (original.edits[0].text, original.edits[0].cloze)


def test_a_neighbour_that_is_right_with_the_new_target_is_dropped_and_counted():
    assert [len(case.probes) for case in cases_of("flat")] == [3, 3, 2]
    told = CounterFact(FIXTURE, {"dataset": "flat"}).provenance
    assert list(told["dropped"].values()) == [1, 0]
    assert list(told["repaired"].values()) == [1]


def test_evidence_gives_nothing_away_but_its_text(evidence):
    (case,) = cases_of("flat-evidence", evidence, "evidence")
    (edit,) = case.edits
    assert edit.text == "Rurik Vane, the cellist, opened the autumn season with a suite for solo cello."
    assert (edit.form, edit.subject, edit.prompt, edit.target_new) == ("document", "", "", "")
    assert case.probes[0].edit_ids == (edit.id,)


def test_a_file_without_evidence_says_what_to_use():
    with pytest.raises(BadSettings, match=r"counterfact\.json has a text.*dataset=flat-evidence"):
        cases_of(setting="evidence")


@pytest.mark.parametrize(
    ("gold", "rival", "success", "by"),
    [
        (0.75, 0.25, 1, 0.5),
        (0.25, 0.75, 0, -0.5),
        (0.5, 0.5, 0, 0),  # a tie fails
        (1, 0, 1, 1),
    ],
)
def test_success_is_strict_and_the_difference_is_of_probabilities(gold, rival, success, by):
    logs = tuple(math.log(p) if p else -math.inf for p in (gold, rival))
    probe = cases_of()[0].probes[0]
    values = score(probe, Answer(log_probs=logs)).values
    assert values["success"] == success
    assert values["difference"] == pytest.approx(by, abs=1e-12)
    assert difference(*logs) == -difference(*logs[::-1])


def test_a_model_without_probabilities_is_unscored_and_asked_for_no_text():
    probe = cases_of()[0].probes[0]
    told = score(probe, Answer(text="cello"))
    assert not told.values
    assert set(told.unscored) == {"success", "magnitude", "difference", "success_token", "difference_token"}
    assert ask_of(probe, scorable=False).text is False
    assert ask_of(probe, scorable=True).targets == ("cello", "flute")


def test_records_weigh_alike_a_limit_draws_some_and_provenance_counts_them():
    metric = next(m for m in CounterFact(FIXTURE).metrics() if m.name == "NS")
    assert estimate([1, 1, 1, 0], ["a", "a", "a", "b"], per=metric.per).mean == 0.5
    assert {case.id for case in cases_of(limit=2)} < {case.id for case in cases_of()}
    told = CounterFact(FIXTURE).provenance
    assert (told["cases"], told["paraphrases"], told["neighbours"]) == (3, 5, 6)
    assert json.loads(json.dumps(told)) == told


def test_metrics_stand_in_the_papers_order_and_find_their_probes():
    metrics = CounterFact(FIXTURE).metrics()
    names = ["S", "ES", "EM", "PS", "PM", "NS", "NM"]
    assert [m.name for m in metrics] == [*names, "GE", *(f"{name} joint" for name in names)]
    asked = CounterFact(FIXTURE, {"generation": "9"}).cases("triplet")
    assert {kind for m in metrics for kind in m.kinds} == {p.kind for case in asked for p in case.probes}


def test_each_different_generation_prompt_is_asked_once_for_a_whole_text():
    case = next(CounterFact(FIXTURE, {"generation": "40"}).cases("triplet"))
    (probe,) = (p for p in case.probes if p.kind == "generation")
    assert (probe.prompt, probe.reading, probe.new_tokens) == ("Rurik Vane's favourite pastime is", "whole", 40)
    assert probe.tags["reference"] == "P1303/Q8371"
    assert CounterFact(FIXTURE).provenance["dropped"]["repeated generation prompts"] == 3
    assert not any(p.kind == "generation" for case in cases_of() for p in case.probes)


def test_the_codes_scores_go_by_the_token_and_the_papers_by_the_whole_target():
    probe = cases_of()[0].probes[0]
    answer = Answer(log_probs=(-4.0, -3.0), target_tokens=(4, 1))
    values = score(probe, answer).values
    assert (values["success_token"], values["success"]) == (1.0, 0.0)
    assert values["difference_token"] == pytest.approx(math.exp(-1) - math.exp(-3))
    assert values["difference"] == pytest.approx(math.exp(-4) - math.exp(-3))
    untold = score(probe, Answer(log_probs=(-4.0, -3.0)))
    assert untold.values["success"] == 0.0 and "how many tokens" in untold.unscored["success_token"]


@pytest.mark.slow
def test_a_record_alone_gives_the_scores_by_token(tmp_path):
    from emend.evals.config.run_config import RunConfig
    from emend.evals.evaluate.run import run
    from emend.evals.log.records import read_records
    from emend.evals.results.aggregate.rows import report

    config = RunConfig(
        benchmark="counterfact",
        editors=("unedited",),
        model="tiny",
        data=str(FIXTURE),
        benchmark_options={"generation": "12"},
    )
    run(config, tmp_path / "run")
    records = list(read_records(tmp_path / "run"))
    asked = [record for record in records if record.log_probs]
    assert asked and all(len(record.target_tokens) == 2 for record in asked)
    for record in asked:
        gold, rival = (p / n for p, n in zip(record.log_probs, record.target_tokens, strict=True))
        assert record.values["success_token"] == float(gold > rival)
    rows = {row.metric: row for row in report(tmp_path / "run").rows}
    assert {"S", "S joint", "GE"} <= set(rows)
    parts = [rows[name].mean or 0.0 for name in ("ES", "PS", "NS")]
    whole = 0.0 if 0 in parts else 3 / sum(1 / part for part in parts)
    assert rows["S"].mean == pytest.approx(whole)
    assert all(r.answer and r.usage.output_tokens <= 12 for r in records if r.kind == "generation")


def test_demonstrations_are_never_about_a_tested_fact():
    tested = " ".join(probe.prompt for case in cases_of() for probe in case.probes)
    benchmark = CounterFact(FIXTURE)
    for setting in benchmark.settings:
        shown = benchmark.demonstrations(setting)
        assert [d.kind for d in shown] == ["copy", "update", "retain"]
        assert all("Corvell" in d.fact and d.prompt not in tested for d in shown)


@real
@pytest.mark.parametrize("dataset", ["original", "flat", "flat-evidence"])
def test_all_real_records_become_cases(dataset):
    benchmark = CounterFact(REAL, {"dataset": dataset})
    rows = json.loads((REAL / benchmark.file).read_text())
    cases = list(benchmark.cases("triplet"))
    asked = Counter(p.kind for case in cases for p in case.probes)
    each = (2, 10) if dataset == "original" else (1, 1)
    assert len(cases) == len({case.id for case in cases}) == len(rows)
    assert asked == {"efficacy": len(rows), "paraphrase": each[0] * len(rows), "neighborhood": each[1] * len(rows)}
    assert benchmark.provenance["dropped"]["neighbours whose right answer is the new target"] == 0
    if dataset == "flat-evidence":
        assert len(list(benchmark.cases("evidence"))) == len(rows)
