"""What the driver deals to whom, and what it does when a worker is lost, told by workers that only listen."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from emend.agents.providers.prices import Price, Prices
from emend.agents.providers.usage import Ledger
from emend.evals.jobs import runner
from emend.evals.jobs.job import Task
from emend.evals.jobs.results import WorkUnit
from emend.evals.jobs.workers.base import WORKER_LOST
from emend.evals.jobs.workers.driver import DealtWorkers
from emend.memory.errors import BadSettings
from tests.evals.jobs.test_unit_job import Sums, run

END = ("fatal", None, "BadSettings", "the end", "")
LOSS = (WORKER_LOST, None, "killed")


class DealtSums(Sums):
    """Twenty tasks of a unit each, four of which may run at the same time."""

    def __init__(self) -> None:
        super().__init__([[number] for number in range(20)])
        self.concurrency = 4

    def tasks(self, finished: Collection[str], workers: int) -> Iterator[Task]:
        return (Task(number, number) for number in range(20))

    def units_of(self, task: Task) -> Iterator[WorkUnit]:
        yield self.unit(task.number, 0, task.number)


class ListeningTransport:
    """Workers that are ready at once and note their tasks; `script` has what they say when all is quiet."""

    def __init__(self, *script: tuple[int, tuple[Any, ...]]) -> None:
        self.script, self.messages = list(script), list[tuple[int, tuple[Any, ...]]]()
        self.tasks: dict[int, list[int]] = {}

    def start(self, worker: int, setup: Any) -> None:
        self.tasks[worker] = []
        self.messages.append((worker, ("ready", None)))

    def send(self, worker: int, *message: Any) -> None:
        if message[0] == "task":
            self.tasks[worker].append(message[1].number)
        elif message[0] == "stop":
            self.messages += [(worker, ("bye", None, 0.0)), (worker, LOSS)]

    def receive(self, seconds: float) -> list[tuple[int, tuple[Any, ...]]]:
        if not self.messages:
            self.messages = [self.script.pop(0)] if self.script else [(max(self.tasks), END)]
        messages, self.messages = self.messages, []
        return messages

    def close(self) -> None:
        """Nothing is left."""


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sums]:
    def drive(transport: ListeningTransport, ledger: Ledger | None = None) -> Sums:
        job = DealtSums()
        job.policy.ledger = ledger or job.policy.ledger
        workers = DealtWorkers("listening", transport, lambda *_: None, 2)  # type: ignore[arg-type]
        monkeypatch.setattr(runner, "make_workers", lambda *_: workers)
        with pytest.raises(BadSettings, match="the end"):
            run(tmp_path / "run", job)
        return job

    return drive


def test_each_worker_has_twice_its_share_of_the_units_at_a_time_and_one_more(drive: Callable[..., Sums]) -> None:
    transport = ListeningTransport((0, ("done", None, 2, 0.0)))
    drive(transport)
    assert transport.tasks == {0: [0, 1, 2, 3, 4, 10], 1: [5, 6, 7, 8, 9]}


def test_tasks_of_a_lost_worker_are_dealt_again_one_by_one(drive: Callable[..., Sums]) -> None:
    transport = ListeningTransport((0, ("done", None, 0, 0.0)), (0, LOSS), (2, ("done", None, 1, 0.0)))
    drive(transport)
    assert transport.tasks[0] == [0, 1, 2, 3, 4, 10] and transport.tasks[2] == [1, 2]


def test_calls_of_a_lost_worker_reserve_no_budget(drive: Callable[..., Sums]) -> None:
    ledger = Ledger(Prices(models={"m": Price(input=1.0, output=0.0)}), max_cost=2.5)
    usage = {"input_tokens": 1_000_000, "output_tokens": 0}
    calls = [("start_call", None, "m", False), ("end_call", None, "m", usage, True), ("start_call", None, "m", False)]
    drive(ListeningTransport(*((0, call) for call in calls), (0, LOSS)), ledger)
    ledger.start_call("m")  # 1.0 was spent and a call costs as much: two more would be too many
    assert ledger.total().requests == 3
