"""A job of one's own on the engine, which knows nothing of edits: lanes in order, failures, and what resume does."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from emend.agents.providers.policy import CallPolicy
from emend.evals.config.limits import FailureLimit
from emend.evals.jobs.job import JobContext, Lane, UnitJob
from emend.evals.jobs.line import JobLine, count_lines
from emend.evals.jobs.progress import Progress
from emend.evals.jobs.results import Summary, UnitResult, WorkUnit
from emend.evals.jobs.runner import run_job
from emend.evals.log.lines import ERRORS, RECORDS
from emend.memory.errors import BadSettings, RunRefused

MANIFEST = "toy.json"


class ToyManifest(NamedTuple):
    units: int


class SumLine(JobLine):
    """The sum of a lane's numbers so far."""

    total: int


class Sums(UnitJob):
    """Adds the numbers of each lane one after the other; `fails` are numbers that cannot be added yet."""

    name = "sums"

    def __init__(self, numbers: list[list[int]], fails: Collection[int] = (), fatal: bool = False) -> None:
        self.numbers, self.fails, self.fatal = numbers, fails, fatal
        self.policy = CallPolicy()
        self.failure_limit = FailureLimit.parse("false")
        self.concurrency = 2
        self.evaluated: list[int] = []

    def prepare(self, folder: Path, finished: Collection[str]) -> ToyManifest:
        file, content = folder / MANIFEST, json.dumps(self.numbers)
        if file.exists() and file.read_text() != content:
            raise RunRefused("other numbers")
        file.write_text(content)
        return ToyManifest(sum(map(len, self.numbers)))

    def lanes(self) -> Iterator[Lane]:
        for lane, numbers in enumerate(self.numbers):
            units = [self.unit(lane, index, number) for index, number in enumerate(numbers)]
            yield Lane(units, lane)

    def unit(self, lane: int, index: int, number: int) -> WorkUnit:
        labels = {"case": str(number), "probe": "", "editor": f"lane {lane}", "setting": "", "mode": "", "repeat": 0}
        return WorkUnit(f"{lane}-{index}", f"lane {lane}", labels, number)

    @contextmanager
    def session(self, lane: Lane, context: JobContext) -> Iterator[dict[str, int]]:
        yield {"total": 0}

    def pass_over(self, unit: WorkUnit, session: Any) -> None:
        session["total"] += unit.content

    def evaluate_unit(self, unit: WorkUnit, session: Any, context: JobContext) -> UnitResult:
        if unit.content in self.fails:
            raise BadSettings("the end of all") if self.fatal else ValueError(f"{unit.content} cannot be added")
        self.evaluated.append(unit.content)
        session["total"] += unit.content
        head: dict[str, Any] = {**unit.labels, "unit": unit.key, "of": 1, "kind": "sum", "model": ""}
        line = SumLine(**head, values={"total": float(session["total"])}, total=session["total"])
        return UnitResult([line], [], count_lines([line]))


def run(folder: Path, job: Sums) -> Summary:
    return run_job(lambda _: job, folder, Progress())


def lines_of(folder: Path) -> dict[str, SumLine]:
    lines = [SumLine.model_validate_json(line) for line in (folder / RECORDS).read_text().splitlines()]
    return {line.unit: line for line in lines}


def test_units_of_a_lane_go_in_order_and_each_is_a_line(tmp_path: Path) -> None:
    summary = run(tmp_path / "run", Sums([[1, 2, 3], [10, 20]]))
    assert (summary.units, summary.finished, summary.failed) == (5, 5, 0)
    totals = {unit: line.total for unit, line in lines_of(tmp_path / "run").items()}
    assert totals == {"0-0": 1, "0-1": 3, "0-2": 6, "1-0": 10, "1-1": 30}


def test_a_failed_unit_is_an_error_and_is_tried_again_with_what_came_before_it(tmp_path: Path) -> None:
    first = run(tmp_path / "run", Sums([[1, 2, 3], [10]], fails=[2]))
    assert (first.finished, first.failed) == (3, 1)
    (error,) = map(json.loads, (tmp_path / "run" / ERRORS).read_text().splitlines())
    assert (error["unit"], error["case"], error["error"]) == ("0-1", "2", "ValueError")
    again = Sums([[1, 2, 3], [10]])
    second = run(tmp_path / "run", again)
    assert (second.skipped, second.finished, again.evaluated) == (3, 1, [2])
    assert lines_of(tmp_path / "run")["0-1"].total == 3, "the finished unit before it was passed over"


def test_a_finished_job_evaluates_nothing_and_one_of_other_numbers_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "run", Sums([[1, 2]]))
    job = Sums([[1, 2]])
    assert run(tmp_path / "run", job).skipped == 2 and not job.evaluated
    with pytest.raises(RunRefused, match="other numbers"):
        run(tmp_path / "run", Sums([[1, 3]]))


class Preparations(Progress):
    """What it is told of the time that preparing took."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float, int]] = []

    def prepared(self, row: str, seconds: float, units: int) -> None:
        self.told.append((row, seconds, units))


class PreparedSums(Sums):
    """Prepares all units of a lane with its first one."""

    def evaluate_unit(self, unit: WorkUnit, session: Any, context: JobContext) -> UnitResult:
        if not session["total"]:
            context.results.prepared(unit.row, 2.5, 0)
        return super().evaluate_unit(unit, session, context)


def test_the_time_of_preparing_units_reaches_the_progress(tmp_path: Path) -> None:
    progress = Preparations()
    run_job(lambda _: PreparedSums([[1, 2, 3]]), tmp_path / "run", progress)
    assert progress.told == [("lane 0", 2.5, 0)]


def test_a_fatal_error_ends_the_job_and_keeps_what_is_finished(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="the end"):
        run(tmp_path / "run", Sums([[1, 2]], fails=[2], fatal=True))
    assert set(lines_of(tmp_path / "run")) == {"0-0"}
