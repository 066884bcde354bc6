"""Runs of earlier versions, whose tags hold what are fields of a question today, show the same figures and keep
their ids.

Both folders were written by the last version with such tags; `expected.json` is what that version showed of them.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.judging.items import judge_inputs
from emend.evals.log import table_parts
from emend.evals.log.former_tags import HOP_GOLDS, convert_tags
from emend.evals.log.records import read_records
from emend.evals.results.aggregate.rows import report
from emend.memory.errors import BadData
from emend.memory.probe import Probe
from tests.evals.made import record
from tests.evals.results.analyses.computed import analysed
from tests.paths import DATA

pytestmark = pytest.mark.usefixtures("own_cache")
EARLIER = DATA / "earlier"
FIELDS: dict[str, Any] = {"kind": "k", "prompt": "p", "gold": ("g",)}


@pytest.fixture(params=[1, 2**40], ids=["from the table", "from the lines"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_parts, "LARGE", request.param)


def earlier(name: str, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    folder = Path(shutil.copytree(EARLIER / name, tmp_path / name))
    return folder, json.loads((folder / "expected.json").read_text("utf-8"))


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("name", ["hops", "conversation"])
def test_its_tables_are_the_same(name: str, tmp_path: Path) -> None:
    folder, expected = earlier(name, tmp_path)
    fields = {*expected["report"][0]}
    assert [row.model_dump(mode="json", include=fields) for row in report(folder).rows] == expected["report"]


@pytest.mark.usefixtures("size")
def test_the_analysis_of_hops_is_the_same(tmp_path: Path) -> None:
    folder, expected = earlier("hops", tmp_path)
    analysis = analysed("hops", folder)
    names = [*expected["analysis"][0]]
    assert [{name: getattr(row, name) for name in names} for row in analysis.rows] == expected["analysis"]
    assert list(analysis.notes) == expected["notes"]


def test_judges_see_the_same_rubric_and_criterion(tmp_path: Path) -> None:
    folder, expected = earlier("conversation", tmp_path)
    fields = {*expected["judged"][0]}
    assert [each.model_dump(mode="json", include=fields) for each in judge_inputs(folder)] == expected["judged"]
    assert not any({"rubric", "criterion"} & each.tags.keys() for each in read_records(folder))


@pytest.mark.parametrize(
    ("name", "benchmark", "setting"), [("hops", "mquake", "triplet"), ("conversation", "longmemeval", "turns")]
)
def test_its_cases_and_questions_have_their_ids_today(name: str, benchmark: str, setting: str) -> None:
    cases = BENCHMARKS.load(benchmark)(DATA / benchmark, {}).cases(setting)
    ids = {(case.id, probe.id) for case in cases for probe in case.probes}
    assert {(each.case, each.probe) for each in read_records(EARLIER / name)} <= ids


@pytest.mark.parametrize(
    ("tags", "fields"),
    [
        ({"event": "e", "n": 1}, {"event_id": "e", "tags": {"n": 1}}),
        ({"original_aliases": "a\nb"}, {"rival_aliases": ("a", "b")}),
        ({"hop_golds": '[["é"], ["b", "c"]]', "hops": 2}, {"hop_golds": (("é",), ("b", "c")), "tags": {"hops": 2}}),
        ({}, {"rubric": (), "abstains": False, "event_id": "", "tags": {}}),
    ],
)
def test_a_field_that_was_a_tag_changes_no_id_and_no_key(tags: dict[str, Any], fields: dict[str, Any]) -> None:
    former, probe = Probe(**FIELDS, tags=tags), Probe(**FIELDS, **fields)
    assert (probe.id, probe.content) == (former.id, former.content)
    assert Probe.model_validate(probe.model_dump()) == probe
    assert Probe(**FIELDS, rubric=("r",)).id != probe.id


def test_the_golds_of_hops_in_a_tag_become_a_field() -> None:
    old = record("1", kind="multihop", tags={HOP_GOLDS: '[["Ostrim"], ["Aske", "the Aske"]]', "hops": 2})
    new = convert_tags(old, "line 1")
    assert (new.hop_golds, new.tags) == ((("Ostrim",), ("Aske", "the Aske")), {"hops": 2})


@pytest.mark.parametrize("text", ["no JSON", '{"a": 1}', "[1]", "[" * 100_000])
def test_a_damaged_tag_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(BadData, match=r"line 7, field tags.hop_golds"):
        convert_tags(record("1", tags={HOP_GOLDS: text}), "line 7")
