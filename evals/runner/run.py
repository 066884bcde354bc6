"""Runs editors over a benchmark into a folder, and finishes what an interrupted run left undone."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from langchain_core.language_models import BaseChatModel

from emend.agents.providers.journal import CallJournal, run_journal, unit_scope
from emend.editors.base import Answerer, EditCost, Sequential, cost_of
from emend.editors.costing import Meter, Resident
from emend.editors.restore_check import Untouched
from emend.evals.log.checkpoints import Checkpoints
from emend.evals.log.manifest import RunConfig, now
from emend.evals.log.records import RunFiles, mend
from emend.evals.runner.ask_unit import Stopped, ask_unit
from emend.evals.runner.baseline import Baseline
from emend.evals.runner.batch_ahead import Ahead
from emend.evals.runner.bisect import parted
from emend.evals.runner.components import Parts, asks_elsewhere, load_parts
from emend.evals.runner.failures import Failures, error_line
from emend.evals.runner.locking import owned_folder
from emend.evals.runner.perplexity import Collateral, held_out_texts
from emend.evals.runner.progress import Progress, Quiet
from emend.evals.runner.queues import Inline, Queue
from emend.evals.runner.sequence import Stood
from emend.evals.runner.spending import keep_spent
from emend.evals.runner.start import DRAFTS, begin, check_folder
from emend.evals.runner.summary import Summary
from emend.evals.runner.units import Group, Pass, Unit, groups
from emend.memory.edit import Edit
from emend.memory.errors import (
    BadSettings,
    BudgetReached,
    MemoryMismatch,
    MissingData,
    MissingExtra,
    RunRefused,
    TooManyFailures,
)

FATAL = (BadSettings, BudgetReached, MemoryMismatch, MissingData, MissingExtra, RunRefused, TooManyFailures, Stopped)
"""Not the fault of one unit: the run ends."""
NAMED = 100
"""Edits that a line of costs names at most."""


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
    with owned_folder(out, drafts=DRAFTS), ExitStack() as stack:
        check_folder(config, out)
        parts = load_parts(config, out, model)
        stack.callback(parts.memory.close)
        if model is None:
            stack.callback(parts.policy.close)
        if config.held_out is not None:
            held_out_texts(config.held_out, parts.benchmark, config.seed)  # before a wrong one stands in a manifest
        begun = begin(parts, out)
        finished, cuts = mend(out)
        files = stack.enter_context(RunFiles(out))
        for event in cuts:
            files.event(event | {"at": now()})
        work = _Work(parts, files, finished, progress or Quiet(), begun.units)
        if hasattr(parts.model, "policy") or asks_elsewhere(config):  # else a reply costs nothing but time
            work.journal = stack.enter_context(run_journal(out, finished))
        try:
            return work.through(out)
        finally:
            keep_spent(out, parts.policy.ledger)


class _Work:
    """One process's share of a run."""

    def __init__(self, parts: Parts, files: RunFiles, finished: set[str], progress: Progress, units: int) -> None:
        self.parts, self.files, self.finished, self.progress = parts, files, finished, progress
        self.units = units
        self.checkpoints = Checkpoints.parse(parts.config.checkpoints)
        self.baseline = Baseline(parts.unedited(), files, parts.passes[0].model_fingerprint)
        self.collateral = Collateral(parts, files)
        self.untouched = Untouched(parts.model)
        self.failures = Failures(parts.config.fail_on_error)
        self.journal: CallJournal | None = None
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.told = dict.fromkeys(("finished", "records", "unscored", "input_tokens", "output_tokens", "calls"), 0)

    def through(self, out: Path) -> Summary:
        """All passes, then the summary."""
        began = time.perf_counter(), time.process_time()
        self.progress.start(self.units, skipped=min(len(self.finished), self.units))
        pool = ThreadPoolExecutor(self.parts.config.concurrency, "emend-unit")
        try:
            for one in self.parts.passes:
                self._pass(one, pool)
        finally:
            self.stop.set()
            with self.parts.policy.ending():
                pool.shutdown(wait=True, cancel_futures=True)
            self.progress.close()
            summary = self._summary(out, began)
            if summary.finished or summary.failed:
                with suppress(RunRefused):  # a full disk has been told already
                    self.files.cost({"act": "run"} | summary.model_dump(exclude={"folder"}) | {"at": now()})
        self.failures.check_at_end(out)
        return summary

    def _summary(self, out: Path, began: tuple[float, float]) -> Summary:
        before = self.baseline.spent
        told = dict(self.told)
        for name in ("input_tokens", "output_tokens", "calls"):
            told[name] += getattr(before, name)
        return Summary(
            folder=str(out),
            units=self.units,
            skipped=len(self.finished),
            failed=self.failures.count,
            baseline_calls=before.calls,
            seconds=round(time.perf_counter() - began[0], 3),
            cpu_seconds=round(time.process_time() - began[1], 3),
            peak_bytes=Resident.highest_so_far(),
            spent=self.parts.policy.ledger.by_model(),
            **told,
        )

    def _groups(self, one: Pass) -> Iterator[Group]:
        return groups(lambda: self.parts.cases(one.setting), one.mode, self.checkpoints)

    def _pass(self, one: Pass, pool: ThreadPoolExecutor) -> None:
        if one.mode == "sequential" and isinstance(one.editor, Sequential):
            self._sequence(one, one.editor)
            return
        queue = Inline() if one.editor.needs_weights else Queue(pool, 2 * self.parts.config.concurrency)
        ahead = Ahead(one, partial(self._meter, one))
        for group in ahead.through(self._groups(one)):
            if next(self._pending(one, group), None) is None:
                continue
            if one.mode == "all" or group.checkpoint:
                self._stand(one, group, queue, ahead)
            else:
                queue.put(partial(self._stand, one, group, Inline(), ahead))
        queue.drain()

    def _pending(self, one: Pass, group: Group) -> Iterator[Unit]:
        return (unit for unit in group.units(one) if unit.key not in self.finished)

    def _prepare(self, one: Pass, group: Group) -> int:
        """How many units are left; the unedited model is asked for them, since weights are about to change."""
        left = 0
        for unit in self._pending(one, group):
            left += 1
            self.baseline.prepare(unit.case.probes, one.repeat)
        return left

    def _stand(self, one: Pass, group: Group, queue: Queue | Inline, ahead: Ahead) -> None:
        """Let the group's edits stand, and ask its units meanwhile."""
        try:
            if one.editor.needs_weights:
                self._prepare(one, group)
            error = self._stood(one, group, queue, ahead)
            if one.editor.needs_weights:
                self.untouched.check(one.name)
            if error is not None:
                self._part(one, group, queue, ahead, error)
        except Stopped:
            return

    def _part(self, one: Pass, group: Group, queue: Queue | Inline, ahead: Ahead, error: Exception) -> None:
        """Go on without the edits that cannot be made; where that is no help the whole group has failed."""
        parts = parted(one.editor, group, FATAL) if one.editor.needs_weights else None
        if parts is None:
            self._fail(one, self._pending(one, group), error)
            return
        for unit in self._pending(one, parts.broken):
            self._fail(one, [unit], parts.error_of(unit.case))
        if next(self._pending(one, parts.sound), None) is not None:
            self._stand(one, parts.sound, queue, ahead)

    def _stood(self, one: Pass, group: Group, queue: Queue | Inline, ahead: Ahead) -> Exception | None:
        """Asks the units under the edits, unless those cannot be made: then the error."""
        with ExitStack() as standing:
            try:
                self.collateral.before(one)
                before = ahead.share(len(group.edits))
                with self._meter(one) as meter:
                    answerer = standing.enter_context(one.editor.edit(group.edits))
                cost = self._cost(one, group.edits, meter.cost(len(group.edits), cost_of(answerer)).plus(before))
                self.collateral.after(one, group.edits, len(group.edits))
            except FATAL:
                raise
            except Exception as error:  # noqa: BLE001  whatever an editor raises
                return error
            self._ask_all(one, group, queue, answerer, cost)
        return None

    def _sequence(self, one: Pass, editor: Sequential) -> None:
        """Solve each case's edits on top of those before, those of finished units too if a later one needs them."""
        if not sum(self._prepare(one, group) for group in self._groups(one)):
            return
        self.collateral.before(one)
        with editor.sequence() as grow:
            stood = Stood(grow, FATAL)
            for group in self._groups(one):
                stood.owe(group, again=next(self._pending(one, group), None) is None)
                for unit in self._pending(one, group):
                    self._add(one, stood)
                    error = stood.error_of(unit.case)
                    if error is None:
                        self._ask(
                            one, unit._replace(standing=stood.count, cost=stood.cost_of(unit.case)), stood.answerer
                        )
                    else:
                        self._fail(one, [unit], error)
        self.untouched.check(one.name)

    def _add(self, one: Pass, stood: Stood) -> None:
        """Let the edits stand that are owed."""
        for edits, again in stood.owed():
            with self._meter(one) as meter:
                stands = stood.add(edits)
            if stands:
                stood.cost(edits, self._cost(one, edits, meter.cost(len(edits), cost_of(stood.answerer)), again))
                if not again:
                    self.collateral.after(one, edits, stood.count)

    def _meter(self, one: Pass) -> Meter:
        return Meter(one.editor.needs_weights, getattr(self.parts.model, "lm", None))

    def _cost(self, one: Pass, edits: Sequence[Edit], cost: EditCost, again: bool = False) -> EditCost:
        """Keep what letting edits stand cost; their ids are those of `cases.jsonl`, of many at once the first ones."""
        told = {"editor": one.name, "setting": one.setting, "mode": one.mode, "repeat": one.repeat}
        of = [edit.id for edit in edits[:NAMED]]
        self.files.cost({"act": "edit"} | told | cost.model_dump() | {"again": again, "of": of})
        return cost

    def _ask_all(self, one: Pass, group: Group, queue: Queue | Inline, answerer: Answerer, cost: EditCost) -> None:
        try:
            for unit in self._pending(one, group):
                queue.put(partial(self._ask, one, unit._replace(cost=cost), answerer))
            queue.drain()
        except BaseException:
            self.stop.set()  # before the edit is taken back under the units that are still being asked
            raise

    def _ask(self, one: Pass, unit: Unit, answerer: Answerer) -> None:
        try:
            with unit_scope(self.journal, unit.key):
                asked = ask_unit(one, unit, answerer, self.baseline, self.stop)
                self.files.unit(asked.records, asked.events)
        except FATAL:
            raise
        except Exception as error:
            if self.stop.is_set():
                raise Stopped from error
            self._fail(one, [unit], error, getattr(error, "probe_id", ""))
            return
        unscored = sum(bool(record.unscored) for record in asked.records)
        usages = [record.usage for record in asked.records if not record.kept]
        counts = {"finished": 1, "records": len(asked.records), "unscored": unscored}
        for name in ("input_tokens", "output_tokens", "calls"):
            counts[name] = sum(getattr(usage, name) for usage in usages)
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
