"""Workers that are processes of this machine, each with a pipe to the driver."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from emend.evals.workers.base import LOST, WorkerSetup

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from emend.evals.workers.processes import work; work(int(sys.argv[1]))"
)
"""Program of a worker; unlike those of multiprocessing it does not import the user's script, which needs no guard."""
THREADS = "OMP_NUM_THREADS"
"""Variable with the number of threads of a matrix product, on which the last digits of its results depend."""
GRACE = 10.0
"""Seconds that a worker has to end after its last message."""


class _Process:
    """A worker's process and the driver's end of the pipe."""

    def __init__(self, threads: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            words = [str(theirs.fileno()), json.dumps(sys.path)]
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, *words],
                env=dict(os.environ) | {THREADS: threads},
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C in a terminal is for the driver, which ends its workers
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
            )
        self.connection = Connection(ours.detach())
        self.lock, self.has_ended = threading.Lock(), False

    def send(self, message: Any) -> None:
        """Send a message, unless the process is gone."""
        with self.lock, suppress(OSError):
            self.connection.send(message)

    def end(self) -> str:
        """Close the pipe, wait for the end of the process, and say how it ended."""
        self.connection.close()
        try:
            code = self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        if code >= 0:
            return f"exit code {code}"
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _has_descriptor(stream: Any) -> bool:
    try:
        return bool(stream.fileno() >= 0)
    except (AttributeError, OSError, ValueError):  # in a notebook, or under a test runner
        return False


class ProcessTransport:
    """Starts processes and carries messages over their pipes.

    Args:
        workers: how many there are at a time; they share the processors, unless the environment says how many
            threads each has.
        memories: folder of their memories, which is removed at the end, and before if a killed run left it.
    """

    def __init__(self, workers: int, memories: Path) -> None:
        self._memories = memories
        shutil.rmtree(memories, ignore_errors=True)
        self._threads = os.environ.get(THREADS) or str(max(1, processors() // workers))
        self._processes: dict[int, _Process] = {}

    def start(self, worker: int, setup: WorkerSetup) -> None:
        """Start a process; it loads its components by itself."""
        self._processes[worker] = process = _Process(self._threads)
        process.send(setup)

    def send(self, worker: int, *message: Any) -> None:
        """Send a message; to a process that is gone, do nothing."""
        if process := self._processes.get(worker):
            process.send(message)

    def receive(self, seconds: float) -> list[tuple[int, tuple[Any, ...]]]:
        """Return messages; a closed pipe is the end of a process, whatever has become of it."""
        workers = {process.connection: worker for worker, process in self._processes.items()}
        messages: list[tuple[int, tuple[Any, ...]]] = []
        for connection in wait(list(workers), seconds):
            assert isinstance(connection, Connection)
            worker = workers[connection]
            try:
                batch = connection.recv()
            except (EOFError, OSError):
                batch = [(LOST, None, self._processes.pop(worker).end())]
            messages.extend((worker, message) for message in batch)
        return messages

    def close(self) -> None:
        """Kill what is left."""
        while self._processes:
            _, process = self._processes.popitem()
            process.process.kill()
            process.end()
        shutil.rmtree(self._memories, ignore_errors=True)


def work(descriptor: int) -> None:
    """Be a worker, until the driver says stop or is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # schedulers send it to all: the driver ends its workers
    connection = Connection(descriptor)
    setup: WorkerSetup = connection.recv()
    from emend.evals.workers.port import Port
    from emend.evals.workers.worker import Worker

    port = Port()
    worker = Worker(setup, port)

    def read() -> None:
        try:
            while True:
                worker.handle(*connection.recv())
        except (EOFError, OSError):
            os._exit(1)  # the driver is gone, and nobody will ever want what this process does

    def write() -> None:
        with suppress(OSError):
            while (batch := port.take()) is not None:
                connection.send(batch)

    threading.Thread(target=read, name="emend-receive", daemon=True).start()
    sender = threading.Thread(target=write, name="emend-send")
    sender.start()
    worker.run()
    sender.join()
