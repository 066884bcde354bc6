"""The block `knowledge` asks for background knowledge without any event, beside the events or alone."""

import json
import shutil
from pathlib import Path

import pytest

from emend.evals.data.benchmarks.elken.benchmark import ELKEN
from emend.evals.data.benchmarks.elken.cases import KNOWLEDGE_KIND
from emend.evals.metrics.scorers import score
from emend.memory.errors import BadData, MissingData
from emend.memory.probe import Answer
from tests.paths import DATA

FOLDER = DATA / "elken"
ROWS = [
    {"question": f"Who is the child of Person{n}?", "answer": {"id": "NA", "name": f"Child{n}", "alias": ["Kid"]}}
    for n in range(3)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(FOLDER, tmp_path / "elken")
    (tmp_path / "elken" / "qas.json").write_text(json.dumps(ROWS), encoding="utf-8")
    return tmp_path / "elken"


def test_alone_it_asks_about_no_event(folder: Path) -> None:
    benchmark = ELKEN(folder, {"blocks": "knowledge"})
    cases = list(benchmark.cases("event"))
    assert [case.edits for case in cases] == [()] * 3
    probes = [probe for case in cases for probe in case.probes]
    assert {probe.kind for probe in probes} == {KNOWLEDGE_KIND} and not any(probe.in_scope for probe in probes)
    assert [metric.name for metric in benchmark.metrics()] == ["recall"]
    assert score(probes[1], Answer(text="kid.")).values == {"right": 1.0}
    assert score(probes[1], Answer(text="Child0")).values == {"right": 0.0}


def test_beside_events_it_comes_last_and_a_question_that_comes_again_counts_again(folder: Path) -> None:
    plain = [case.id for case in ELKEN(folder, {"blocks": "fact"}).cases("event")]
    both = list(ELKEN(folder, {"blocks": "fact,knowledge"}).cases("event"))
    assert [case.id for case in both[:-3]] == plain
    assert len(list(ELKEN(folder, {"blocks": "knowledge"}).cases("event", limit=2))) == 2
    (folder / "qas.json").write_text(json.dumps([*ROWS, ROWS[0]]), encoding="utf-8")
    benchmark = ELKEN(folder, {"blocks": "knowledge"})
    assert len({case.id for case in benchmark.cases("event")}) == 4
    assert benchmark.provenance["cases"] == benchmark.provenance["files"]["qas.json"]["records"] == 4


def test_an_absent_or_damaged_file_is_named(folder: Path) -> None:
    ELKEN(folder)  # which needs none
    (folder / "qas.json").write_text('[{"question": ""}]', encoding="utf-8")
    with pytest.raises(BadData, match=r"qas\.json, record 0"):
        list(ELKEN(folder, {"blocks": "knowledge"}).cases("event"))
    (folder / "qas.json").unlink()
    with pytest.raises(MissingData, match=r"background_knowledge_qas\.json"):
        ELKEN(folder, {"blocks": "knowledge"})
