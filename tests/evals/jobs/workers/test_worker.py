"""A worker in this process: the driver's messages that come while it runs, and the order of stages."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from emend.evals.jobs.job import JobContext, Task
from emend.evals.jobs.workers.base import Port, WorkerSetup
from emend.evals.jobs.workers.worker import Worker
from tests.evals.jobs.test_unit_job import Sums


class StagedSums(Sums):
    """Notes when each task begins and ends; the first one takes a while."""

    def __init__(self) -> None:
        super().__init__([])
        self.events: list[tuple[str, int]] = []

    def load(self, folder: Path) -> "StagedSums":
        return self

    def evaluate_task(self, task: Task, context: JobContext, pool: ThreadPoolExecutor) -> None:
        self.events.append(("begins", task.number))
        time.sleep(0.2 if task.number == 0 else 0.0)
        self.events.append(("ends", task.number))


@contextmanager
def running(job: StagedSums) -> Iterator[tuple[Worker, Port]]:
    """A worker that is ready, in a thread of its own."""
    port = Port()
    worker = Worker(WorkerSetup(0, job, None, {}, keeps_replies=False, replays=False), port)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        assert port.take(60) == [("ready", None)]
        yield worker, port
    finally:
        worker.handle("stop")
        thread.join(60)


def test_calls_ask_for_their_turn_as_long_as_the_driver_says() -> None:
    job = StagedSums()
    with running(job) as (worker, _):
        told = []
        for throttles in (True, False):
            worker.handle("throttle", throttles)
            told.append(job.policy.limiter.throttles)  # type: ignore[attr-defined]
    assert told == [True, False]


def test_a_stage_begins_when_all_tasks_of_the_one_before_have_ended() -> None:
    job = StagedSums()
    with running(job) as (worker, port):
        for number, stage in enumerate((0, 0, 1)):
            worker.handle("task", Task(number, number, stage))
        done: list[int] = []
        while len(done) < 3:
            done += [values[0] for name, _, *values in port.take(60) or () if name == "done"]
    assert job.events.index(("begins", 1)) < job.events.index(("ends", 0)), "tasks of a stage run at the same time"
    assert job.events.index(("begins", 2)) > job.events.index(("ends", 0))
