from xml.etree import ElementTree

import pytest

import emend
from emend.evals.config.run_file import RunPlan, read_run_file
from emend.evals.metrics.protocols import metrics_under
from emend.evals.metrics.requirement import Requirement
from emend.evals.results.aggregate.database import open_database
from emend.evals.results.aggregate.gate import GateLimits, check_gate
from emend.evals.results.aggregate.junit import write_junit
from emend.evals.results.aggregate.requirement_outcomes import check_requirements
from emend.evals.results.aggregate.rows import report
from emend.evals.results.aggregate.tables import LabelledReport, TableChoice, metric_tables
from emend.memory.errors import BadSettings
from tests.evals.command_line import emend as command
from tests.evals.made import EM, record, write_run
from tests.evals.toys import EDITOR, ScriptedModel, ToyBenchmark, ToyEditor


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thresholds") / "run"
    return emend.run(ToyBenchmark, ["unedited", ToyEditor], ScriptedModel(), out=folder, progress=False)


@pytest.mark.parametrize(
    "text, met",
    [
        ("EM>=0.9", [True]),
        ("EM >= 100%", [True]),
        ("EM>1", [False]),
        ("unedited:EM<0.1", [True]),
        (f"{EDITOR}:keep>=90%", [True]),
        ("unedited:EM>=10%", [False]),
    ],
)
def test_a_threshold_is_met_or_not(result, text, met):
    assert [outcome.met for outcome in check_requirements(result.report, [text])] == met


def test_a_metric_without_a_score_is_not_met(result):
    rows = tuple(row.model_copy(update={"mean": None, "n": 0}) for row in result.report.rows)
    (outcome,) = check_requirements(result.report.model_copy(update={"rows": rows}), ["EM>=0"])
    assert not outcome.met and "no score" in outcome.message


@pytest.mark.parametrize("text", ["EM", "EM>=", "EM>=x", "EM==1", ">=1", "EM>=1e", "EM>=nan"])
def test_other_forms_are_refused(text):
    with pytest.raises(BadSettings, match="write for example"):
        Requirement.parse(text)


@pytest.mark.parametrize("text", ["EM>=500", "EM>=1e400", "EM<=-101", "EM>=100.1%"])
def test_a_number_that_no_metric_has_is_refused(result, text):
    with pytest.raises(BadSettings, match="too large|up to 100"):
        check_requirements(result.report, [text])


@pytest.mark.parametrize("text, hint", [("kep>=1", "did you mean 'keep'"), ("unedit:EM>=1", "did you mean 'unedited'")])
def test_unknown_names_get_a_hint(result, text, hint):
    with pytest.raises(BadSettings, match=hint):
        check_requirements(result.report, [text])


def test_an_unfinished_run_is_refused(result):
    with pytest.raises(BadSettings, match="emend resume"):
        check_requirements(result.report.model_copy(update={"missing": 1}), ["EM>=0.9"])


def test_junit_has_a_case_per_outcome(result, tmp_path):
    outcomes = check_requirements(result.report, ["EM>=0.9", "unedited:EM>=0.9"])
    write_junit(outcomes, "run", tmp_path / "j.xml")
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert ["required >= 90" in failure.get("message", "") for failure in suite.iter("failure")] == [True]
    assert ["n=" in (case.findtext("system-out") or "") for case in suite.iter("testcase")] == [True, True]


def test_a_command_ends_with_1_where_a_threshold_is_not_met(result, tmp_path, capfd):
    folder, junit = str(result.folder), str(tmp_path / "j.xml")
    assert command("report", folder, "--require", "EM>=0.9") == 0
    assert command("report", folder, "--require", "unedited:EM>=0.9", "--junit", junit) == 1
    assert "NOT MET: unedited plain: EM (exact) is 0" in capfd.readouterr().err
    assert command("report", folder, "--junit", junit) == 2


def test_names_are_checked_before_the_first_call(tmp_path):
    model = ScriptedModel()
    with pytest.raises(BadSettings, match="did you mean 'EM'"):
        emend.run(ToyBenchmark, ToyEditor, model, out=tmp_path / "run", progress=False, require="EMM>=0.9")
    with pytest.raises(BadSettings, match="did you mean 'unedited'"):
        emend.run(ToyBenchmark, "unedited", model, out=tmp_path / "run", progress=False, require="unedit:EM>=0.9")
    assert not (tmp_path / "run" / "records.jsonl").exists()


def test_a_result_compares_the_thresholds_of_its_call_or_others(tmp_path):
    made = emend.run(ToyBenchmark, ToyEditor, ScriptedModel(), out=tmp_path / "run", progress=False, require="EM>=90")
    assert [outcome.met for outcome in made.check()] == [True]
    assert [outcome.met for outcome in made.check("EM<50%", "EM exact>=1")] == [False, True]


def test_a_configuration_file_has_thresholds_and_the_command_line_comes_first(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("benchmark: tinyworld\neditors: rag\nrequire: [efficacy>=0.9, 'rag:hit@1>=90%']\n")
    plan = RunPlan.of(read_run_file(path), {})
    assert plan.require == ("efficacy>=0.9", "rag:hit@1>=90%") and "require:" in plan.text()
    assert RunPlan.of(read_run_file(path), {}, require=["paraphrase>=0.5"]).require == ("paraphrase>=0.5",)


def said(case, em, contains):
    return record(case, values={"em": em, "contains": contains}, form="chat")


def test_a_name_without_a_protocol_is_the_headline_and_the_verdict_says_it(tmp_path):
    metrics = metrics_under([EM.model_copy(update={"name": "efficacy", "published": False})], ())
    folder = write_run(tmp_path / "run", [said(str(n), 0.0, float(n < 9)) for n in range(10)], metrics=metrics)
    found = report(folder)
    (met,) = check_requirements(found, ["efficacy>=90"])
    assert met.met and "efficacy (contains) is 90 [" in met.message
    (unmet,) = check_requirements(found, ["efficacy exact>=0.1"])
    assert not unmet.met and "efficacy (exact) is 0 [" in unmet.message
    (verdict,) = check_gate(found, GateLimits(min_efficacy=90))
    assert verdict.passes and verdict.checks[0].quantity == "efficacy (contains)"
    (table,) = metric_tables([LabelledReport(found, {})], TableChoice(columns=("efficacy",)))
    assert [metric.protocol for metric in table.metrics] == ["contains"]
    with open_database(folder) as tables:
        query = "SELECT avg(value) FROM scores JOIN metrics USING (name, kind) WHERE headline"
        assert tables.query(query).rows == [(pytest.approx(0.9),)]
