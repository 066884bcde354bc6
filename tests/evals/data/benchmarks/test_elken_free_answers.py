"""ELKEN's free answers (Tendency-G): asked for, kept whole, counted as awaiting a judge, never as wrong."""

import json
from pathlib import Path

import pytest

from emend.evals.case import Record
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.records import read_records
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.rows import report
from tests.fakes import ScriptedChatModel
from tests.paths import DATA

FIXTURE = DATA / "elken"
REPLY = "They will rise.\nMore people hear of the museum."


@pytest.fixture
def folder(tmp_path):
    def reply(prompt: str) -> str:
        return REPLY + "\nQuestion: And then?" if "what is likely to happen" in prompt else "A"

    config = RunConfig(
        benchmark="elken",
        data=str(FIXTURE),
        benchmark_options={"blocks": "tendency_m,tendency_g"},
        editors=("unedited", "in_context"),
        model="scripted",
    )
    run(config, tmp_path / "run", model=ScriptedChatModel(reply=reply))
    return tmp_path / "run"


def free(folder: Path) -> list[Record]:
    return [record for record in read_records(folder) if record.kind.startswith("tendency_open")]


def test_every_line_of_a_free_answer_and_what_was_said_before_is_kept_and_awaits_a_judge(folder):
    records = free(folder)
    assert len(records) == 10
    assert {record.answer for record in records} == {REPLY}
    for record in free(folder):
        assert record.values == {}
        assert record.unscored == {"judged": "awaits a judge"}
    probes = {record.probe for record in free(folder) if record.kind.endswith("_local")}
    lines = [json.loads(line) for line in (folder / "baseline.jsonl").read_text().splitlines()]
    kept = {line["probe"]: line["answer"]["text"] for line in lines}
    assert {kept[probe] for probe in probes} == {REPLY}


def test_the_table_counts_what_awaits_a_judge_beside_the_multiple_choice_scores(folder):
    told = report(folder)
    rows: dict[tuple[str, str], MetricRow] = {(row.editor, row.metric): row for row in told.rows}
    for editor in ("unedited", "in_context"):
        waiting, chosen = rows[editor, "G Q"], rows[editor, "M Q"]
        assert (waiting.mean, waiting.n, waiting.unscored) == (None, 0, 3)
        assert (rows[editor, "G Loc"].mean, rows[editor, "G Loc"].unscored) == (None, 2)
        assert (chosen.mean is not None, chosen.n) == (True, 3)
    assert told.reasons == {"awaits a judge": 10}
