"""The kept parts of a large run's tables give the numbers of a whole reading, or are not used."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from emend.evals.evaluate import units
from emend.evals.judging.judged_run import open_run
from emend.evals.log import run_table, table_parts
from emend.evals.log.folder import finished_units
from emend.evals.log.lines import EVENTS, RECORDS
from emend.evals.log.run_table import RunTable
from emend.evals.log.table_parts import find_parts, parts_folder
from emend.evals.results.aggregate.record_table import gather_run
from emend.evals.results.aggregate.rows import report
from emend.evals.results.analyses.base import Analysis, AnalysisRequest, inventory
from emend.evals.results.analyses.compare import compare
from emend.evals.results.analyses.general import retrieval
from emend.evals.show.trace.overview import overview
from emend.memory.errors import BadData, BadSettings
from tests.evals.toy_runs import go, untimed_records
from tests.evals.toys import FLEETING_EDITOR, SpeakingModel, ToyBenchmark
from tests.params import first_quick

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
    monkeypatch.setattr(table_parts, "LARGE", 1)
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


def read_all(folder: Path) -> tuple[object, ...]:
    """What the readers of tables make of a run."""
    results = [report(folder), overview(folder), finished_units(folder), inventory(open_run(folder))]
    for compute in (partial(compare, folder, editor_a="unedited", editor_b="rag"), partial(retrieved_first, folder)):
        try:
            results.append(compute())
        except BadSettings as error:  # there is too little in the run
            results.append(str(error))
    return tuple(results)


def retrieved_first(folder: Path) -> Analysis:
    return retrieval([open_run(folder)], AnalysisRequest())


def read_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    """The same without any table."""
    with monkeypatch.context() as other:
        other.setenv("EMEND_CACHE", str(folder.parent / "none"))
        other.setattr(table_parts, "LARGE", 2**40)
        return read_all(folder)


def lines_of_parts(folder: Path, table: str = "record_lines") -> list[int]:
    """The number of lines up to the end of each kept part."""
    name = {"record_lines": RECORDS, "step_lines": EVENTS}[table]
    return [part.end.lines for part in find_parts(parts_folder(folder), table, folder / name)]


def test_what_is_kept_is_not_read_again_and_nobody_else_may_read_it(folder, monkeypatch) -> None:
    first = report(folder)
    assert first.records == 144 and first.rows and first.costs and first.reasons
    files = list(parts_folder(folder).iterdir())
    assert len(files) == 1 and all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    assert parts_folder(folder).stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(run_table.PartWriter, "write", None)
    assert report(folder) == first
    assert len(finished_units(folder)[0]) == 72


@pytest.mark.slow
def test_no_query_writes_to_the_output_of_an_interactive_session(folder) -> None:
    code = f"""if True:
        from pathlib import Path
        from emend.evals.log.run_table import RunTable
        with RunTable(Path({str(folder)!r})) as table:
            print(table.rows("SELECT current_setting('enable_progress_bar')"))
    """  # without a file of its own Python counts as interactive
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "[(False,)]\n"


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 2, 7, 30, 143])
def test_a_run_that_grows_is_read_on(folder, monkeypatch, lines) -> None:
    whole = (folder / RECORDS).read_bytes()
    some = b"".join(whole.splitlines(keepends=True)[:lines])
    (folder / RECORDS).write_bytes(some)
    assert read_all(folder) == read_anew(folder, monkeypatch)
    complete = lines - lines % 2  # each unit has two
    assert lines_of_parts(folder) == ([complete] if complete else [])
    with (folder / RECORDS).open("ab") as file:
        file.write(whole[len(some) :])
    assert read_all(folder) == read_anew(folder, monkeypatch)
    assert lines_of_parts(folder) == [*([complete] if complete else []), 144]


@pytest.mark.slow
def test_steps_that_are_appended_are_read_on(folder, monkeypatch) -> None:
    whole = (folder / EVENTS).read_bytes()
    lines = whole.splitlines(keepends=True)
    (folder / EVENTS).write_bytes(b"".join(lines[:40]) + lines[40][:9])
    assert overview(folder).nodes and read_all(folder) == read_anew(folder, monkeypatch)
    (folder / EVENTS).write_bytes(whole)
    assert read_all(folder) == read_anew(folder, monkeypatch)
    assert lines_of_parts(folder, "step_lines")[-1] == len(lines)


def test_a_run_keeps_the_table_of_its_steps_when_it_ends(tmp_path, monkeypatch) -> None:
    go(tmp_path / "run", limit=2)
    lines = (tmp_path / "run" / EVENTS).read_bytes().count(b"\n")
    assert lines_of_parts(tmp_path / "run", "step_lines") == [lines] and lines
    monkeypatch.setattr(table_parts, "LARGE", 2**40)
    go(tmp_path / "small", limit=2)
    assert not parts_folder(tmp_path / "small").exists()


@pytest.mark.slow
def test_a_run_that_grew_often_has_few_parts(folder, monkeypatch) -> None:
    monkeypatch.setattr("emend.evals.log.run_table.MAX_PARTS", 3)
    lines = (folder / RECORDS).read_bytes().splitlines(keepends=True)
    (folder / RECORDS).write_bytes(b"")
    for start in range(0, 144, 12):
        with (folder / RECORDS).open("ab") as file:
            file.write(b"".join(lines[start : start + 12]))
        report(folder)
        assert len(lines_of_parts(folder)) <= 3 and lines_of_parts(folder)[-1] == start + 12
    assert read_all(folder) == read_anew(folder, monkeypatch)


@pytest.mark.slow
def test_a_large_stretch_is_several_parts(folder, monkeypatch) -> None:
    monkeypatch.setattr(run_table, "STRETCH", 20_000)
    assert read_all(folder) == read_anew(folder, monkeypatch)
    assert len(lines_of_parts(folder)) > 2
    assert read_all(folder) == read_anew(folder, monkeypatch)


@pytest.mark.slow
def test_checkpoints_are_kept(tmp_path, monkeypatch) -> None:
    go(tmp_path / "run", editors=(FLEETING_EDITOR,), mode="sequential", reevaluate_at="2,end")
    assert read_all(tmp_path / "run") == read_anew(tmp_path / "run", monkeypatch)
    found = report(tmp_path / "run")
    assert {row.standing for row in found.forgetting} == {2, 6} and lines_of_parts(tmp_path / "run")


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


@pytest.mark.slow
@pytest.mark.parametrize("change", [change_a_score, replace_by_another, shorten, repeat_a_unit])
def test_another_file_is_read_anew(folder, monkeypatch, change: Callable[[Path], None]) -> None:
    report(folder)
    change(folder / RECORDS)
    assert read_all(folder) == read_anew(folder, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2] + b"\xff" + content[len(content) // 2 + 1 :],
    ],
)
def test_a_damaged_part_is_made_anew(folder, monkeypatch, change: Callable[[bytes], bytes]) -> None:
    first = report(folder)
    for path in parts_folder(folder).iterdir():
        path.write_bytes(change(path.read_bytes()))
    assert report(folder) == first
    assert read_all(folder) == read_anew(folder, monkeypatch)


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_done_without(folder, monkeypatch, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "file"))
    found = read_all(folder)
    assert found == read_anew(folder, monkeypatch)


def delete_parts(folder: Path) -> None:
    for path in parts_folder(folder).glob("*.parquet"):
        path.unlink()


def test_a_part_that_another_process_deletes_stays_readable(folder) -> None:
    lines = (folder / RECORDS).read_bytes().splitlines(keepends=True)
    (folder / RECORDS).write_bytes(b"".join(lines[:100]))
    with RunTable(folder) as table:
        (folder / RECORDS).write_bytes(b"".join(lines))
        delete_parts(folder)
        assert table.rows("SELECT count(*) FROM record_lines") == [(100,)]
        assert len(list(table.stream("SELECT unit FROM record_lines"))) == 100
    assert not list(parts_folder(folder).iterdir())


def test_a_part_that_another_process_deletes_during_the_opening_is_made_anew(folder, monkeypatch) -> None:
    hold, openings = table_parts.hold_parts, list[int]()

    def hold_late(*args):
        openings.append(1)
        delete_parts(folder)
        return hold(*args)

    monkeypatch.setattr(run_table, "hold_parts", hold_late)
    with RunTable(folder) as table:
        assert table.rows("SELECT count(*) FROM record_lines") == [(144,)] and openings == [1]


def test_a_table_whose_cache_is_deleted_meanwhile_is_made_anew(folder) -> None:
    with RunTable(folder) as table:
        shutil.rmtree(parts_folder(folder))
        assert table.rows("SELECT count(*) FROM record_lines") == [(144,)]


@pytest.mark.slow
def test_parts_that_a_killed_process_held_are_deleted_after_a_day(folder) -> None:
    report(folder)
    old, new = (parts_folder(folder) / f"{table_parts.HELD}{name}" for name in ("old", "new"))
    for held in (old, new):
        held.mkdir()
        (held / "part.parquet").touch()
    os.utime(old, (0, 0))
    delete_parts(folder)
    report(folder)
    assert new.exists() and not old.exists()


@pytest.mark.slow
def test_a_draft_that_a_killed_process_left_is_deleted(folder) -> None:
    report(folder)
    old, new = (parts_folder(folder) / f"draft {name}" for name in ("old", "new"))
    for draft in (old, new, *parts_folder(folder).glob("record_lines-*")):
        draft.write_bytes(b"half")
    os.utime(old, (0, 0))
    report(folder)
    assert new.exists() and not old.exists()


@pytest.mark.slow
def test_only_the_runs_that_were_used_last_are_kept(original, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(table_parts, "NUMBER", 2)
    folders = [Path(shutil.copytree(original, tmp_path / f"run {number}")) for number in range(3)]
    for number, folder in enumerate(folders):
        report(folder)
        os.utime(parts_folder(folder), (number, number))
    assert [bool(lines_of_parts(folder)) for folder in folders] == [False, True, True]


def test_numbers_and_names_that_no_column_holds_are_bounded(folder, monkeypatch) -> None:
    fields = json.loads((folder / RECORDS).read_bytes().splitlines()[0])
    fields |= {"of": 1, "unit": "odd", "checkpoint": 10**30}
    line = json.dumps(fields).replace('"repeat": 0', '"repeat": 0, "repeat": 0')
    (folder / RECORDS).write_text(line + "\n", encoding="utf-8")
    with RunTable(folder) as table:
        assert table.rows("SELECT checkpoint, repeat FROM record_lines") == [(2**63 - 1, 0)]


def test_a_damaged_record_is_named(folder) -> None:
    lines = (folder / RECORDS).read_bytes().splitlines(keepends=True)
    (folder / RECORDS).write_bytes(b"".join([lines[0], b'{"unit": "u", "of": 1}\n', *lines[1:]]))
    with pytest.raises(BadData, match=r"records\.jsonl, line 2, field case: .*emend resume"):
        report(folder)


@pytest.mark.slow
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
    looked_at = 8 + 2  # the toy's cases, to see whether right answers are texts, and the first ones for their scorers
    assert (len(made) - looked_at <= 24) == bool(held), len(made)
    assert read_all(folder) == read_anew(folder, monkeypatch)


def damaged_lines(lines: list[bytes], seed: int) -> list[bytes]:
    """The lines with a few changes that a crash, a copy or a stranger makes."""
    draw, changed = random.Random(seed), list(lines)
    for _ in range(draw.choice((1, 1, 2, 4))):
        place = draw.randrange(len(changed))
        line, cut = changed[place], draw.randrange(len(changed[place]))
        changed[place : place + 1] = draw.choice(
            (
                [],
                [line, line],
                [line[:cut]],
                [line[:cut] + b"\n"],
                [line[:cut] + bytes([draw.randrange(256)]) + line[cut + 1 :]],
                [*changed[:cut][:20], line],
                [line.replace(b'"seconds":', b'"seconds":1.5,"seconds":')],
                [line.replace(b":0.0", draw.choice((b":NaN", b":1e300", b':"5"', b":true", b":null", b":3")), 1)],
                [line.replace(b'"prompt":"', b'"prompt":"\\ud800\\u0000')],
                [line.replace(b'"from_baseline"', b'"kept"')],
                [line.replace(b'"unscored":{}', b'"unscored":{"x":"why","y\\u0000":"not"}')],
            )
        )
    return changed


@pytest.mark.parametrize("seed", first_quick(range(40), 5))
def test_damaged_records_are_read_or_refused_as_without_a_table(folder, monkeypatch, seed: int) -> None:
    def outcome() -> object:
        try:
            gathered = gather_run(folder)
            counts = [gathered.attempts, gathered.reasons, gathered.excluded, gathered.records, gathered.cut]
            return [*gathered.rows.items()], sorted(gathered.units), *counts
        except BadData as error:
            return str(error)

    path = folder / RECORDS
    path.write_bytes(b"".join(damaged_lines(path.read_bytes().splitlines(keepends=True), seed)))
    from_table = outcome()
    monkeypatch.setattr(table_parts, "LARGE", 2**40)
    assert repr(from_table) == repr(outcome())  # which says that a NaN is one


def test_texts_that_do_not_fit_into_memory_are_named(folder) -> None:
    with RunTable(folder) as table, pytest.raises(BadData, match="megabytes"):
        table.rows("SELECT repeat('x', 100_000_000) || i FROM range(4) AS numbers(i) ORDER BY 1")
