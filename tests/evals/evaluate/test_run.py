"""A run asks every unit once, under the right edits, finishes what is left, and writes down what it did."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emend.evals.case import Case
from emend.evals.config.mode import Mode
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.evaluate.units import groups
from emend.evals.log.lines import CASES, COSTS, EVENTS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines
from emend.evals.results.aggregate.rows import report
from emend.memory.errors import BadSettings
from tests.evals.toy_runs import go, records, untimed_records
from tests.evals.toys import EDITOR, HEAVY, HeavyEditor, ScriptedModel, SpeakingModel, ToyEditor, toy_case
from tests.params import first_quick
from tests.paths import DATA


@pytest.fixture(autouse=True)
def _forget() -> None:
    ToyEditor.log.clear()
    HeavyEditor.intruders.clear()


def test_every_probe_is_recorded_and_scored(tmp_path: Path) -> None:
    start = time.perf_counter(), time.process_time()
    summary = go(tmp_path / "run", editors=("unedited", EDITOR))
    assert 0 < summary.seconds <= time.perf_counter() - start[0]
    assert 0 < summary.cpu_seconds <= time.process_time() - start[1]
    result = records(tmp_path / "run")
    assert (summary.units, summary.finished, summary.records, summary.failed) == (12, 12, 24, 0)
    edited = [r for r in result if r.editor == EDITOR and r.kind == "efficacy"]
    plain = [r for r in result if r.editor == "unedited" and r.kind == "efficacy"]
    assert {(r.values["em"], r.values["success"], r.values["hit@1"]) for r in edited} == {(1.0, 1.0, 1.0)}
    assert {(r.values["em"], r.values["success"]) for r in plain} == {(0.0, 0.0)}
    assert all("hit@1" not in r.values for r in plain)
    assert {r.values["agreement"] for r in result if r.kind == "neighborhood"} == {1.0}
    assert summary.calls == sum(r.usage.calls for r in result) > 0


def test_all_lines_of_a_unit_stand_together_with_their_count(tmp_path: Path) -> None:
    go(tmp_path / "run", concurrency=4, benchmark_options={"probes": "3"})
    result = records(tmp_path / "run")
    for start in range(0, len(result), 4):
        assert len({r.unit for r in result[start : start + 4]}) == 1
        assert {r.of for r in result[start : start + 4]} == {4}


@pytest.mark.parametrize(
    ("mode", "standing"),
    [("single", [1, 1, 1, 1, 1]), ("all", [5]), ("batch:2", [2, 2, 1]), ("sequential", [1, 2, 3, 4, 5])],
)
def test_a_mode_says_which_edits_stand_at_once(tmp_path: Path, mode: str, standing: list[int]) -> None:
    go(tmp_path / "run", mode=mode, limit=5, concurrency=1, reevaluate_at="none")
    assert [len(edits) for edits in ToyEditor.log] == standing
    if mode == "sequential":
        assert ToyEditor.log[-1] == tuple(f"Land{n}" for n in range(5))
    assert len(records(tmp_path / "run")) == 10


@pytest.mark.parametrize("mode", ["batch:6", "batch:7", "batch:1000"])
def test_a_batch_of_all_cases_or_more_is_one_batch(tmp_path: Path, mode: str) -> None:
    go(tmp_path / "run", mode=mode)
    go(tmp_path / "all", mode="all")
    assert [len(edits) for edits in ToyEditor.log] == [6, 6]
    batch, whole = ({(r.probe, r.answer, r.active_edits) for r in records(tmp_path / name)} for name in ("run", "all"))
    assert batch == whole and {standing for *_, standing in batch} == {6}


@pytest.mark.parametrize(
    ("mode", "standing"), [("single", [1] * 6), ("batch:4", [4, 2]), ("all", [6]), ("sequential", [1, 2, 3, 4, 5, 6])]
)
def test_repeated_cases_count_and_are_asked_once(tmp_path: Path, mode: str, standing: list[int]) -> None:
    go(tmp_path / "run", mode=mode, benchmark_options={"twice": "yes"}, concurrency=1, reevaluate_at="none")
    assert [len(edits) for edits in ToyEditor.log] == standing
    assert len(records(tmp_path / "run")) == 12


@pytest.mark.parametrize(
    ("mode", "standing"),
    [("single", [1, 1, 1, 1]), ("batch:2", [1, 1]), ("batch:3", [2, 1]), ("all", [2]), ("sequential", [1, 1, 2, 2])],
)
def test_an_edit_that_cases_share_stands_once(mode: str, standing: list[int]) -> None:
    def cases() -> Iterator[Case]:
        for number in range(4):
            yield Case(edits=toy_case(number // 2).edits, probes=toy_case(number).probes)

    assert len({case.id for case in cases()}) == 4
    assert [len(group.edits) for group in groups(cases, Mode.parse(mode))] == standing
    assert [case.id for group in groups(cases, Mode.parse(mode)) for case in group.cases()] == [
        case.id for case in cases()
    ]


@pytest.mark.slow
def test_the_unedited_model_is_asked_once_for_all_editors_and_for_a_resumed_run(tmp_path: Path) -> None:
    model = ScriptedModel()
    summary = go(tmp_path / "run", model, editors=("unedited", EDITOR, HEAVY), repeats=2)
    rivers = [prompt for prompt in model.calls if "river" in prompt]
    assert summary.baseline_calls == 12  # six probes, twice
    assert len(rivers) == 12 + 2 * 12  # and those of the two editors that edit
    result = [r for r in records(tmp_path / "run") if r.from_baseline]
    assert {(r.editor, r.kind) for r in result} == {("unedited", "neighborhood")} and len(result) == 12
    assert all(r.usage.calls == 1 and r.answer == "Blue" for r in result)
    (tmp_path / "run" / "records.jsonl").write_text("")
    later = ScriptedModel()
    again = go(tmp_path / "run", later, editors=("unedited", EDITOR, HEAVY), repeats=2)
    assert again.baseline_calls == 0
    assert len([prompt for prompt in later.calls if "river" in prompt]) == 24


def test_calls_of_the_unedited_model_are_counted_with_the_others(tmp_path: Path) -> None:
    model = ScriptedModel()
    summary = go(tmp_path / "run", model, editors=("in_context", "unedited"))
    spent = report(tmp_path / "run").spent
    assert spent is not None
    assert summary.calls == spent.calls == len(model.calls)
    assert summary.baseline_calls == spent.baseline_calls == 6
    assert (summary.input_tokens, summary.output_tokens) == (spent.input_tokens, spent.output_tokens)
    assert (
        summary.input_tokens
        == sum(r.usage.input_tokens for r in records(tmp_path / "run") if not r.from_baseline) + 6 * 6
    )


@pytest.mark.parametrize("mode", ["single", "all", "sequential"])
def test_an_unedited_model_that_cannot_be_asked_fails_the_unit_and_not_the_run(tmp_path: Path, mode: str) -> None:
    class FailsOnce(ScriptedModel):
        def reply(self, prompt: str) -> str:
            result = super().reply(prompt)
            if "river of Land3" in prompt and sum("river of Land3" in call for call in self.calls) == 1:
                raise ConnectionError("no connection")
            return result

    asked: dict[str, Any] = {"editors": (HEAVY,), "mode": mode, "reevaluate_at": "none", "fail_on_error": "false"}
    summary = go(tmp_path / "run", FailsOnce(), **asked)
    assert (summary.failed, summary.finished) == (1, 5)
    assert HeavyEditor.intruders == []
    assert go(tmp_path / "run", **asked).finished == 1


@pytest.mark.parametrize(("editor", "calls"), [("in_context", 0), ("rag", 0), ("unedited", 0)])
def test_probabilities_that_a_model_lacks_are_not_replaced_by_a_reply(tmp_path: Path, editor: str, calls: int) -> None:
    """But what a retriever finds is still measured."""
    model = SpeakingModel()
    go(
        tmp_path / "run",
        model,
        editors=(editor,),
        embedding="lexical",
        benchmark_options={"scorer": "likelihood", "probes": "0"},
    )
    result = records(tmp_path / "run")
    assert len(model.calls) == calls and {r.usage.calls for r in result} == {0}
    assert {tuple(r.values) for r in result} == ({("hit@1",)} if editor == "rag" else {()})
    assert {r.unscored["success"] for r in result} == {"the model gives no probabilities"}


def test_what_editing_cost_is_kept_line_by_line(tmp_path: Path) -> None:
    go(tmp_path / "run", editors=(EDITOR, HEAVY), mode="batch:4")
    lines = list(read_lines(tmp_path / "run", COSTS))
    edits = [line for line in lines if line["act"] == "edit"]
    assert sorted((line["editor"], line["edits"]) for line in edits) == [
        (editor, size) for editor in sorted((EDITOR, HEAVY)) for size in (2, 4)
    ]
    assert all(line["seconds"] >= 0 and line["cpu_seconds"] >= 0 and not line["again"] for line in edits)
    cases = list(read_lines(tmp_path / "run", CASES))
    named = {item for line in edits if line["editor"] == HEAVY for item in line["of"]}
    assert named == {edit["id"] for case in cases for edit in case["edits"]}
    (last,) = [line for line in lines if line["act"] == "run"]
    assert last["calls"] == report(tmp_path / "run").spent.calls and last["cpu_seconds"] > 0  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", first_quick(["batch:4", "single", "all", "sequential"]))
def test_threads_do_not_change_the_records(tmp_path: Path, mode: str) -> None:
    go(tmp_path / "one", mode=mode, concurrency=1)
    go(tmp_path / "many", mode=mode, concurrency=8)
    assert untimed_records(tmp_path / "one") == untimed_records(tmp_path / "many")


@pytest.mark.parametrize("mode", ["single", "all", "batch:4"])
def test_nothing_else_asks_the_model_while_its_weights_are_changed(tmp_path: Path, mode: str) -> None:
    go(tmp_path / "run", editors=(EDITOR, HEAVY), mode=mode, concurrency=8)
    assert HeavyEditor.intruders == []
    assert {r.values["agreement"] for r in records(tmp_path / "run") if r.kind == "neighborhood"} == {1.0}


def test_settings_and_repeats_are_units_of_their_own(tmp_path: Path) -> None:
    summary = go(tmp_path / "run", settings=("plain", "loud"), repeats=2)
    assert summary.units == summary.finished == 24
    places = {(r.setting, r.repeat) for r in records(tmp_path / "run")}
    assert places == {("plain", 0), ("plain", 1), ("loud", 0), ("loud", 1)}


@pytest.mark.parametrize("mode", ["single", "all"])
def test_a_finished_run_makes_no_model_call(tmp_path: Path, mode: str) -> None:
    go(tmp_path / "run", mode=mode, editors=("unedited", EDITOR, HEAVY))
    before = (tmp_path / "run" / "records.jsonl").read_bytes()
    model = ScriptedModel()
    summary = go(tmp_path / "run", model, mode=mode, editors=("unedited", EDITOR, HEAVY))
    assert model.calls == []
    assert (summary.skipped, summary.finished) == (summary.units, 0)
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == before


def test_unscored_has_a_reason_and_no_value(tmp_path: Path) -> None:
    go(tmp_path / "run", SpeakingModel(), editors=("unedited",))
    result = [r for r in records(tmp_path / "run") if r.kind == "efficacy"]
    assert all(r.unscored["success"] == "the model gives no probabilities" for r in result)
    assert all(set(r.values) == {"em", "contains"} for r in result)


def test_a_manifest_says_what_was_run(tmp_path: Path) -> None:
    go(tmp_path / "run", editors=("unedited", "rag"), embedding="lexical", limit=2)
    manifest = Manifest.read(tmp_path / "run")
    assert manifest.config.limit == 2
    assert manifest.cases["plain"].cases == 2
    assert manifest.benchmark == {"source": "made up"}
    assert "retrieve" in manifest.graphs["rag"]["mermaid"] and manifest.graphs["rag"]["json"]["nodes"]
    assert manifest.versions["emend"] and manifest.started.endswith("+00:00")
    assert manifest.editors["plain"]["rag"]["settings"] == {"k": 1}


def test_events_have_one_line_per_node(tmp_path: Path) -> None:
    go(tmp_path / "run", editors=("rag",), embedding="lexical", limit=2)
    events = list(read_lines(tmp_path / "run", EVENTS))
    place = {"unit", "case", "probe", "editor"}
    assert place | {"v", "node", "place", "after", "at", "ms", "update", "calls", "error"} == set(events[0])
    assert {event["node"] for event in events} == {"retrieve", "compose", "respond"}


def test_a_setting_named_twice_is_run_once(tmp_path: Path) -> None:
    result, two = go(tmp_path / "one", settings=("plain",)), go(tmp_path / "two", settings=("plain", "plain"))
    assert result.records == two.records and result.units == two.units


def test_an_empty_reply_is_unscored_and_said_to_be_no_answer(tmp_path: Path) -> None:
    class Silent(ScriptedModel):
        def reply(self, prompt: str) -> str:
            return " " if "capital" in prompt else super().reply(prompt)

    go(tmp_path / "run", Silent(), editors=("unedited",))
    result = [r for r in records(tmp_path / "run") if r.kind == "efficacy"]
    assert all("empty" in r.unscored["em"] and "em" not in r.values and r.no_answer for r in result)


def test_only_probes_that_the_unedited_model_answers_wrong_count(tmp_path: Path) -> None:
    class Knowing(ScriptedModel):
        def reply(self, prompt: str) -> str:
            return "New-0" if "Land0" in prompt else super().reply(prompt)

    go(tmp_path / "run", Knowing(), count_only="wrong_before")
    result = {r.case: r for r in records(tmp_path / "run") if r.kind == "efficacy"}
    left_out = [r for r in result.values() if r.excluded]
    assert len(left_out) == 1 and "Land0" in left_out[0].prompt
    row = next(row for row in report(tmp_path / "run").rows if row.metric == "EM")
    assert row.n == len(result) - 1


def test_a_run_under_named_protocols_scores_by_these_alone(tmp_path: Path) -> None:
    go(tmp_path / "run", SpeakingModel(), protocols=("contains",))
    result = [r for r in records(tmp_path / "run") if r.kind == "efficacy"]
    assert all({"contains"} <= set(r.values) <= {"contains", "hit@1"} and r.form == "chat" for r in result)


def test_a_model_that_takes_messages_only_is_not_asked_in_plain_text(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="--form plain"):
        go(tmp_path / "run", SpeakingModel(), form="plain")


def test_fewer_cases_than_were_asked_for_are_said_with_the_other_data_sets(tmp_path, caplog):
    rows = {"benchmark": "counterfact", "data": str(DATA / "counterfact"), "editors": ("unedited",)}
    run(RunConfig.model_validate(rows | {"model": "tiny", "limit": 99}), tmp_path / "short", model=ScriptedModel())
    (note,) = report(tmp_path / "short").notes
    assert note.startswith("99 cases requested, but the data has ") and "dataset=flat" in note and note in caplog.text
    run(RunConfig.model_validate(rows | {"model": "tiny", "limit": 1}), tmp_path / "whole", model=ScriptedModel())
    assert not report(tmp_path / "whole").notes
