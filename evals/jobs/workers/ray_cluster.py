"""Workers as actors of a Ray cluster, each with its requested GPUs."""

import logging
import os
import socket
import sys
import threading
from contextlib import suppress
from typing import Any

from emend.evals.jobs.workers.base import WORKER_LOST, Port, WorkerSetup
from emend.evals.jobs.workers.worker import Worker
from emend.memory.distribution import install_command
from emend.memory.errors import BadSettings, MissingExtra

try:
    import ray
    from ray.exceptions import RayError
except ImportError as error:
    raise MissingExtra(f"--workers ray needs the package ray: {install_command('ray')}.") from error

# Timeout in seconds for connecting to a cluster; Ray itself tries for minutes.
CONNECT = 10.0
# Seconds after which a worker without messages is polled again.
POLL = 1.0


def _refuse_unreachable(address: str) -> None:
    """Reject an address with a port where nothing listens.

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
            f"no Ray cluster at '{address}' ({error}): `ray status` on its head node gives the "
            "address; --workers ray starts one on this machine."
        ) from error


def _not_there(address: str, error: Exception) -> BadSettings:
    """The error of a cluster that cannot be connected to, or does not start within Ray's time."""
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    if address:
        return BadSettings(f"no Ray cluster at '{address}': {reason}.")
    return BadSettings(
        f"Ray did not start on this machine: {reason}. Its start can time out on a busy machine: "
        "try again, or give --workers processes:N."
    )


class RayWorker:
    """A worker in an actor; messages are received and sent by one thread each, and so in order."""

    def __init__(self, setup: WorkerSetup, path: list[str]) -> None:
        # the user's own modules, if they exist on this node
        sys.path.extend(folder for folder in path if folder not in sys.path)
        self._port = Port()
        self._worker = Worker(setup, self._port)
        threading.Thread(target=self._worker.run, name="emend-worker", daemon=True).start()

    @ray.method(concurrency_group="receive")
    def handle(self, *message: Any) -> None:
        """Handle a message of the driver."""
        self._worker.handle(*message)

    @ray.method(concurrency_group="send")
    def take(self) -> list[tuple[Any, ...]] | None:
        """Return messages for the driver, None after the last."""
        return self._port.take(POLL)


class RayTransport:
    """Starts actors and transports messages in calls to them.

    Ray must not restart actors or repeat calls, since the driver keeps track of written units.

    Args:
        address: the cluster's address; empty for the one of this process, RAY_ADDRESS, or a new
            local one.
        gpus: GPUs per worker; a fraction lets workers share one.

    Raises:
        BadSettings: the cluster does not exist, or has no resources for a worker.
    """

    def __init__(self, address: str, gpus: float) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # disables Ray's usage statistics
        self._is_own = not ray.is_initialized()
        if self._is_own:
            _refuse_unreachable(address or os.environ.get("RAY_ADDRESS", ""))
            try:
                ray.init(address=address or None, logging_level=logging.ERROR, log_to_driver=False)
            except Exception as error:
                raise _not_there(address or os.environ.get("RAY_ADDRESS", ""), error) from error
        self._actors: dict[int, Any] = {}
        self._polls: dict[Any, int] = {}
        library: Any = ray  # Ray's types lack groups and resources
        total = library.cluster_resources()
        self.places = int(
            min(total.get("CPU", 0), total.get("GPU", 0) / gpus if gpus else float("inf"))
        )
        """Number of workers for which the cluster has room; each has a processor."""
        if not self.places:
            self.close()
            raise BadSettings(
                f"the Ray cluster cannot hold a worker with a processor and {gpus:g} GPUs."
            )
        options: dict[str, Any] = {
            "num_cpus": 1,
            "num_gpus": gpus,
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        self._actor = library.remote(concurrency_groups={"receive": 1, "send": 1}, **options)(
            RayWorker
        )

    def start(self, worker: int, setup: WorkerSetup) -> None:
        """Start an actor when the cluster has resources for it."""
        self._actors[worker] = self._actor.remote(setup, sys.path)
        self._poll(worker)

    def _poll(self, worker: int) -> None:
        self._polls[self._actors[worker].take.remote()] = worker

    def send(self, worker: int, *message: Any) -> None:
        """Send a message; ignored if the actor has ended."""
        if (actor := self._actors.get(worker)) is not None:
            actor.handle.remote(*message)

    def receive(self, seconds: float) -> list[tuple[int, tuple[Any, ...]]]:
        """Return messages; an unreachable actor counts as lost."""
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
        """Kill an actor, so that an unreachable one writes nothing more and releases its
        resources.
        """
        with suppress(RayError):
            ray.kill(self._actors.pop(worker))
        return (WORKER_LOST, None, reason)

    def close(self) -> None:
        """Kill the remaining actors and leave the cluster."""
        for worker in list(self._actors):
            self._end(worker, "")
        if self._is_own:
            ray.shutdown()
