"""What a run refuses before it begins, what fails a unit alone, and what ends the run."""

import re
from pathlib import Path
from typing import Any

import pytest

from emend.agents.providers.usage import Ledger, ProviderUsage
from emend.evals.config.limits import FailureLimit
from emend.evals.evaluate.run import run
from emend.evals.jobs.failures import IN_A_ROW, Failures
from emend.evals.jobs.results import save_usage
from emend.evals.log.lines import ERRORS
from emend.evals.log.records import read_lines, read_records
from emend.evals.show.report.progress import RunProgress
from emend.memory.errors import (
    BadData,
    BadSettings,
    ModelReplyError,
    ModelUnreachable,
    RunRefused,
    TooManyFailures,
)
from tests.evals.toy_runs import config, go, records, untimed_records
from tests.evals.toys import EDITOR, HeavyEditor, ScriptedModel, ToyEditor
from tests.params import first_quick


def test_a_failed_unit_is_kept_and_tried_again(tmp_path: Path) -> None:
    progress = RunProgress()
    summary = run(config(fail_on_error="false"), tmp_path / "run", progress, model=ScriptedModel(fail_on="Land3"))
    assert (summary.finished, summary.failed) == (progress.done, progress.failed) == (5, 1)
    line = next(read_lines(tmp_path / "run", ERRORS))
    assert line["error"] == "ConnectionError" and "Land3" in line["message"] and line["probe"]
    again = go(tmp_path / "run", fail_on_error="false")
    assert (again.skipped, again.finished, again.failed) == (5, 1, 0)
    go(tmp_path / "whole")
    assert untimed_records(tmp_path / "run") == untimed_records(tmp_path / "whole")


def test_failures_are_alike_in_a_row_from_the_last_success_on() -> None:
    failures, error = Failures(FailureLimit.parse("false"), "emend resume x"), ModelUnreachable("no answer")
    for _ in range(2):
        for _ in range(IN_A_ROW - 1):
            failures.failed(error)
        failures.passed()
    with pytest.raises(TooManyFailures, match=f"{IN_A_ROW} units in a row failed in the same way"):
        for _ in range(IN_A_ROW):
            failures.failed(error)


def test_an_editor_that_cannot_edit_fails_the_units_of_that_edit(tmp_path: Path) -> None:
    class Stubborn(ToyEditor):
        def edit(self, edits: Any) -> Any:
            if edits[0].subject == "Land2":
                raise BadData("this edit has no target")
            return super().edit(edits)

    import tests.evals.toys as toys

    toys.Stubborn = Stubborn  # type: ignore[attr-defined]
    summary = go(tmp_path / "run", editors=("tests.evals.toys:Stubborn",), fail_on_error="1")
    assert (summary.finished, summary.failed) == (5, 1)


@pytest.mark.parametrize("mode", ["batch:3", "all", "single"])
def test_an_edit_that_cannot_be_made_does_not_take_its_batch_with_it(tmp_path: Path, mode: str) -> None:
    fields: dict[str, Any] = {"editors": ("tests.evals.toys:Choosy",), "mode": mode, "fail_on_error": "false"}
    for before in (0, 5):  # and once more, when it goes on
        summary = go(tmp_path / "run", **fields)
        assert (summary.skipped, summary.finished, summary.failed) == (before, 5 - before, 1)
    lines = list(read_lines(tmp_path / "run", ERRORS))
    assert [line["message"] for line in lines] == ["the third land cannot be edited"] * 2
    assert {record.case for record in read_records(tmp_path / "run")}.isdisjoint(line["case"] for line in lines)


@pytest.mark.parametrize("allowed", first_quick(["2", "true", "0.1"]))
def test_too_many_failures_end_the_run_and_keep_what_is_finished(tmp_path: Path, allowed: str) -> None:
    with pytest.raises(TooManyFailures, match="ConnectionError: no connection for river"):
        go(
            tmp_path / "run",
            ScriptedModel(fail_on="river of Land"),
            fail_on_error=allowed,
            benchmark_options={"cases": "30"},
        )
    errors = list(read_lines(tmp_path / "run", ERRORS))
    assert len(errors) < 30
    assert go(tmp_path / "run", benchmark_options={"cases": "30"}, fail_on_error="true").finished == 30


def test_a_share_of_few_units_is_judged_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(TooManyFailures, match="1 of 6 units"):
        go(tmp_path / "run", ScriptedModel(fail_on="Land3"), fail_on_error="0.1")
    assert len(records(tmp_path / "run")) == 10


def test_a_changed_configuration_is_refused_with_both_values(tmp_path: Path) -> None:
    go(tmp_path / "run", limit=3)
    with pytest.raises(RunRefused) as refused:
        go(tmp_path / "run", limit=4, overrides={EDITOR: {"k": 2}}, concurrency=9)
    message = str(refused.value)
    assert "limit: was 3, now 4" in message
    assert f"overrides.{EDITOR}.k: was null, now 2" in message
    assert "concurrency" not in message


def test_changed_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.evals import toys

    go(tmp_path / "run")
    original = toys.toy_case
    monkeypatch.setattr(toys, "toy_case", lambda place, *more: original(place + 1, *more))
    with pytest.raises(RunRefused, match=r"cases\.plain\.digest: was "):
        go(tmp_path / "run")


def test_a_changed_model_is_refused(tmp_path: Path) -> None:
    class Other(ScriptedModel):
        fingerprint: str = "other weights"

    go(tmp_path / "run")
    with pytest.raises(RunRefused, match="model.fingerprint: was .*other weights"):
        go(tmp_path / "run", Other())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"editors": ("ragg",)}, "unknown editor 'ragg': did you mean 'rag'"),
        ({"benchmark": "tinywurld"}, "unknown benchmark 'tinywurld': did you mean 'tinyworld'"),
        ({"settings": ("plane",)}, "no setting 'plane': did you mean 'plain'"),
        ({"retriever": "denze"}, "unknown retriever 'denze': did you mean 'dense'"),
        ({"mode": "batch:0"}, "unknown mode 'batch:0'"),
        ({"fail_on_error": "-1"}, "--fail-on-error is '-1'"),
        ({"limit": 0}, "limit is 0"),
        ({"overrides": {"ft": {"num_steps": 1}}}, "--set names the editor 'ft'"),
        ({"editors": ("rag",), "overrides": {"rag": {"kk": 1}}}, "unknown setting 'kk'"),
        ({"editors": ()}, "no editor is given"),
        ({"benchmark_options": {"cases": "0"}}, "no case in the data"),
    ],
)
def test_bad_input_is_told_before_the_first_call(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    model = ScriptedModel()
    with pytest.raises((BadSettings, BadData), match=re.escape(message)):
        go(tmp_path / "run", model, **changed)
    assert model.calls == [] and not (tmp_path / "run").exists()


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunRefused, match=r"contains 1 other files \(thesis.tex\)"):
        go(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunRefused, match="cannot write to the run folder .*Not a directory"):
        go(tmp_path / "file" / "run")


def test_a_reply_that_is_no_use_is_unscored_with_its_reason(tmp_path: Path) -> None:
    class Mumbling(ScriptedModel):
        def reply(self, prompt: str) -> str:
            if "capital" in prompt:
                raise ModelReplyError("expected a city", reply="mmh")
            return super().reply(prompt)

    summary = go(tmp_path / "run", Mumbling())
    assert (summary.failed, summary.finished, summary.unscored) == (0, 6, 6)
    result = [r for r in records(tmp_path / "run") if r.kind == "efficacy"]
    assert {r.answer for r in result} == {"mmh"}
    assert all(r.values == {} for r in result)
    assert {name for r in result for name in r.unscored} == {"em", "contains", "success", "magnitude"}
    assert {reason for r in result for reason in r.unscored.values()} == {"expected a city"}


def test_a_setting_that_proves_wrong_ends_the_run(tmp_path: Path) -> None:
    class Refusing(ScriptedModel):
        def reply(self, prompt: str) -> str:
            raise BadSettings("temperature 9 is impossible: give less")

    with pytest.raises(BadSettings, match="temperature 9"):
        go(tmp_path / "run", Refusing(), fail_on_error="false")
    assert list(read_lines(tmp_path / "run", ERRORS)) == []


def test_what_a_deleted_folder_cannot_keep_of_the_spending_is_warned_of(tmp_path: Path, caplog: Any) -> None:
    ledger = Ledger()
    ledger.add("openai:m", ProviderUsage(cached=1))
    save_usage(tmp_path / "gone", ledger)
    assert "the costs are not in the manifest: " in caplog.text


@pytest.mark.slow
def test_a_setting_that_an_editor_cannot_write_is_unscored_with_the_reason_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pointing(HeavyEditor):
        needs_subject = True

    import tests.evals.toys as toys

    monkeypatch.setattr(toys, "Pointing", Pointing, raising=False)
    changed: dict[str, Any] = {
        "benchmark": "tinyworld",
        "editors": ("tests.evals.toys:Pointing", "unedited"),
        "limit": 2,
    }
    model = ScriptedModel()
    summary = go(tmp_path / "run", model, settings=("triplet", "document"), mode="single", **changed)
    assert (
        summary.failed == 0 and go(tmp_path / "run", settings=("triplet", "document"), mode="single", **changed).skipped
    )
    refused = [r for r in records(tmp_path / "run") if r.setting == "document" and r.editor != "unedited"]
    others = [r for r in records(tmp_path / "run") if r not in refused]
    assert refused and len(others) == 3 * len(refused)
    reason = "tests.evals.toys:Pointing writes at an edit's subject, but the edits of setting 'document' have none"
    for record in refused:
        assert set(record.unscored.values()) == {reason} and not record.values and record.answer is None
    assert not any(reason in record.unscored.values() for record in others)
    with pytest.raises(BadSettings, match="choose another of .*triplet"):
        go(tmp_path / "other", settings=("document",), **changed)
    assert not (tmp_path / "other").exists()
