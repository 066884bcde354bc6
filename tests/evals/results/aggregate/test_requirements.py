from xml.etree import ElementTree

import pytest

import emend
from emend.evals.results.aggregate.gate import Requirement, check_requirements, write_junit
from emend.memory.errors import BadSettings
from tests.evals.command_line import emend as command
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


def test_a_command_ends_with_1_where_a_threshold_is_not_met(result, tmp_path, capfd):
    folder, junit = str(result.folder), str(tmp_path / "j.xml")
    assert command("report", folder, "--require", "EM>=0.9") == 0
    assert command("report", folder, "--require", "unedited:EM>=0.9", "--junit", junit) == 1
    assert "NOT MET: unedited plain: EM is 0" in capfd.readouterr().err
    assert command("report", folder, "--junit", junit) == 2
