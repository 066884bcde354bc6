"""The report of a sequence: scores at checkpoints beside the first asking of the same cases; and what a run cost."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from emend.evals.case import Metric, Record
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.baseline import BaselineAnswer
from emend.evals.log.lines import BASELINE, COSTS
from emend.evals.results.aggregate.costs import costs_of, spent_of
from emend.evals.results.aggregate.record_table import gather
from emend.evals.results.aggregate.rows import Report, forgetting_of, report, rows_of
from emend.evals.results.aggregate.tables import TableChoice
from emend.evals.show.report.metrics import render
from emend.evals.show.report.secondary import spent_line
from emend.memory.probe import ModelCall, Step, Usage
from tests.evals.toys import BENCHMARK, FLEETING_EDITOR, ScriptedModel
from tests.params import first_quick

ES = Metric(name="ES", value="success", kinds=("efficacy",), scale=100, summary="new beats old")
BEST = Metric(name="any", value="success", kinds=("efficacy",), per="any")


def record(case: int, value: float | None, checkpoint: int = 0, editor: str = "a", seconds: float = 0.5) -> Record:
    return Record(
        unit=f"{editor}{case}.{checkpoint}", of=1, case=str(case), probe="p", kind="efficacy", editor=editor, model="m",
        setting="s", mode="sequential", prompt="?", gold=("g",), checkpoint=checkpoint, seconds=seconds,
        values={} if value is None else {"success": value}, unscored={"success": "no reply"} if value is None else {},
        usage=Usage(input_tokens=10 * (case + 1), output_tokens=1, calls=1),
    )  # fmt: skip


SEQUENCE = [
    *(record(case, 1.0) for case in range(3)),
    record(3, None),
    *(record(case, float(case > 0), checkpoint=2) for case in range(2)),
    *(record(case, float(case > 2), checkpoint=4) for case in range(3)),
    record(3, None, checkpoint=4),
]


def text_of(found: Report, width: int) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width)
    console.print(render(found, console, TableChoice(everything=True)))
    return file.getvalue()


def test_a_checkpoint_is_compared_with_the_first_asking_of_the_cases_that_stood() -> None:
    two, four = forgetting_of(gather(SEQUENCE), [ES], ["a"])
    assert (two.standing, two.mean, two.n, two.first.mean, two.first.n, two.first.unscored) == (2, 50.0, 2, 100.0, 2, 0)
    assert (four.standing, four.mean, four.n, four.unscored) == (4, 0.0, 3, 1)
    assert (four.first.mean, four.first.n, four.first.unscored) == (100.0, 3, 1)
    assert four.low == 0.0 and four.high is not None and four.first.low is not None and four.first.low < 100.0


def test_askings_at_checkpoints_are_not_in_the_metrics_of_the_run_nor_costs_in_an_old_folder(tmp_path: Path) -> None:
    (row,) = rows_of(gather(SEQUENCE), [ES], ["a"])
    assert (row.mean, row.n, row.unscored) == (100.0, 3, 1)
    assert forgetting_of(gather(SEQUENCE[:4]), [ES], ["a"]) == []
    assert [row.metric for row in costs_of(gather(SEQUENCE), tmp_path, ["a"])] == ["s/probe", "in/probe", "out/probe"]


def test_a_metric_over_cases_is_that_at_checkpoints_too_in_the_order_of_metric_editor_checkpoint() -> None:
    more = [record(0, 1.0, checkpoint=2), record(0, 0.0)]
    two, _ = forgetting_of(gather([*SEQUENCE, *more]), [BEST], ["a"])
    assert (two.mean, two.n, two.first.mean) == (1.0, 2, 1.0)
    other = [r.model_copy(update={"editor": "b", "unit": f"b{r.unit}"}) for r in SEQUENCE]
    found = forgetting_of(gather([*other, *SEQUENCE]), [ES, BEST], ["b", "a"])
    assert [(r.metric, r.editor, r.standing) for r in found] == [
        (metric, editor, standing) for metric in ("ES", "any") for editor in ("b", "a") for standing in (2, 4)
    ]


def test_costs_are_means_over_probes_and_over_edits(tmp_path: Path) -> None:
    edit = {"act": "edit", "editor": "a", "setting": "s", "mode": "sequential", "again": False}
    lines = [
        edit | {"edits": 2, "seconds": 4.0, "cpu_seconds": 2.0, "tokens": 100, "peak_bytes": 2**20},
        edit | {"edits": 1, "seconds": 4.0, "cpu_seconds": 1.0, "tokens": 50, "peak_bytes": None},
        edit | {"edits": 0, "seconds": 9.0, "cpu_seconds": 9.0, "tokens": 0, "peak_bytes": None},
    ]
    (tmp_path / COSTS).write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"act": "ed')
    rows = {row.metric: row for row in costs_of(gather(SEQUENCE[:4]), tmp_path, ["a"])}
    assert {name: (row.mean, row.n) for name, row in rows.items()} == {
        "s/probe": (0.5, 4), "in/probe": (25.0, 4), "out/probe": (1.0, 4),
        "s/edit": (3.0, 2), "CPU s/edit": (1.0, 2), "tok/edit": (50.0, 2), "peak MiB": (1.0, 1),
    }  # fmt: skip
    assert (rows["out/probe"].low, rows["out/probe"].high) == (1.0, 1.0)  # the same each time is no share of ones
    assert rows["in/probe"].low is not None and rows["in/probe"].low < 25.0
    spent = spent_of(gather(SEQUENCE), tmp_path)
    assert (spent.input_tokens, spent.calls, spent.processes, spent.baseline_calls) == (230, 10, 0, 0)
    assert spent_line(spent) == "230 tokens in, 10 out, 10 calls"


@pytest.mark.slow
@pytest.mark.parametrize("width", first_quick([80, 120]))
def test_a_sequence_is_reported_from_its_folder_at_every_width(tmp_path: Path, width: int) -> None:
    config = RunConfig(
        benchmark=BENCHMARK, editors=("unedited", FLEETING_EDITOR), model="m", mode="sequential",
        reevaluate_at="2,end", concurrency=1,
    )  # fmt: skip
    run(config, tmp_path / "run", model=ScriptedModel())
    found = report(tmp_path / "run")
    assert (found.missing, found.failed) == (0, 0)
    told = {(r.editor, r.metric, r.standing): (r.mean, r.first.mean, r.n) for r in found.forgetting}
    assert told[FLEETING_EDITOR, "EM", 2] == (100.0, 100.0, 2)
    assert told[FLEETING_EDITOR, "EM", 6] == (50.0, 100.0, 6)
    assert told["unedited", "keep", 6] == (100.0, 100.0, 6)
    text = text_of(found, width)
    assert "EM by number of applied edits, plain: says the new capital" in text.replace("\n", " ")
    for part in ("at own edit", "50.0", "s/edit", "s/probe", "of these before editing"):
        assert part in text.replace("\n", " "), part
    assert "…" not in text


def test_calls_of_the_unedited_model_whose_replies_were_no_use_are_spent_too(tmp_path: Path) -> None:
    calls = (ModelCall(input_tokens=100, output_tokens=20, error="ReplyRefused: no"),)
    steps = (Step(node="n", update={}, ms=0.0, calls=calls),)
    kept = BaselineAnswer(key="k", probe="p", error="no", kind="ModelReplyError", steps=steps)
    (tmp_path / BASELINE).write_text(kept.model_dump_json() + "\n", encoding="utf-8")
    spent = spent_of(gather(()), tmp_path)
    assert (spent.input_tokens, spent.output_tokens, spent.calls, spent.baseline_tokens) == (100, 20, 1, 120)
