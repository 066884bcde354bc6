"""Runs editors over a benchmark into a folder, and finishes what an interrupted run left undone."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.editors.base import Answerer
from emend.evals.asking import Baseline, Stopped, ask_unit
from emend.evals.failures import Failures, error_line
from emend.evals.locking import owned_folder
from emend.evals.manifest import RunConfig, now
from emend.evals.parts import Parts, load_parts
from emend.evals.progress import Progress, Quiet
from emend.evals.records import RunFiles, mend
from emend.evals.starting import begin, check_folder
from emend.evals.units import Group, Pass, Unit, groups
from emend.memory.edit import Word
from emend.memory.errors import (
    BadSettings,
    MemoryMismatch,
    MissingData,
    MissingExtra,
    RunRefused,
    TooManyFailures,
)

FATAL = (BadSettings, MemoryMismatch, MissingData, MissingExtra, RunRefused, TooManyFailures, Stopped)
"""Not the fault of one unit: the run ends."""


class Summary(Word):
    """What became of a run: units in all, finished earlier, finished now, failed now; records and tokens of now."""

    folder: str
    units: int
    skipped: int
    finished: int
    failed: int
    records: int
    unscored: int
    input_tokens: int
    output_tokens: int
    calls: int
    seconds: float


def run(
    config: RunConfig,
    out: Path,
    progress: Progress | None = None,
    model: BaseChatModel | None = None,
) -> Summary:
    """Run, or finish, what the configuration says; the folder then holds every record.

    Args:
        config: what to run.
        out: the run folder; one that holds the same run already is resumed.
        progress: is told of every unit.
        model: takes the place of the model that the configuration names.

    Raises:
        RunRefused: the folder cannot be used, holds a different run, or is in use.
        TooManyFailures: more units failed than allowed; what is finished is kept.
        EmendError: a name, setting or file is wrong.
    """
    with owned_folder(out), ExitStack() as stack:
        check_folder(config, out)
        parts = load_parts(config, out, model)
        stack.callback(parts.memory.close)
        begun = begin(parts, out)
        finished, cuts = mend(out)
        files = stack.enter_context(RunFiles(out))
        for event in cuts:
            files.event(event | {"at": now()})
        work = _Work(parts, files, finished, progress or Quiet(), begun.units)
        return work.through(out)


class _Work:
    """One process's share of a run."""

    def __init__(self, parts: Parts, files: RunFiles, finished: set[str], progress: Progress, units: int) -> None:
        self.parts, self.files, self.finished, self.progress = parts, files, finished, progress
        self.units = units
        self.failures = Failures(parts.config.fail_on_error)
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.told = dict.fromkeys(("finished", "records", "unscored", "input_tokens", "output_tokens", "calls"), 0)

    def through(self, out: Path) -> Summary:
        """All passes, then the summary."""
        began = time.perf_counter()
        self.progress.start(self.units, skipped=min(len(self.finished), self.units))
        pool = ThreadPoolExecutor(self.parts.config.concurrency, "emend-unit")
        try:
            for one in self.parts.passes:
                self._pass(one, pool)
        finally:
            self.stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            self.progress.close()
        self.failures.check_at_end(out)
        return Summary(
            folder=str(out),
            units=self.units,
            skipped=len(self.finished),
            failed=self.failures.count,
            seconds=round(time.perf_counter() - began, 3),
            **self.told,
        )

    def _pass(self, one: Pass, pool: ThreadPoolExecutor) -> None:
        alone = one.editor.needs_weights
        baseline = Baseline(self.parts.unedited(), eager=alone)
        queue = _Inline() if alone else _Queue(pool, 2 * self.parts.config.concurrency)
        whole = one.mode == "all"
        for group in groups(lambda: self.parts.cases(one.setting), one.mode):
            if next(iter(self._pending(one, group)), None) is None:
                continue
            if whole:
                self._stand(one, group, baseline, queue)
            else:
                queue.put(partial(self._stand, one, group, baseline, _Inline()))
        queue.drain()

    def _pending(self, one: Pass, group: Group) -> Iterator[Unit]:
        units = (Unit(one.unit(case), case) for case in group.cases())
        return (unit for unit in units if unit.key not in self.finished)

    def _stand(self, one: Pass, group: Group, baseline: Baseline, queue: "_Queue | _Inline") -> None:
        """Let the group's edits stand, and ask its units meanwhile."""
        try:
            baseline.prepare(unit.case for unit in self._pending(one, group))
            with ExitStack() as standing:
                try:
                    answerer = standing.enter_context(one.editor.edit(group.edits))
                except FATAL:
                    raise
                except Exception as error:
                    self._fail(one, self._pending(one, group), error)
                    return
                self._ask_all(one, group, baseline, queue, answerer)
        except Stopped:
            return

    def _ask_all(
        self,
        one: Pass,
        group: Group,
        baseline: Baseline,
        queue: "_Queue | _Inline",
        answerer: Answerer,
    ) -> None:
        try:
            for unit in self._pending(one, group):
                queue.put(partial(self._ask, one, unit, answerer, baseline))
            queue.drain()
        except BaseException:
            self.stop.set()  # before the edit is taken back under the units that are still being asked
            raise

    def _ask(self, one: Pass, unit: Unit, answerer: Answerer, baseline: Baseline) -> None:
        try:
            asked = ask_unit(one, unit, answerer, baseline, self.stop)
            self.files.unit(asked.records, asked.events)
        except FATAL:
            raise
        except Exception as error:
            if self.stop.is_set():
                raise Stopped from error
            self._fail(one, [unit], error, getattr(error, "probe_id", ""))
            return
        unscored = sum(bool(record.unscored) for record in asked.records)
        usages = [record.usage for record in asked.records]
        counts = {
            "finished": 1,
            "records": len(asked.records),
            "unscored": unscored,
            "input_tokens": sum(usage.input_tokens for usage in usages),
            "output_tokens": sum(usage.output_tokens for usage in usages),
            "calls": sum(usage.calls for usage in usages),
        }
        with self.lock:
            for name, count in counts.items():
                self.told[name] += count
            self.progress.unit(one.name, unscored=unscored, tokens=counts["input_tokens"] + counts["output_tokens"])
            self.failures.passed()

    def _fail(self, one: Pass, units: Iterable[Unit], error: BaseException, probe: str = "") -> None:
        for unit in units:
            self.files.error(error_line(one, unit, error, probe))
            with self.lock:
                self.progress.unit(one.name, failed=True)
                self.failures.failed(error)


class _Inline:
    """Does each thing at once: for what may not overlap."""

    def put(self, act: Callable[[], None]) -> None:
        act()

    def drain(self) -> None:
        """Nothing is left."""


class _Queue:
    """Hands things to a pool, a bounded number at a time, so that cases are read no faster than they are asked."""

    def __init__(self, pool: ThreadPoolExecutor, bound: int) -> None:
        self._pool, self._bound = pool, bound
        self._pending: set[Future[Any]] = set()

    def put(self, act: Callable[[], None]) -> None:
        """Wait for room, then hand it over; raises what an earlier thing raised."""
        while len(self._pending) >= self._bound:
            self._settle()
        self._pending.add(self._pool.submit(act))

    def drain(self) -> None:
        """Wait for all; raises what any of them raised."""
        while self._pending:
            self._settle()

    def _settle(self) -> None:
        done, self._pending = wait(self._pending, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
