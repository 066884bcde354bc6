"""A damaged line of `events.jsonl` is named wherever a trace is made of it; a torn end is none."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from emend.evals.aggregate.rows import report
from emend.evals.log.event_index import EventIndex
from emend.evals.log.lines import EVENTS
from emend.evals.log.records import read_records
from emend.evals.trace.case_trace import trace
from emend.evals.trace.overview import overview
from emend.memory.errors import BadData
from tests.evals.traced_runs import smooth_run


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
    with EventIndex(folder) as index:
        assert index.of(next(iter(read_records(folder))).unit)
