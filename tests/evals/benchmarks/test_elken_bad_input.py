"""ELKEN's loader on bad input: what is said of a wrong option, an absent file, a cut-off file, a malformed record."""

import json
import shutil
from pathlib import Path

import pytest

from emend.evals.benchmarks.elken.benchmark import ELKEN
from emend.memory.errors import BadData, BadSettings, MissingData
from tests.paths import DATA

FIXTURE = DATA / "elken"


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FIXTURE, tmp_path / "elken"))


def rewrite(folder: Path, change):
    rows = json.loads((folder / "test.json").read_text())
    change(rows)
    (folder / "test.json").write_text(json.dumps(rows))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"blocks": "facts"}, "did you mean 'fact'"),
        ({"blocks": " , "}, "at least one of"),
        ({"split": "dev"}, "unknown split 'dev'"),
        ({"splitt": "test"}, "did you mean 'split'"),
    ],
)
def test_impossible_options_are_refused_with_the_remedy(options, said):
    with pytest.raises(BadSettings, match=said):
        ELKEN(FIXTURE, options)


@pytest.mark.parametrize(("setting", "limit", "said"), [("events", None, "did you mean"), ("event", 0, "limit=0")])
def test_impossible_requests_are_refused_before_the_first_case(setting, limit, said):
    with pytest.raises(BadSettings, match=said):
        ELKEN(FIXTURE).cases(setting, limit)


def test_absent_data_is_told_with_the_way_to_get_it(tmp_path):
    with pytest.raises(MissingData, match=r"test\.json.*git clone .*Event-Level-Knowledge-Editing"):
        ELKEN(tmp_path)


def test_a_test_file_that_is_cut_off_is_told_with_where_the_whole_one_is(folder):
    path = folder / "test.json"
    path.write_text(path.read_text()[:-200])
    with pytest.raises(BadData, match=r"test\.json .*cut off.*serac/output/tendency"):
        ELKEN(folder).cases("event")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[1].pop("event"), r"test\.json, record 1, field 'event': Field required"),
        (lambda rows: rows[0]["fact"]["qas"][1].update(type=2), r"record 0, field 'fact\.qas\[1\]\.type'.*value 2"),
        (lambda rows: rows[0]["fact"]["qas"][0].pop("type"), r"field 'fact\.qas\[0\]\.type': Field required"),
        (lambda rows: rows[0]["fact"]["local_qas"][0]["answer"].update(name=5), r"local_qas\[0\]\.answer\.name.*5\."),
        (lambda rows: rows[1]["tendency"]["qas"][0].update(answer="D"), r"tendency\.qas\[0\]\.answer.*value 'D'"),
        (lambda rows: rows[1]["tendency"]["qas"][0].update(candidate="yes or no"), r"candidate'.*three options.*yes"),
        (lambda rows: rows[3].update(event=rows[1]["event"]), r"record 3, field 'event'.*record 1.*Merge"),
        (lambda rows: rows.__setitem__(2, "row"), r"test\.json, record 2"),
    ],
)
def test_a_malformed_record_is_named_by_file_record_field_and_value(folder, change, said):
    rewrite(folder, change)
    with pytest.raises(BadData, match=said):
        ELKEN(folder).cases("event")


def test_a_file_that_is_no_list_is_refused(folder):
    (folder / "test.json").write_text("{}")
    with pytest.raises(BadData, match="a list of records .* expected, but it holds dict"):
        ELKEN(folder).cases("event")
