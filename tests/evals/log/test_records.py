"""A unit is in the files whole or not at all, whatever happens to the process or the disk."""

import json
import multiprocessing
import os
import resource
import time
from pathlib import Path

import pytest

from emend.evals.case import Record
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.folder import owned_folder, repair_torn_tail
from emend.evals.log.lines import EVENTS, RECORDS
from emend.evals.log.records import RunLog, read_lines, read_records
from emend.memory.errors import BadData, RunRefused
from tests.evals.toys import BENCHMARK, EDITOR, ScriptedModel


def record(unit: str, of: int, probe: int) -> Record:
    return Record(
        unit=unit, of=of, case=f"case-{unit}", probe=f"{unit}.{probe}", kind="efficacy", editor="toy", model="m",
        setting="s", mode="single", prompt="The capital of Land\u2028 is", gold=("New",), values={"em": 1.0},
    )  # fmt: skip


def write(folder: Path, *units: str, of: int = 3) -> None:
    with RunLog(folder) as files:
        for unit in units:
            events = [{"unit": unit, "case": f"case-{unit}", "probe": f"{unit}.0", "node": "respond"}]
            files.unit([record(unit, of, n) for n in range(of)], events)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    assert [r.probe for r in read_records(tmp_path)] == ["a.0", "a.1", "a.2", "b.0", "b.1", "b.2"]
    assert repair_torn_tail(tmp_path) == ({"a", "b"}, [])


def test_records_of_older_runs_are_read_with_their_fields_of_then(tmp_path: Path) -> None:
    line = record("a", 1, 0).model_copy(update={"from_baseline": True, "active_edits": 7}).model_dump_json()
    old = line.replace('"from_baseline"', '"kept"').replace('"active_edits"', '"standing"')
    assert old != line and Record.parse(old) == Record.parse(line) and Record.parse(old).active_edits == 7


@pytest.mark.slow
def test_a_torn_end_at_any_byte_is_cut_to_whole_units(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    whole = (tmp_path / RECORDS).read_bytes()
    first = len(whole) // 2
    for size in range(first, len(whole), 7):
        (tmp_path / RECORDS).write_bytes(whole[:size])
        (tmp_path / EVENTS).write_text('{"unit": "a"}\n{"unit": "b"}\n')
        assert [r.unit for r in read_records(tmp_path)] == ["a"] * 3
        finished, result = repair_torn_tail(tmp_path)
        assert finished == {"a"}
        assert (tmp_path / RECORDS).read_bytes() == whole[:first]
        assert list(read_lines(tmp_path, EVENTS)) == [{"unit": "a"}]
        cut = [{"event": "incomplete end removed", "file": RECORDS, "bytes": size - first}] if size > first else []
        assert [event for event in result if event["file"] == RECORDS] == cut


def test_zeros_after_a_power_failure_are_cut(tmp_path: Path) -> None:
    write(tmp_path, "a")
    with (tmp_path / RECORDS).open("ab") as file:
        file.write(b"\0" * 4096)
    assert repair_torn_tail(tmp_path)[0] == {"a"}
    assert (tmp_path / RECORDS).read_bytes().count(b"\0") == 0


def test_damage_before_finished_units_is_told_and_not_cut(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    damaged = (tmp_path / RECORDS).read_bytes().replace(b'"case-a"', b'"case-a', 1)
    (tmp_path / RECORDS).write_bytes(damaged)
    with pytest.raises(BadData, match=r"records.jsonl: the lines before line 4 are damaged"):
        repair_torn_tail(tmp_path)
    with pytest.raises(BadData, match=r"records.jsonl, line 1: not valid JSON .* Restore the file"):
        list(read_records(tmp_path))
    assert (tmp_path / RECORDS).read_bytes() == damaged


def test_a_malformed_record_is_told_by_line_and_field(tmp_path: Path) -> None:
    write(tmp_path, "a")
    lines = (tmp_path / RECORDS).read_text().split("\n")
    lines[1] = json.dumps(json.loads(lines[1]) | {"seconds": "soon"})
    (tmp_path / RECORDS).write_text("\n".join(lines))
    with pytest.raises(BadData, match="line 2, field seconds: .* number"):
        list(read_records(tmp_path))


def test_a_torn_end_is_said_in_the_events_and_the_run_completed(tmp_path: Path) -> None:
    config = RunConfig(benchmark=BENCHMARK, editors=(EDITOR,), model="scripted")
    run(config, tmp_path / "run", model=ScriptedModel())
    path = tmp_path / "run" / RECORDS
    before = {r.probe for r in read_records(tmp_path / "run")}
    os.truncate(path, path.stat().st_size - 10)
    assert run(config, tmp_path / "run", model=ScriptedModel()).finished == 1
    assert {r.probe for r in read_records(tmp_path / "run")} == before
    lines = [e for e in read_lines(tmp_path / "run", EVENTS) if e.get("event") == "incomplete end removed"]
    assert lines[0]["file"] == RECORDS and lines[0]["at"]


def _fill_up(folder: str, limit: int, told: "multiprocessing.SimpleQueue[str]") -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        config = RunConfig(benchmark=BENCHMARK, editors=(EDITOR,), model="scripted", benchmark_options={"cases": "200"})
        run(config, Path(folder), model=ScriptedModel())
        told.put("finished")
    except RunRefused as error:
        told.put(str(error))


@pytest.mark.slow
def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    """The process may not write files beyond a size, as on a full disk: a write comes back short or fails."""
    context = multiprocessing.get_context("forkserver")
    result = context.SimpleQueue()
    child = context.Process(target=_fill_up, args=(str(tmp_path / "run"), 60_000, result))
    child.start()
    child.join(60)
    message = result.get()
    assert "File too large" in message and "All finished units are kept" in message
    assert f"emend resume {tmp_path / 'run'}" in message
    records = [r.unit for r in read_records(tmp_path / "run")]
    assert records and (tmp_path / "run" / RECORDS).read_bytes().endswith(b"\n")
    finished, cut = repair_torn_tail(tmp_path / "run")
    assert (finished, cut) == (set(records), [])
    config = RunConfig(benchmark=BENCHMARK, editors=(EDITOR,), model="scripted", benchmark_options={"cases": "200"})
    summary = run(config, tmp_path / "run", model=ScriptedModel())
    assert (summary.skipped, summary.skipped + summary.finished) == (len(finished), 200)


def test_no_space_is_told_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emend.evals.log.folder.NEEDED_MB", 2**40)
    with pytest.raises(RunRefused, match=r"MB of free space, but a run needs 1099511627776 MB"):
        with owned_folder(tmp_path / "run"):
            pytest.fail("entered")
    assert not (tmp_path / "run").exists()


def _hold(folder: str, ready: "multiprocessing.SimpleQueue[str]") -> None:
    with owned_folder(Path(folder)):
        ready.put("held")
        time.sleep(60)


@pytest.mark.slow
def test_a_second_process_is_refused_and_a_killed_one_leaves_no_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    ready = context.SimpleQueue()
    child = context.Process(target=_hold, args=(str(tmp_path), ready))
    child.start()
    assert ready.get() == "held"
    with pytest.raises(RunRefused, match="another process is working in"):
        with owned_folder(tmp_path):
            pytest.fail("entered")
    child.kill()
    child.join()
    with owned_folder(tmp_path) as folder:
        assert folder == tmp_path


def test_a_line_in_the_middle_that_cannot_be_read_is_told_of(tmp_path: Path, caplog) -> None:
    write(tmp_path, "a", "b")
    lines = (tmp_path / EVENTS).read_bytes().splitlines(keepends=True)
    (tmp_path / EVENTS).write_bytes(b"garbage\n" + lines[1] + b'{"torn')
    assert [line["unit"] for line in read_lines(tmp_path, EVENTS)] == ["b"]
    assert (
        f"{EVENTS}, line 1: not valid JSON" in caplog.text and caplog.text.count("The output does not include it") == 1
    )
