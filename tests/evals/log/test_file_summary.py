"""A summary that is kept of a large run gives the numbers of a whole reading, or is not used."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from emend.evals.aggregate.columns import RecordTable
from emend.evals.aggregate.rows import report
from emend.evals.log import file_summary
from emend.evals.log.baseline import summarise_baseline
from emend.evals.log.file_summary import read_summary
from emend.evals.log.lines import BASELINE, RECORDS
from emend.evals.log.records import finished_units
from emend.evals.run import units
from tests.evals.toy_runs import go, untimed_records
from tests.evals.toys import FLEETING_EDITOR, SpeakingModel, ToyBenchmark

PLAN = {
    "editors": ("unedited", "in_context", "rag"),
    "embedding": "lexical",
    "repeats": 2,
    "settings": ("plain", "loud"),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with costs that vary, repeats, and values that are unscored."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    go(folder, SpeakingModel(), **PLAN)
    return folder


@pytest.fixture(autouse=True)
def all_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(file_summary, "LARGE", 1)
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


def read_all(folder: Path) -> tuple[object, ...]:
    """What readers that keep summaries make of a run."""
    return report(folder), finished_units(folder), summarise_baseline(folder)


def read_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    """The same without any summary."""
    with monkeypatch.context() as other:
        other.setenv("EMEND_CACHE", str(folder.parent / "none"))
        other.setattr(file_summary, "LARGE", 2**40)
        return read_all(folder)


def test_what_is_kept_is_not_read_again_and_nobody_else_may_read_it(folder, monkeypatch, tmp_path) -> None:
    first = report(folder)
    assert first.records == 144 and first.rows and first.costs and first.reasons
    (records, *_) = kept_files = list((tmp_path / "cache" / file_summary.FOLDER).iterdir())
    assert len(kept_files) == 2 and records.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(RecordTable, "add", None)
    assert report(folder) == first
    assert len(finished_units(folder)[0]) == 72


@pytest.mark.parametrize("lines", [1, 2, 7, 30, 143])
def test_a_run_that_grows_is_read_on(folder, monkeypatch, lines) -> None:
    whole = (folder / RECORDS).read_bytes()
    some = b"".join(whole.splitlines(keepends=True)[:lines])
    (folder / RECORDS).write_bytes(some)
    assert read_all(folder) == read_anew(folder, monkeypatch)
    is_whole = lines % 2 == 0  # each unit has two
    assert read_summary(folder / RECORDS).place == ((len(some), lines) if is_whole else (0, 0))
    with (folder / RECORDS).open("ab") as file:
        file.write(whole[len(some) :])
    assert read_all(folder) == read_anew(folder, monkeypatch)
    assert read_summary(folder / RECORDS).place.lines == 144


def test_checkpoints_are_kept(tmp_path, monkeypatch) -> None:
    go(tmp_path / "run", editors=(FLEETING_EDITOR,), mode="sequential", reevaluate_at="2,end")
    assert read_all(tmp_path / "run") == read_anew(tmp_path / "run", monkeypatch)
    found = report(tmp_path / "run")
    assert {row.standing for row in found.forgetting} == {2, 6} and read_summary(tmp_path / "run" / RECORDS).parts


def change_a_score(path: Path) -> None:
    """As long as before."""
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"em":1.0', b'"em":0.0', 4))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1000))


def replace_by_another(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.with_suffix(".new").write_bytes(b"".join(lines[4:] + lines[:4]).replace(b'"em":1.0', b'"em":0.0', 4))
    status = path.stat()
    path.with_suffix(".new").replace(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def shorten(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))


def repeat_a_unit(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines + lines[:2]))


@pytest.mark.parametrize("change", [change_a_score, replace_by_another, shorten, repeat_a_unit])
def test_another_file_is_read_anew(folder, monkeypatch, change: Callable[[Path], None]) -> None:
    report(folder)
    change(folder / RECORDS)
    assert read_all(folder) == read_anew(folder, monkeypatch)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content.replace(b'"units"', b'"others"', 1),
        lambda content: b"[]\n" + content,
        lambda content: content[: content.index(b"\n") + 9] + b"\xff" + content[content.index(b"\n") + 10 :],
    ],
)
def test_a_damaged_summary_is_made_anew(folder, monkeypatch, tmp_path, change: Callable[[bytes], bytes]) -> None:
    first = report(folder)
    for path in (tmp_path / "cache" / file_summary.FOLDER).iterdir():
        path.write_bytes(change(path.read_bytes()))
    assert report(folder) == first
    assert read_all(folder) == read_anew(folder, monkeypatch)


def test_a_damaged_answer_is_named_at_every_reading(folder, monkeypatch) -> None:
    lines = (folder / BASELINE).read_bytes().splitlines(keepends=True)
    (folder / BASELINE).write_bytes(b"".join([lines[0], b"{}\n", *lines[2:]]))
    assert len(summarise_baseline(folder).offsets) == len(lines) - 1
    assert not read_summary(folder / BASELINE).parts


@pytest.mark.parametrize("held", [0, 1000])
def test_a_run_is_finished_from_what_is_kept(original, folder, monkeypatch, held: int) -> None:
    """With few unfinished cases these are held, and only those are made twice that the time left is estimated from."""
    lines = (folder / RECORDS).read_bytes().splitlines(keepends=True)
    left = {json.loads(line)["unit"] for line in lines[-6:]}
    (folder / RECORDS).write_bytes(b"".join(lines[:-6]))
    report(folder)
    made = []
    cases = ToyBenchmark.cases

    def counted_cases(*asked, **more):
        for case in cases(*asked, **more):
            made.append(case)
            yield case

    monkeypatch.setattr(ToyBenchmark, "cases", counted_cases)
    monkeypatch.setattr(units, "MAX_HELD", held)
    summary = go(folder, SpeakingModel(), **PLAN)
    assert (summary.skipped, summary.finished, summary.baseline_calls) == (69, 3, 0)
    assert untimed_records(folder) == untimed_records(original) and len(left) == 3
    assert (len(made) < 24) == bool(held)
    assert read_all(folder) == read_anew(folder, monkeypatch)
