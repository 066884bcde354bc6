"""Workers inside this process whose connections do what a script says: delay and repeat messages, and break."""

import random
import threading
import time
from typing import Any, NamedTuple

from emend.evals.jobs.workers.base import WORKER_LOST, Port, WorkerSetup
from emend.evals.jobs.workers.worker import Worker


class Script(NamedTuple):
    """Seed of all choices, and how likely each fault is when messages are received."""

    seed: int
    kill: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0


class _Member:
    """A worker in a thread."""

    def __init__(self, setup: WorkerSetup) -> None:
        self.port = Port()
        self.worker = Worker(setup, self.port)
        self.thread = threading.Thread(target=self.worker.run)
        self.thread.start()


class ScriptedTransport:
    """A transport whose faults are chosen by a script."""

    def __init__(self, script: Script) -> None:
        self._script, self._random = script, random.Random(script.seed)
        self._members: dict[int, _Member] = {}
        self._all: list[_Member] = []
        self.kills = 0

    def start(self, worker: int, setup: WorkerSetup) -> None:
        self._members[worker] = member = _Member(setup)
        self._all.append(member)

    def send(self, worker: int, *message: Any) -> None:
        if member := self._members.get(worker):
            member.worker.handle(*message)

    def receive(self, seconds: float) -> list[tuple[int, Any]]:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if messages := [(worker, each) for worker in list(self._members) for each in self._received(worker)]:
                return messages
            time.sleep(0.002)
        return []

    def _received(self, worker: int) -> list[Any]:
        """Messages of one worker after what the script does to them."""
        member, script, chance = self._members[worker], self._script, self._random.random
        if chance() < script.delay:
            return []
        messages = member.port.take(0)
        if messages is None:
            del self._members[worker]
            return [(WORKER_LOST, None, "exit code 0")]
        if any(name != "ready" for name, *_ in messages) and chance() < script.kill:
            self.kills += 1
            del self._members[worker]
            member.worker.stop()
            member.port.close()
            return [*messages[: self._random.randrange(len(messages))], (WORKER_LOST, None, "killed")]
        return messages + [each for each in messages if each[0] == "unit" and chance() < script.repeat]

    def close(self) -> None:
        for member in self._all:
            member.worker.stop()
            member.port.close()
            member.thread.join()
