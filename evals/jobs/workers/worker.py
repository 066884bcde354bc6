"""A worker: loads the job once, evaluates tasks, and sends all results to the driver."""

import gc
import logging
import shutil
import tempfile
import time
import traceback
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from emend.evals.jobs.failures import Stopped
from emend.evals.jobs.job import Job, JobContext, Task, units_of_job_at_once
from emend.evals.jobs.workers.base import Port, WorkerSetup
from emend.evals.jobs.workers.shared import (
    RemoteAnswers,
    RemoteJournal,
    RemoteLedger,
    RemoteLimiter,
    TaskResults,
)
from emend.memory.errors import EmendError
from emend.memory.process_memory import rare_collections
from emend.memory.redaction import hide_keys
from emend.memory.registry import trust_names


class LoadedJob(NamedTuple):
    """A job loaded in this process, with its resources."""

    job: Job
    context: JobContext


class Worker:
    """Evaluates tasks in the thread that calls `run`; `handle` processes the driver's messages in
    another thread.

    Args:
        setup: the setup from the driver.
        port: to the driver.
    """

    def __init__(self, setup: WorkerSetup, port: Port) -> None:
        self._setup, self._port = setup, port
        self._inbox = SimpleQueue[Task | Exception | None]()
        self._loaded: LoadedJob | None = None
        self._is_stopped = self._throttles = False

    def handle(self, name: str, *values: Any) -> None:
        """Handle a message of the driver: `answer`, `task`, `throttle` or `stop`."""
        if name == "answer":
            self._port.answer(*values)
        elif name == "task":
            self._inbox.put(values[0])
        elif name == "throttle":
            # whether calls must request a turn from the driver from now on
            (self._throttles,) = values
            self._apply_state()
        else:
            self.stop()

    def stop(self) -> None:
        """End after the calls in progress."""
        self._is_stopped = True
        self._apply_state()
        self._inbox.put(None)

    def _apply_state(self) -> None:
        """Apply the driver's messages to the policy; they may have arrived before it was loaded."""
        if self._loaded is None:
            return
        policy = self._loaded.job.policy
        if isinstance(policy.limiter, RemoteLimiter):
            policy.limiter.throttles = self._throttles
        if self._is_stopped:
            self._loaded.context.stop.set()
            policy.stopped.set()

    def run(self) -> None:
        """Evaluate tasks until the driver stops the worker, or an error ends the run."""
        try:
            with ExitStack() as stack:
                loaded = self._load(stack)
                # exclude loaded objects from garbage collection, which would cost a tenth of a call
                gc.freeze()
                if loaded.job.calls_providers:
                    stack.enter_context(rare_collections())
                self._port.send("ready")
                self._evaluate(loaded)
        except Stopped:
            pass
        except EmendError as error:
            self._port.send("fatal", type(error).__name__, hide_keys(str(error)), "")
        except Exception as error:  # noqa: BLE001
            # any error, of a plug-in or of Emend, is raised by the driver
            trace = hide_keys(traceback.format_exc())
            self._port.send("fatal", type(error).__name__, hide_keys(str(error)), trace)
        self._port.send("bye", time.process_time())
        self._port.close()

    def _load(self, stack: ExitStack) -> LoadedJob:
        setup, port = self._setup, self._port
        for name, is_checked in setup.trusted.items():
            trust_names([name], is_checked)
        folder = Path(setup.folder or tempfile.mkdtemp(prefix="emend-worker-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        logging.disable(logging.WARNING)  # the driver has already given these warnings
        try:
            job = setup.job.load(folder)
            stack.callback(job.close)
        finally:
            logging.disable(logging.NOTSET)
        self._share_limits(job)
        journal = RemoteJournal(port, setup.replays) if setup.keeps_replies else None
        results = TaskResults(port, -1)
        context = JobContext(folder, results, RemoteAnswers(port), set(), journal)
        job.start(context)
        self._loaded = LoadedJob(job, context)
        self._apply_state()
        return self._loaded

    def _share_limits(self, job: Job) -> None:
        """Let the driver count and limit the calls."""
        port, policy = self._port, job.policy
        ledger = policy.ledger
        policy.limiter = RemoteLimiter(port, policy.limiter.rpm, policy.limiter.tpm)
        policy.ledger = RemoteLedger(port, ledger.prices, ledger.max_cost, ledger.max_calls)
        policy.on_wait = lambda seconds, reason: port.send("waiting", seconds, hide_keys(reason))

    def _evaluate(self, loaded: LoadedJob) -> None:
        """Evaluate tasks; tasks that need one thread each share a pool, as in a run with
        threads.
        """
        job, context = loaded
        pool = ThreadPoolExecutor(units_of_job_at_once(job), "emend-unit")
        pending: set[Future[None]] = set()
        last_stage = -1
        try:
            while isinstance(task := self._inbox.get(), Task):
                if task.stage != last_stage:
                    wait(pending)
                    pending, last_stage = set(), task.stage
                context.finished.update(task.finished)
                if isinstance(context.journal, RemoteJournal):
                    context.journal.replays |= task.replays
                if task.takes == "thread":
                    pending = {future for future in pending if not future.done()}
                    pending.add(pool.submit(self._evaluate_in_thread, task, pool))
                else:
                    self._evaluate_task(task, pool)
            if isinstance(task, Exception):
                raise task
        finally:
            context.stop.set()
            job.policy.stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _evaluate_task(self, task: Task, pool: ThreadPoolExecutor) -> None:
        assert self._loaded is not None
        job, context = self._loaded
        job.evaluate_task(
            task, replace(context, results=TaskResults(self._port, task.number)), pool
        )
        if not context.stop.is_set():
            self._port.send("done", task.number, time.process_time())

    def _evaluate_in_thread(self, task: Task, pool: ThreadPoolExecutor) -> None:
        """Evaluate a task in a thread of the pool; an error ends the worker."""
        try:
            self._evaluate_task(task, pool)
        except Exception as error:  # noqa: BLE001  of those that end the run
            self._inbox.put(error)
