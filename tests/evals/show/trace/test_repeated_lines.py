"""A run whose content was appended to it again and again is shown once, in a time that grows with its length alone."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from emend.evals.log.lines import EVENTS, RECORDS
from emend.evals.log.records import read_records
from emend.evals.show.report.traces.case_text import steps_lines
from emend.evals.show.report.traces.lines import EarlierTexts, field
from emend.evals.show.trace.case_trace import trace
from emend.evals.show.trace.overview import overview

TIMES = 500


@pytest.fixture
def repeated(smooth: Path, tmp_path: Path) -> tuple[Path, str]:
    """A copy of the run in which the lines of one unit come 500 more times, and the case of the unit."""
    folder = shutil.copytree(smooth, tmp_path / "run")
    first = next(record for record in read_records(folder) if record.editor == "rag")
    for name in (RECORDS, EVENTS):
        lines = [line for line in (folder / name).read_text().splitlines(True) if first.unit in line]
        with (folder / name).open("a") as file:
            file.write("".join(lines) * TIMES)
    return folder, first.case


def test_repeated_records_and_steps_are_shown_once_with_a_word_on_their_number(smooth, repeated, caplog) -> None:
    folder, case = repeated
    assert trace(folder, case).probes == trace(smooth, case).probes
    records = len(trace(smooth, case).probes)
    number = records + TIMES * 2
    assert f"{RECORDS} repeats lines: of {number:,} records of a case, the last one of each is shown" in caplog.text
    assert f"{EVENTS} repeats lines: of " in caplog.text


def test_an_overview_does_not_multiply_the_steps_of_repeated_records(smooth, tmp_path) -> None:
    folder = shutil.copytree(smooth, tmp_path / "run")
    content = (folder / RECORDS).read_bytes()
    (folder / RECORDS).write_bytes(content * 3)
    assert [row.steps for row in overview(folder).nodes] == [row.steps for row in overview(smooth).nodes]


def test_steps_without_a_time_may_be_equal(smooth, caplog) -> None:
    for number in range(1, 7):
        assert all(probe.steps for probe in trace(smooth, str(number)).probes)
    assert "repeats lines" not in caplog.text


@pytest.mark.slow
def test_the_time_for_a_text_does_not_grow_with_the_number_of_texts_before_it() -> None:
    texts, start = EarlierTexts(), time.process_time()
    for number in range(20_000):
        texts.fold(field, "prompt", f"the same\nbeginning\nof each\nprompt\n{number}", "1 compose")
    assert time.process_time() - start < 15


@pytest.mark.slow
def test_the_time_for_a_step_does_not_grow_with_the_number_of_steps_before_it() -> None:
    start = time.process_time()
    steps: list[dict[str, Any]] = [
        {"place": 1, "node": "respond", "ms": 0.0, "update": {"n": {"m": [number]}}, "calls": [], "error": None}
        for number in range(15_000)
    ]
    assert sum(1 for _ in steps_lines(steps)) == 30_000
    assert time.process_time() - start < 15
