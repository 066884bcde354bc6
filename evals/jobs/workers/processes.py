"""Workers as local processes, each with a pipe to the driver."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from emend.evals.jobs.workers.base import WORKER_LOST, WorkerSetup

# Code of the fork server; unlike multiprocessing it does not import the user's script, which
# therefore needs no `__main__` guard.
START = (
    "import json, sys; sys.path[:], modules = json.load(sys.stdin); "
    "from emend.evals.jobs.workers.fork_server import serve; serve(int(sys.argv[1]), modules)"
)
WORKER = "emend.evals.jobs.workers.worker"
# Packages whose modules the fork server imports if the driver has; not torch, since CUDA cannot be
# used after a fork.
LIBRARIES = frozenset(
    "anthropic chromadb langchain_anthropic langchain_core langchain_openai langgraph numpy openai "
    "scipy".split()
)
# Variable for the number of threads of a matrix product, on which the last digits of results
# depend.
THREADS = "OMP_NUM_THREADS"
# Seconds for a worker to end after its last message.
GRACE = 10.0


class _Process:
    """The driver's ends of a worker's pipes."""

    def __init__(self, connection: Connection, status: Connection) -> None:
        self.connection, self._status = connection, status
        self._lock = threading.Lock()

    def send(self, message: Any) -> None:
        """Send a message, unless the process has ended."""
        with self._lock, suppress(OSError):
            self.connection.send(message)

    def end(self, seconds: float = GRACE) -> str:
        """Close the pipe, wait for the process to end, and describe how it ended."""
        self.connection.close()
        process = code = None
        with self._status, suppress(EOFError, OSError):
            process = self._status.recv()
            if not self._status.poll(seconds):
                os.kill(process, signal.SIGKILL)
            code = self._status.recv()
        if code is None:
            return "for an unknown reason"
        if code >= 0:
            return f"exit code {code}"
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"


class _ForkServer:
    """The process that starts workers, and the driver's end of its pipe."""

    def __init__(self, threads: str) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, str(theirs.fileno())],
                env=dict(os.environ) | {THREADS: threads},
                pass_fds=[theirs.fileno()],
                # only the driver handles Ctrl-C in a terminal, and ends its workers
                process_group=0,
                stdin=subprocess.PIPE,
                stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
                text=True,
            )
        libraries = [name for name in list(sys.modules) if name.partition(".")[0] in LIBRARIES]
        # on other systems libraries start threads, which is unsafe with fork
        modules = [WORKER, *libraries] if sys.platform == "linux" else []
        assert self._process.stdin is not None
        with suppress(OSError), self._process.stdin as stdin:
            json.dump([sys.path, modules], stdin)

    def start(self) -> _Process:
        """Start a worker.

        Raises:
            OSError: the fork server has ended.
        """
        ours, theirs = Pipe()
        status, status_writer = Pipe(duplex=False)
        with theirs, status_writer:
            socket.send_fds(self._control, [b"+"], [theirs.fileno(), status_writer.fileno()])
        return _Process(ours, status)

    def close(self) -> None:
        """End the process."""
        self._control.close()
        self._process.kill()
        self._process.wait()


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_of_processors(place: int, workers: int) -> list[int]:
    """Return the processors to which the worker at a position is pinned; none if the system does
    not support it.

    Threads of a worker pass its interpreter lock to each other, which is slow between processors,
    and without pinning two workers may share a processor while another is idle.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    usable = sorted(os.sched_getaffinity(0))
    share = max(1, len(usable) // workers)
    return [usable[number % len(usable)] for number in range(place * share, (place + 1) * share)]


def _has_descriptor(stream: Any) -> bool:
    try:
        return bool(stream.fileno() >= 0)
    except (AttributeError, OSError, ValueError):  # in a notebook, or under a test runner
        return False


class ProcessTransport:
    """Starts processes and transports messages over their pipes.

    Args:
        workers: number of concurrent workers, which divide the processors among them; each has as
            many threads as processors, unless the environment sets the number.
        memories: folder of the workers' memories, which is removed at the end, and at the start if
            a killed run left it.
    """

    def __init__(self, workers: int, memories: Path) -> None:
        self._workers, self._memories = workers, memories
        shutil.rmtree(memories, ignore_errors=True)
        self._threads = os.environ.get(THREADS) or str(max(1, processors() // workers))
        self._processes: dict[int, _Process] = {}
        self._server: _ForkServer | None = None

    def start(self, worker: int, setup: WorkerSetup) -> None:
        """Start a process, which loads the run's components itself."""
        try:
            process = self._fork()
        except OSError:  # somebody has killed the fork server
            self._close_server()
            process = self._fork()
        self._processes[worker] = process
        process.send((share_of_processors(setup.position, self._workers), setup))

    def _fork(self) -> _Process:
        self._server = self._server or _ForkServer(self._threads)
        return self._server.start()

    def send(self, worker: int, *message: Any) -> None:
        """Send a message; ignored if the process has ended."""
        if process := self._processes.get(worker):
            process.send(message)

    def receive(self, seconds: float) -> list[tuple[int, tuple[Any, ...]]]:
        """Return messages; a closed pipe counts as the end of the process."""
        workers = {process.connection: worker for worker, process in self._processes.items()}
        messages: list[tuple[int, tuple[Any, ...]]] = []
        for connection in wait(list(workers), seconds):
            assert isinstance(connection, Connection)
            worker = workers[connection]
            try:
                batch = connection.recv()
            except (EOFError, OSError):
                batch = [(WORKER_LOST, None, self._processes.pop(worker).end())]
            messages.extend((worker, message) for message in batch)
        return messages

    def close(self) -> None:
        """Kill the remaining processes."""
        while self._processes:
            _, process = self._processes.popitem()
            process.end(0)
        self._close_server()
        shutil.rmtree(self._memories, ignore_errors=True)

    def _close_server(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


def work(descriptor: int) -> None:
    """Run a worker until the driver stops it or ends."""
    connection = Connection(descriptor)
    usable: list[int]
    setup: WorkerSetup
    usable, setup = connection.recv()
    if usable:
        os.sched_setaffinity(0, usable)
    from emend.evals.jobs.workers.base import Port
    from emend.evals.jobs.workers.worker import Worker

    port = Port()
    worker = Worker(setup, port)

    def read() -> None:
        try:
            while True:
                worker.handle(*connection.recv())
        except (EOFError, OSError):
            os._exit(1)  # the driver has ended, so nobody needs this process's results

    def write() -> None:
        with suppress(OSError):
            while (batch := port.take()) is not None:
                connection.send(batch)

    threading.Thread(target=read, name="emend-receive", daemon=True).start()
    sender = threading.Thread(target=write, name="emend-send")
    sender.start()
    worker.run()
    sender.join()
