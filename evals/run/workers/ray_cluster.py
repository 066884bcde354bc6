"""Workers that are actors of a Ray cluster, each with the GPUs that it asks for."""

import logging
import os
import socket
import sys
import threading
from contextlib import suppress
from typing import Any

from emend.evals.run.workers.base import WORKER_LOST, Port, WorkerSetup
from emend.evals.run.workers.worker import Worker
from emend.memory.distribution import install_command
from emend.memory.errors import BadSettings, MissingExtra

try:
    import ray
    from ray.exceptions import RayError
except ImportError as error:
    raise MissingExtra(f"--workers ray needs the package ray: {install_command('ray')}.") from error

CONNECT = 10.0
"""Seconds for a connection to a cluster; Ray itself tries for minutes."""
POLL = 1.0
"""Seconds after which a worker without messages is asked again."""


def _refuse_unreachable(address: str) -> None:
    """Refuse an address with a port where nothing listens.

    Raises:
        BadSettings: nothing listens there.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdecimal()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()
    except (OSError, OverflowError) as error:
        raise BadSettings(
            f"no Ray cluster at '{address}' ({error}): `ray status` on its head node gives the address; --workers ray "
            "starts one on this machine."
        ) from error


class RayWorker:
    """A worker in an actor: messages come and go in one thread each, and so in order."""

    def __init__(self, setup: WorkerSetup, path: list[str]) -> None:
        sys.path.extend(folder for folder in path if folder not in sys.path)  # the user's own modules, if they are here
        self._port = Port()
        self._worker = Worker(setup, self._port)
        threading.Thread(target=self._worker.run, name="emend-worker", daemon=True).start()

    @ray.method(concurrency_group="receive")
    def handle(self, *message: Any) -> None:
        """Take a message of the driver."""
        self._worker.handle(*message)

    @ray.method(concurrency_group="send")
    def take(self) -> list[tuple[Any, ...]] | None:
        """Return messages for the driver, None after the last."""
        return self._port.take(POLL)


class RayTransport:
    """Starts actors and carries messages in calls to them.

    Ray never restarts an actor or repeats a call: the driver knows which units are written.

    Args:
        address: of a cluster; empty for that of this process, of RAY_ADDRESS, or a new one on this machine.
        gpus: of each worker; a fraction lets workers share one.

    Raises:
        BadSettings: there is no such cluster, or it has no room for a worker.
    """

    def __init__(self, address: str, gpus: float) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to Ray's makers
        self._is_own = not ray.is_initialized()
        if self._is_own:
            _refuse_unreachable(address or os.environ.get("RAY_ADDRESS", ""))
            try:
                ray.init(address=address or None, logging_level=logging.ERROR, log_to_driver=False)
            except Exception as error:
                raise BadSettings(f"no Ray cluster at '{address}': {error}") from error
        self._actors: dict[int, Any] = {}
        self._polls: dict[Any, int] = {}
        library: Any = ray  # its types know neither of groups nor of resources
        total = library.cluster_resources()
        self.places = int(min(total.get("CPU", 0), total.get("GPU", 0) / gpus if gpus else float("inf")))
        """Number of workers for which the cluster has room; each has a processor."""
        if not self.places:
            self.close()
            raise BadSettings(f"the Ray cluster has no room for a worker with a processor and {gpus:g} GPUs.")
        options: dict[str, Any] = {"num_cpus": 1, "num_gpus": gpus, "max_restarts": 0, "max_task_retries": 0}
        self._actor = library.remote(concurrency_groups={"receive": 1, "send": 1}, **options)(RayWorker)

    def start(self, worker: int, setup: WorkerSetup) -> None:
        """Start an actor, as soon as the cluster has room for it."""
        self._actors[worker] = self._actor.remote(setup, sys.path)
        self._poll(worker)

    def _poll(self, worker: int) -> None:
        self._polls[self._actors[worker].take.remote()] = worker

    def send(self, worker: int, *message: Any) -> None:
        """Send a message; to an actor that is gone, do nothing."""
        if (actor := self._actors.get(worker)) is not None:
            actor.handle.remote(*message)

    def receive(self, seconds: float) -> list[tuple[int, tuple[Any, ...]]]:
        """Return messages; an actor that cannot be reached is gone, whatever has become of it."""
        messages: list[tuple[int, tuple[Any, ...]]] = []
        polls = list(self._polls)
        ready, _ = ray.wait(polls, timeout=seconds)
        if ready:
            ready, _ = ray.wait(polls, num_returns=len(polls), timeout=0)
        for poll in ready:
            worker = self._polls.pop(poll)
            try:
                batch = ray.get(poll)
            except RayError as error:
                batch = [self._end(worker, type(error).__name__)]
            else:
                if batch is None:
                    batch = [self._end(worker, "it has ended")]
                else:
                    self._poll(worker)
            messages.extend((worker, message) for message in batch)
        return messages

    def _end(self, worker: int, reason: str) -> tuple[Any, ...]:
        """Kill an actor, so that one that is only out of reach writes nothing and frees its place."""
        with suppress(RayError):
            ray.kill(self._actors.pop(worker))
        return (WORKER_LOST, None, reason)

    def close(self) -> None:
        """Kill what is left, and leave the cluster."""
        for worker in list(self._actors):
            self._end(worker, "")
        if self._is_own:
            ray.shutdown()
