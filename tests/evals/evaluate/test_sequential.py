"""Mode `sequential`: edits stand on one another, earlier cases are asked again, and a resumed run goes on exactly."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from emend.evals.case import Case, Record
from emend.evals.config.mode import Checkpoints, Mode
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.edit_groups import AppliedEdits
from emend.evals.evaluate.units import Group, groups
from emend.evals.jobs.results import Summary
from emend.evals.log.lines import COSTS, ERRORS, EVENTS, RECORDS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines, read_records
from emend.memory.edit import Edit
from emend.memory.errors import BadData, BadSettings, RunRefused
from tests.evals import toy_runs
from tests.evals.toy_runs import untimed_records
from tests.evals.toys import (
    EDITOR,
    FLEETING_EDITOR,
    HEAVY,
    FleetingEditor,
    HeavyEditor,
    ScriptedModel,
    ToyEditor,
    toy_case,
)
from tests.params import mostly_slow

EIGHT = {"cases": "8"}


SEQUENCE = {"editors": (FLEETING_EDITOR,), "mode": "sequential", "reevaluate_at": "none"}


def config(**changed: Any) -> RunConfig:
    return toy_runs.config(**SEQUENCE | changed)


def go(folder: Path, model: ScriptedModel | None = None, **changed: Any) -> Summary:
    return toy_runs.go(folder, model, **SEQUENCE | changed)


def places(records: list[Record]) -> dict[int, list[str]]:
    """By checkpoint, the prompts about capitals that were asked."""
    fields: dict[int, list[str]] = {}
    for record in records:
        if record.kind == "efficacy":
            fields.setdefault(record.checkpoint, []).append(record.prompt.split()[3])
    return fields


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    for item in (ToyEditor.log, HeavyEditor.intruders, FleetingEditor.left):
        item.clear()
    yield
    ToyEditor.log.clear()


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("2,5", [2, 5]),
        (" 5 , 2 ,2", [2, 5]),
        ("every:2", [2, 4, 6]),
        ("end", [7]),
        ("every:3,4,end", [3, 4, 6, 7]),
        ("7,end", [7]),
        ("every:9", []),
        ("none", []),
    ],
)
def test_checkpoints_are_listed_regular_or_the_last(text: str, reached: list[int]) -> None:
    grouped = groups(lambda: (toy_case(n) for n in range(7)), Mode.parse("sequential"), Checkpoints.parse(text))
    assert [group.checkpoint for group in grouped if group.checkpoint] == reached


@pytest.mark.parametrize("text", ["", "0", "ten", "every:", "every:0", "-3", "each:5", "3,,4", "1.5", "last"])
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(f"--reevaluate-at is '{text}'")):
        config(reevaluate_at=text)


def test_a_case_of_several_edits_reaches_a_checkpoint_by_passing_it() -> None:
    def cases() -> Iterator[Case]:
        for first in (0, 3, 6):
            parts = [toy_case(n) for n in range(first, first + 3)]
            yield Case(edits=tuple(edit for part in parts for edit in part.edits), probes=parts[0].probes)

    grouped = list(groups(cases, Mode.parse("sequential"), Checkpoints.parse("1,2,4")))
    assert [(group.checkpoint, group.again) for group in grouped if group.checkpoint] == [(3, 1), (6, 2)]


def test_cases_are_taken_in_turns() -> None:
    grouped = list(
        groups(lambda: (toy_case(n) for n in range(7)), Mode.parse("sequential:3"), Checkpoints.parse("4,end"))
    )
    turns = [group for group in grouped if not group.checkpoint]
    assert [len(list(group.cases())) for group in turns] == [3, 3, 1]
    assert [len(group.new) for group in turns] == [3, 3, 1] and [len(group.edits) for group in turns] == [3, 6, 7]
    assert [(group.checkpoint, group.again) for group in grouped if group.checkpoint] == [(6, 6), (7, 7)]


def test_the_edits_of_a_turn_are_solved_together_on_top_of_those_before(tmp_path: Path) -> None:
    go(tmp_path / "run", mode="sequential:2", reevaluate_at="end", limit=5)
    assert ToyEditor.log == [(), ("Land0", "Land1"), ("Land2", "Land3"), ("Land4",)]
    assert FleetingEditor.left == [5]
    standing = [r.active_edits for r in read_records(tmp_path / "run") if not r.checkpoint and r.kind == "efficacy"]
    assert sorted(standing) == [2, 2, 4, 4, 5]


def test_of_a_turn_that_cannot_be_applied_only_the_edits_at_fault_fail() -> None:
    def apply_more(edits: Sequence[Edit]) -> Any:
        if any(edit.subject == "Land1" for edit in edits):
            raise BadData("no such token")
        return edits

    cases = [toy_case(n) for n in range(3)]
    applied = AppliedEdits(apply_more, (BadSettings,), divides=True)
    assert applied.apply([edit for case in cases for edit in case.edits]) and applied.count == 2
    assert [applied.error_of(case) is None for case in cases] == [True, False, True]


def test_an_edit_that_stands_already_is_not_new() -> None:
    twice = Case(edits=toy_case(0).edits, probes=toy_case(1).probes)
    grouped: list[Group] = list(groups(lambda: iter([toy_case(0), twice, toy_case(2)]), Mode.parse("sequential")))
    assert [len(group.new) for group in grouped] == [1, 0, 1]
    assert [len(group.edits) for group in grouped] == [1, 1, 2]


@pytest.mark.parametrize("editor", [EDITOR, HEAVY, FLEETING_EDITOR, "unedited"])
def test_earlier_cases_are_asked_again_at_each_checkpoint(tmp_path: Path, editor: str) -> None:
    summary = go(tmp_path / "run", editors=(editor,), reevaluate_at="2,end", limit=4)
    records = list(read_records(tmp_path / "run"))
    lands = [f"Land{n}" for n in range(4)]
    assert {k: sorted(v) for k, v in places(records).items()} == {0: lands, 2: lands[:2], 4: lands}
    assert summary.units == summary.finished == 4 + 2 + 4
    assert {(r.checkpoint, r.active_edits) for r in records if r.checkpoint} == {(2, 2), (4, 4)}
    assert sorted(r.active_edits for r in records if not r.checkpoint and r.kind == "efficacy") == [1, 2, 3, 4]
    assert len({r.unit for r in records}) == 10


def test_each_edit_is_solved_once_on_top_of_those_before_and_all_are_undone(tmp_path: Path) -> None:
    go(tmp_path / "run", reevaluate_at="3,end", limit=5)
    assert ToyEditor.log == [(), *((f"Land{n}",) for n in range(5))]
    assert FleetingEditor.left == [5]
    records = [r for r in read_records(tmp_path / "run") if r.kind == "efficacy"]
    by_name = {r.prompt.split()[3]: r.values["em"] for r in records if r.checkpoint == 5}
    assert by_name == {"Land0": 0.0, "Land1": 0.0, "Land2": 1.0, "Land3": 1.0, "Land4": 1.0}
    assert {r.values["em"] for r in records if not r.checkpoint} == {1.0}


def test_what_is_compared_is_asked_before_the_first_edit(tmp_path: Path) -> None:
    class Watchful(ScriptedModel):
        def reply(self, prompt: str) -> str:
            if not prompt.startswith("["):
                assert not ToyEditor.log, f"the unedited model was asked under edits: {prompt}"
            return super().reply(prompt)

    summary = go(tmp_path / "run", Watchful(), reevaluate_at="every:2")
    assert summary.failed == 0 and summary.baseline_calls == 6
    assert HeavyEditor.intruders == []


@pytest.mark.slow
@pytest.mark.parametrize("lost", mostly_slow([1, 5, 12, 20, 31], 12))
def test_a_resumed_sequence_puts_earlier_edits_back_and_asks_only_what_is_left(tmp_path: Path, lost: int) -> None:
    whole = tmp_path / "whole"
    go(whole, reevaluate_at="every:3,end", benchmark_options=EIGHT)
    lines = (whole / RECORDS).read_bytes().splitlines(keepends=True)
    half = tmp_path / "half"
    go(half, reevaluate_at="every:3,end", benchmark_options=EIGHT)
    (half / RECORDS).write_bytes(b"".join(lines[: len(lines) - lost]))
    values = {record.unit for record in read_records(half)}
    ToyEditor.log.clear()
    model = ScriptedModel()
    summary = go(half, model, reevaluate_at="every:3,end", benchmark_options=EIGHT)
    assert untimed_records(half) == untimed_records(whole)
    assert (summary.skipped, summary.finished) == (len(values), summary.units - len(values))
    assert len(model.calls) == 3 * summary.finished  # two for the capital, one for the river
    assert ToyEditor.log == [(), *((f"Land{n}",) for n in range(8))]
    events = [{k: v for k, v in e.items() if k not in ("ms", "at")} for e in read_lines(half, EVENTS) if "unit" in e]
    assert all(e["update"]["prompt"].startswith("[") for e in events if e["node"] == "respond")
    first = [{k: v for k, v in e.items() if k not in ("ms", "at")} for e in read_lines(whole, EVENTS) if "unit" in e]
    assert sorted(map(str, events)) == sorted(map(str, first))
    again = [line["again"] for line in read_lines(half, COSTS) if line["act"] == "edit"]
    asked = {record.case for record in read_records(whole) if record.unit in values and not record.checkpoint}
    assert again == [False] * 8 + [case.id in asked for case in (toy_case(n) for n in range(8))]


def test_a_finished_sequence_edits_and_asks_nothing(tmp_path: Path) -> None:
    go(tmp_path / "run", reevaluate_at="end")
    ToyEditor.log.clear()
    model = ScriptedModel()
    assert go(tmp_path / "run", model, reevaluate_at="end").finished == 0
    assert ToyEditor.log == [] and model.calls == []


def test_edits_after_the_last_unit_that_is_left_are_not_solved_again(tmp_path: Path) -> None:
    go(tmp_path / "run", ScriptedModel(fail_on="river of Land2"), fail_on_error="false")
    ToyEditor.log.clear()
    assert go(tmp_path / "run", fail_on_error="false").finished == 1
    assert ToyEditor.log == [(), ("Land0",), ("Land1",), ("Land2",)]


def test_an_edit_that_cannot_be_solved_fails_its_units_and_the_rest_stands_without_it(tmp_path: Path) -> None:
    hard = {FLEETING_EDITOR: {"hard": ["Land2"]}}
    summary = go(tmp_path / "run", reevaluate_at="2,end", limit=5, overrides=hard, fail_on_error="false")
    assert (summary.failed, summary.finished) == (2, 10)
    lines = list(read_lines(tmp_path / "run", ERRORS))
    assert [(line["error"], line["checkpoint"]) for line in lines] == [("BadData", 0), ("BadData", 5)]
    records = list(read_records(tmp_path / "run"))
    assert sorted(r.active_edits for r in records if not r.checkpoint and r.kind == "efficacy") == [1, 2, 3, 4]
    assert {r.active_edits for r in records if r.checkpoint == 5} == {4}
    before = untimed_records(tmp_path / "run")
    again = go(tmp_path / "run", reevaluate_at="2,end", limit=5, overrides=hard, fail_on_error="false")
    assert (again.failed, again.finished) == (2, 0) and untimed_records(tmp_path / "run") == before


def test_checkpoints_are_for_sequences_and_within_reach(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="--reevaluate-at 2 with mode all: only mode sequential"):
        config(mode="all", reevaluate_at="2")
    with pytest.raises(BadSettings, match="with mode of the benchmark"):
        config(mode=None, reevaluate_at="2")
    model = ScriptedModel()
    with pytest.raises(BadSettings, match="--reevaluate-at 50 is never reached: setting 'plain' has 6 different edits"):
        go(tmp_path / "run", model, reevaluate_at="3,50")
    assert model.calls == []
    go(tmp_path / "run", reevaluate_at="3")
    with pytest.raises(RunRefused, match='reevaluate_at: was "3", now "4"'):
        go(tmp_path / "run", reevaluate_at="4")


def test_a_run_folder_without_checkpoints_is_still_read(tmp_path: Path) -> None:
    """As written before there were any: no such fields in manifest and records."""
    single: dict[str, Any] = {"mode": "single", "editors": (EDITOR,), "reevaluate_at": None}
    go(tmp_path / "run", **single)
    path = tmp_path / "run" / RECORDS
    old = re.sub(r',"from_baseline":false,"active_edits":1,"checkpoint":0,"edit_cost":{[^}]*}', "", path.read_text())
    assert old != path.read_text()
    path.write_text(old)
    manifest = tmp_path / "run" / "manifest.json"
    bare = re.sub(r'\n\s*"(reevaluate_at|again)": (null|0),?', "", manifest.read_text())
    manifest.write_text(re.sub(r",(\s*})", r"\1", bare))
    assert "reevaluate_at" not in manifest.read_text() and Manifest.read(tmp_path / "run").units == 6
    assert {r.active_edits for r in read_records(tmp_path / "run")} == {0}
    assert go(tmp_path / "run", **single).skipped == 6
