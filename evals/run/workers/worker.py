"""A worker: loads what the run needs once, evaluates the tasks it is given, and sends every result to the driver."""

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
from typing import Any

from emend.editors.edit_check import EditCheck
from emend.editors.restore_check import RestoreCheck
from emend.evals.run.ask_unit import Stopped
from emend.evals.run.baseline import Baseline
from emend.evals.run.evaluate import EvaluationContext, PassEvaluator
from emend.evals.run.run_setup import RunSetup, load_setup
from emend.evals.run.side_effects import SideEffects
from emend.evals.run.units import TaskQueue
from emend.evals.run.workers.base import Port, Task, WorkerSetup, groups_of
from emend.evals.run.workers.shared import RemoteBaseline, RemoteJournal, RemoteLedger, RemoteLimiter, TaskResults
from emend.memory.errors import EmendError, RunRefused
from emend.memory.redaction import hide_keys
from emend.memory.registry import trust_names

YOUNG = 20_000
"""Number of new objects after which garbage is looked for among them; each of the calls under way has hundreds."""


class Worker:
    """Evaluates tasks in the thread that calls `run`; `handle` takes the driver's messages in another.

    Args:
        setup: of the driver.
        port: to the driver.
    """

    def __init__(self, setup: WorkerSetup, port: Port) -> None:
        self._setup, self._port = setup, port
        self._inbox = SimpleQueue[Task | Exception | None]()
        self._context: EvaluationContext | None = None
        self._is_stopped = self._throttles = False

    def handle(self, name: str, *values: Any) -> None:
        """Take a message of the driver: `answer`, `task`, `throttle` or `stop`."""
        if name == "answer":
            self._port.answer(*values)
        elif name == "task":
            self._inbox.put(values[0])
        elif name == "throttle":  # calls must ask the driver for their turn from now on, or need not any more
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
        """Tell the policy what the driver has said, which may have been before it was loaded."""
        if self._context is None:
            return
        policy = self._context.setup.policy
        if isinstance(policy.limiter, RemoteLimiter):
            policy.limiter.throttles = self._throttles
        if self._is_stopped:
            self._context.stop.set()
            policy.stopped.set()

    def run(self) -> None:
        """Evaluate tasks until the driver says stop, or an error ends the run."""
        try:
            with ExitStack() as stack:
                self._load(stack)
                gc.freeze()  # what was loaded stays: to look for garbage in it takes a tenth of a call
                gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
                self._port.send("ready")
                self._evaluate()
        except Stopped:
            pass
        except EmendError as error:
            self._port.send("fatal", type(error).__name__, hide_keys(str(error)), "")
        except Exception as error:  # noqa: BLE001  an error of a plug-in, or of Emend: the driver raises it
            trace = hide_keys(traceback.format_exc())
            self._port.send("fatal", type(error).__name__, hide_keys(str(error)), trace)
        self._port.send("bye", time.process_time())
        self._port.close()

    def _load(self, stack: ExitStack) -> None:
        setup, port = self._setup, self._port
        for name, is_checked in setup.trusted.items():
            trust_names([name], is_checked)
        folder = Path(setup.memory or tempfile.mkdtemp(prefix="emend-worker-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        logging.disable(logging.WARNING)  # the driver has warned of the same
        try:
            loaded = load_setup(setup.config, folder)
            stack.callback(loaded.memory.close)
            stack.callback(loaded.policy.close)
            self._check(loaded)
        finally:
            logging.disable(logging.NOTSET)
        policy, ledger = loaded.policy, loaded.policy.ledger
        policy.limiter = RemoteLimiter(port, policy.limiter.rpm, policy.limiter.tpm)
        policy.ledger = RemoteLedger(port, ledger.prices, ledger.max_cost, ledger.max_calls)
        policy.on_wait = lambda seconds, reason: port.send("waiting", seconds, hide_keys(reason))
        journal = RemoteJournal(port, setup.replays) if setup.keeps_replies else None
        results = TaskResults(port, -1)
        self._context = EvaluationContext(
            setup=loaded,
            baseline=Baseline(loaded.editors.unedited(), RemoteBaseline(port), loaded.model_fingerprint, journal),
            side_effects=SideEffects(
                loaded.model, loaded.perplexity_texts, loaded.abilities, results.cost, setup.unedited_measured
            ),
            edit_check=EditCheck(loaded.model),
            restore_check=RestoreCheck(loaded.model),
            results=results,
            finished=set(),
            journal=journal,
        )
        self._apply_state()

    def _check(self, loaded: RunSetup) -> None:
        ids = tuple(editor_pass.content_id for editor_pass in loaded.passes)
        if ids != self._setup.passes:
            raise RunRefused(
                "a worker loads another model, other editors or other settings than the driver: give both the same "
                "files and the same versions of all packages."
            )

    def _evaluate(self) -> None:
        """Evaluate tasks; groups of an editor that leaves the weights alone share a pool, as in a run by threads."""
        context = self._context
        assert context is not None
        pool = ThreadPoolExecutor(context.setup.units_at_once, "emend-unit")
        pending: set[Future[None]] = set()
        last_pass = -1
        try:
            while isinstance(task := self._inbox.get(), Task):
                if task.pass_index != last_pass:
                    wait(pending)
                    pending, last_pass = set(), task.pass_index
                context.finished.update(task.finished)
                if isinstance(context.journal, RemoteJournal):
                    context.journal.replays |= task.replays
                editor = context.setup.share_passes[task.pass_index].editor
                if task.cases is None or editor.needs_weights:
                    self._evaluate_task(task, pool)
                else:
                    pending = {future for future in pending if not future.done()}
                    pending.add(pool.submit(self._evaluate_groups, task, pool))
            if isinstance(task, Exception):
                raise task
        finally:
            context.stop.set()
            context.setup.policy.stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _evaluate_task(self, task: Task, pool: ThreadPoolExecutor) -> None:
        evaluator = self._evaluator(task, pool)
        loaded = evaluator.context.setup
        evaluator.evaluate(None if loaded.mode.kind == "sequential" else groups_of(task, loaded))
        self._finish(task)

    def _evaluate_groups(self, task: Task, pool: ThreadPoolExecutor) -> None:
        """Evaluate one group after the other in this thread of the pool; an error ends the worker."""
        evaluator = self._evaluator(task, pool)
        try:
            for group in groups_of(task, evaluator.context.setup):
                evaluator.evaluate_group(group, TaskQueue())
        except Exception as error:  # noqa: BLE001  of those that end the run
            self._inbox.put(error)
        else:
            self._finish(task)

    def _evaluator(self, task: Task, pool: ThreadPoolExecutor) -> PassEvaluator:
        assert self._context is not None
        context = replace(self._context, results=TaskResults(self._port, task.number))
        return PassEvaluator(context.setup.share_passes[task.pass_index], context, pool)

    def _finish(self, task: Task) -> None:
        if self._context is not None and not self._context.stop.is_set():
            self._port.send("done", task.number, time.process_time())
