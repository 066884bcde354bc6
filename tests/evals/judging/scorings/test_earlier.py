"""A scoring that an earlier version kept in files beside each other opens with equal numbers, and goes on."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from emend.evals.judging.panel import Panel
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.manifest import FOLDER
from emend.evals.judging.scorings.search import list_scorings
from emend.evals.log.records import read_records
from emend.evals.log.run_index import RunIndex
from emend.evals.results.aggregate.rows import report
from emend.evals.show.trace.case_trace import judged_steps
from tests.evals.judged_runs import scored, verdict
from tests.fakes import ScriptedChatModel
from tests.paths import DATA

pytestmark = pytest.mark.usefixtures("own_cache")
EARLIER = DATA / "judges" / "earlier_scoring"
"""Made by the last version that kept scorings so; `expected.json` is what that version showed of it."""
EXPECTED = json.loads((EARLIER / "expected.json").read_text("utf-8"))
TERSE = "tests.evals.judged_runs:TERSE"


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EARLIER, tmp_path / "run"))


def test_tables_and_notes_are_those_of_the_version_that_wrote_it(earlier: Path) -> None:
    made = report(earlier)
    fields = {*EXPECTED["rows"][0]}
    rows = [row for row in made.rows if row.judge and row.metric != "correctness 4 or 5"]
    assert [row.model_dump(mode="json", include=fields) for row in rows] == EXPECTED["rows"]
    assert list(made.choices) == EXPECTED["notes"]


@pytest.mark.parametrize("indexed", [False, True])
def test_the_steps_of_its_calls_are_found_with_and_without_an_index(earlier: Path, indexed: bool) -> None:
    with RunIndex(earlier) as index:
        judged = judged_steps(earlier, list(read_records(earlier)), index=index if indexed else None)
    steps: dict[str, list[Any]] = {}
    for (unit, probe), items in judged.items():
        nodes = ([step["node"] for step in each.steps] for each in items)
        steps[f"{unit} {probe}"] = [
            [each.judgement.item, each.together, names] for each, names in zip(items, nodes, strict=True)
        ]
    assert steps == EXPECTED["steps"]
    assert any(together > 1 for shown in steps.values() for _, together, _ in shown)


def test_it_goes_on_in_a_folder_and_nothing_is_asked_twice(earlier: Path) -> None:
    (scoring,) = list_scorings(earlier)
    before = sorted(judgement.key for judgement in read_judgements(earlier, scoring))
    lost = earlier / FOLDER / f"{scoring.id}.jsonl"
    lost.write_bytes(b"".join(lost.read_bytes().splitlines(keepends=True)[:-1]))
    model = ScriptedChatModel(reply=verdict)
    summary = scored(earlier, model, Panel(judges=scoring.panel.judges), kinds=[TERSE, "tendency"])
    assert (summary.scoring.id, summary.before, summary.judged) == (scoring.id, len(before) - 1, 1)
    assert len(model.calls) == 1 and sorted(each.key for each in read_judgements(earlier, scoring)) == before
    assert [each.id for each in list_scorings(earlier)] == [scoring.id]
