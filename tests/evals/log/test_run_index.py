"""The index of a run finds what a whole reading finds, whatever became of the run's files and of the index.

A damaged line of `events.jsonl` is named wherever a trace is made of it; a torn end is none.
"""

import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from emend.evals.log import run_index
from emend.evals.log.lines import CASES, EVENTS, RECORDS
from emend.evals.log.records import read_lines, read_records
from emend.evals.log.run_index import RunIndex
from emend.evals.results.aggregate.rows import report
from emend.evals.show.trace.case_trace import trace
from emend.evals.show.trace.overview import overview
from emend.memory.errors import BadData
from emend.memory.files import empty_database
from tests.evals.traced_runs import smooth_run
from tests.params import first_quick


@pytest.fixture(scope="module")
def smooth(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    folder = smooth_run(tmp_path_factory.mktemp("runs") / "smooth")
    return folder, (folder / EVENTS).read_bytes()


@pytest.fixture
def damaged(smooth: tuple[Path, bytes]) -> Callable[[int, Callable[[bytes], bytes]], Path]:
    """The run's folder with one line of its events changed, counted from 1."""

    def change(number: int, how: Callable[[bytes], bytes]) -> Path:
        folder, whole = smooth
        lines = whole.splitlines(keepends=True)
        lines[number - 1] = how(lines[number - 1])
        (folder / EVENTS).write_bytes(b"".join(lines))
        return folder

    return change


@pytest.mark.parametrize(
    "how",
    [
        lambda line: line[: len(line) // 2] + b"\n",
        lambda line: line[: len(line) // 2],  # the next line is joined to it
        lambda line: b"\x00\xff garbage\n",
        lambda line: b"3\n",
        lambda line: b"\n",
    ],
)
def test_a_damaged_line_in_the_middle_is_named_with_the_remedy(smooth, damaged, how) -> None:
    folder, whole = smooth
    unit = json.loads(whole.splitlines()[1])["unit"]  # units end in any order
    case = next(record.case for record in read_records(folder) if record.unit == unit)
    damaged(2, how)
    for look in (lambda: overview(folder), lambda: trace(folder, case)):
        with pytest.raises(BadData, match=rf"{EVENTS}, line 2[,:] .*\. Restore the file from a copy, or"):
            look()
    assert report(folder).rows


def test_a_torn_last_line_and_lines_of_the_run_itself_are_no_damage(smooth, damaged) -> None:
    steps = [row.steps for row in overview(damaged(1, lambda line: line)).nodes]
    folder = damaged(1, lambda line: b'{"event": "torn end cut off", "file": "x"}\n' + line)
    with (folder / EVENTS).open("ab") as file:
        file.write(b'{"unit": "cut o')
    assert [row.steps for row in overview(folder).nodes] == steps
    with RunIndex(folder) as index:
        assert index.events(next(iter(read_records(folder))).unit)


Found = dict[str, tuple[list[tuple[str, str]], dict[tuple[str, str], list[str]]]]


def found(folder: Path) -> Found:
    """By case, unit and probe of its records, and the nodes that these went through, as the index finds them."""
    cases = [line["case"] for line in read_lines(folder, CASES)]
    content: Found = {}
    for number, case in enumerate(cases, 1):
        with RunIndex(folder) as index:
            assert [line and line["case"] for line in map(index.case, (case, str(number)))] == [case, case]
            records = list(index.records(case))
            events = {unit: index.events(unit) for unit in {record.unit for record in records}}
        assert all(record.case == case for record in records)
        nodes = {
            (unit, probe): [step["node"] for step in steps]
            for unit, probes in events.items()
            for probe, steps in probes.items()
        }
        content[case] = [(record.unit, record.probe) for record in records], nodes
    return content


def read(folder: Path) -> Found:
    """The same, found by reading whole files."""
    records = list(read_records(folder))
    units = {record.unit: record.case for record in records}
    content: Found = {line["case"]: ([], {}) for line in read_lines(folder, CASES)}
    for record in records:
        content[record.case][0].append((record.unit, record.probe))
    for event in read_lines(folder, EVENTS):
        if (unit := event.get("unit")) in units:
            content[units[unit]][1].setdefault((unit, event["probe"]), []).append(event["node"])
    return content


@pytest.fixture
def large(smooth: tuple[Path, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A copy of the run, which is large enough for an index to be kept, and the folder of its index, which was made."""
    monkeypatch.setattr(run_index, "LARGE", 0)
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "run"
    shutil.copytree(smooth[0], folder)
    (folder / EVENTS).write_bytes(smooth[1])
    assert found(folder) == read(folder)
    return folder, tmp_path / "cache" / run_index.FOLDER


def test_the_kept_index_is_private_and_spares_reading_the_files(large, monkeypatch) -> None:
    folder, indexes = large
    (path,) = indexes.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(indexes.stat().st_mode) == 0o700
    monkeypatch.setattr(RunIndex, "_add_spans", None)
    monkeypatch.setattr(RunIndex, "_add_cases", None)
    assert found(folder) == read(folder)


@pytest.mark.slow
def test_a_finished_run_has_its_index(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(run_index, "LARGE", 0)
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    folder = smooth_run(tmp_path / "run")
    monkeypatch.setattr(RunIndex, "_add_spans", None)
    assert found(folder) == read(folder)


def rewrite(folder: Path, how: Callable[[list[bytes]], list[bytes]]) -> None:
    """Change the lines of the records and of the events."""
    for name in (RECORDS, EVENTS):
        lines = (folder / name).read_bytes().splitlines(keepends=True)
        (folder / name).write_bytes(b"".join(how(lines)))


def grown(lines: list[bytes]) -> list[bytes]:
    """With the first unit once more under another key, and a torn line."""
    unit = json.loads(lines[0])["unit"].encode()
    return [*lines, *(line.replace(unit, b"f" * len(unit)) for line in lines if unit in line), lines[0][:30]]


def resumed(lines: list[bytes]) -> list[bytes]:
    """With other lines in the place of the torn one."""
    return [*(line for line in grown(lines) if line.endswith(b"\n")), lines[0].replace(b'{"unit":', b'{"unit": ')]


CHANGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "grown": grown,
    "cut": lambda lines: lines[: len(lines) // 2],
    "beginning lost": lambda lines: lines[len(lines) // 2 :],
    "backwards": lambda lines: lines[::-1],
    "backwards and grown": lambda lines: grown(lines[::-1]),
    "a line longer inside": lambda lines: [*lines[:3], lines[3].replace(b"{", b"{ ", 1), *lines[4:], lines[0][:9]],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_became_of_the_files_is_seen(large, change) -> None:
    folder, _ = large
    assert found(folder) == read(folder)
    times = (folder / RECORDS).stat()
    rewrite(folder, change)
    os.utime(folder / RECORDS, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert found(folder) == found(folder) == read(folder)


def test_a_torn_line_that_was_cut_off_is_no_line_of_the_index(large) -> None:
    folder, _ = large
    rewrite(folder, grown)
    assert found(folder) == read(folder)
    rewrite(folder, lambda lines: lines[:-1])
    rewrite(folder, lambda lines: [*lines, *(line.replace(b"ffff", b"eeee") for line in lines if b"ffff" in line)])
    assert found(folder) == read(folder)


def sql(statement: str) -> Callable[[Path], None]:
    """What changes an index by a statement."""

    def change(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute(statement)

    return change


def folder_instead(path: Path) -> None:
    """Put a folder in the place of an index."""
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "no database": lambda path: path.write_bytes(b"offsets" * 1000),
    "torn": lambda path: path.write_bytes(path.read_bytes()[:4096]),
    "damaged inside": lambda path: path.write_bytes(path.read_bytes()[:4096].ljust(path.stat().st_size, b"\xff")),
    "a folder": folder_instead,
    "other tables": sql("ALTER TABLE spans RENAME COLUMN start TO begin"),
}


@pytest.mark.parametrize("damage", first_quick(DAMAGES.values(), 2), ids=DAMAGES)
def test_a_damaged_index_is_made_anew(large, damage) -> None:
    folder, indexes = large
    (path,) = indexes.iterdir()
    damage(path)
    assert found(folder) == found(folder) == read(folder)


def test_an_index_in_use_or_without_a_place_is_made_in_memory(large, monkeypatch, tmp_path) -> None:
    folder, indexes = large
    (path,) = indexes.iterdir()
    monkeypatch.setattr(run_index, "WAIT", 0)
    rewrite(folder, grown)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert found(folder) == read(folder)
    (tmp_path / "file").touch()
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "file"))
    assert found(folder) == read(folder)


def test_an_index_that_another_process_empties_and_begins_anew_is_read_no_further(large) -> None:
    folder, indexes = large
    (path,) = indexes.glob("*.sqlite")
    content = read(folder)
    case = next(iter(content))
    with RunIndex(folder) as index:
        index.update()
        empty_database(path, 1)
        assert index.lag() == sum((folder / name).stat().st_size for name in (CASES, RECORDS, EVENTS))
        with RunIndex(folder) as other:  # adds the cases, but no records yet
            assert other.case(case)
        assert [(record.unit, record.probe) for record in index.records(case)] == content[case][0]
    assert found(folder) == content


def test_indexes_that_were_not_used_for_long_are_emptied(large, monkeypatch, tmp_path) -> None:
    folder, indexes = large
    monkeypatch.setattr(run_index, "KEPT", 2)
    for number in range(3):
        with RunIndex(shutil.copytree(folder, tmp_path / f"run{number}")) as index:
            assert index.case("1")
    assert sum(path.stat().st_size > 0 for path in indexes.glob("*.sqlite")) == 2
