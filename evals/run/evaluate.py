"""Evaluation of one pass: applies the edits of each group, asks its units, and writes every result."""

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from emend.agents.providers.journal import ReplyStore, UnitCalls, calls_scope, unit_scope
from emend.editors.base import Answerer, EditCost, Sequential, cost_of
from emend.editors.cost import Meter
from emend.editors.edit_check import EditCheck
from emend.editors.restore_check import RestoreCheck
from emend.evals.case import Case
from emend.evals.log.lines import EDIT_CHECK
from emend.evals.run.ask_unit import Stopped, ask_unit
from emend.evals.run.baseline import Baseline
from emend.evals.run.edit_groups import AppliedEdits, Lookahead, find_failing_edits
from emend.evals.run.results import Results, UnitShares
from emend.evals.run.run_setup import RunSetup
from emend.evals.run.side_effects import SideEffects
from emend.evals.run.units import EditorPass, Group, TaskQueue, Unit
from emend.memory.edit import Edit, content_id
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
"""Errors that are not the fault of one unit: the run ends."""
WORTH_REPORTING = 0.1
"""Seconds of edits from which on they are told apart from the time of asking."""
MAX_COST_IDS = 100
"""Maximum number of edit ids in a line of `costs.jsonl`."""


@dataclass(frozen=True)
class EvaluationContext:
    """State that all passes of a run share."""

    setup: RunSetup
    baseline: Baseline
    side_effects: SideEffects
    edit_check: EditCheck
    restore_check: RestoreCheck
    results: Results
    finished: set[str]
    """Keys of the units that earlier processes finished."""
    journal: ReplyStore | None = None
    """Replies of unfinished units; None for local models, whose replies cost nothing but time."""
    stop: threading.Event = field(default_factory=threading.Event)


class PassEvaluator:
    """Evaluates the unfinished units of one pass.

    Units of an editor that changes weights are asked one after the other, with the probes of each at the same time;
    others by the threads of the pool.
    """

    def __init__(self, editor_pass: EditorPass, context: EvaluationContext, pool: ThreadPoolExecutor) -> None:
        self.editor_pass, self.editor, self.context = editor_pass, editor_pass.editor, context
        bound = 2 * context.setup.units_at_once
        self._queue = TaskQueue(None if self.editor.needs_weights else pool, bound)
        # Calls to a provider are journalled in the order of a unit's probes.
        is_local = self.editor.needs_weights and context.journal is None
        self._probes_at_once = context.setup.units_at_once if is_local else 1
        self._lookahead = Lookahead(editor_pass, self._meter, self._report_edits)
        journal = context.journal
        self._edit_calls = None if journal is None else UnitCalls(journal, content_id("edits", editor_pass.labels))
        """Calls by which a sequence's edits are read: a later process reads all of them again, and pays for none."""
        self._failed = False

    def evaluate(self, groups: Iterator[Group] | None = None) -> None:
        """Evaluate group after group, in mode `sequential` with an editor that can always all of them.

        Args:
            groups: those to evaluate; None for all of the pass.

        Raises:
            EmendError: of a class in `FATAL`; every other error is a failed unit.
        """
        kind = self.editor_pass.mode.kind
        if kind == "sequential" and isinstance(self.editor, Sequential):
            self._evaluate_sequence(self.editor)
            return
        for group in self._lookahead.chunks(self._groups() if groups is None else groups):
            if not self._is_pending(group):
                continue
            if kind == "all" or group.checkpoint:  # many units: these share the pool
                self.evaluate_group(group, self._queue)
            else:
                self._queue.put(partial(self.evaluate_group, group, TaskQueue()))
        self._queue.drain()

    def evaluate_group(self, group: Group, queue: TaskQueue) -> None:
        """Apply the group's edits, ask its unfinished units, undo the edits; if they cannot be applied, split it."""
        try:
            if self.editor.needs_weights:
                self._prepare_baseline(group)
            error = self._apply_and_ask(group, queue)
            if self.editor.needs_weights:
                self.context.restore_check.check(self.editor_pass.name)
            if error is not None:
                self._split_failed_group(group, queue, error)
        except Stopped:
            return

    @contextmanager
    def apply_group(self, group: Group) -> Iterator[tuple[Answerer, EditCost]]:
        """Inside the `with`, the group's edits are applied: yields who answers, and what applying them cost."""
        self._measure_unedited(group.edits)
        ahead = self._lookahead.cost(len(group.edits))
        with ExitStack() as applied:
            with self._meter() as meter:
                answerer = applied.enter_context(self.editor.edit(group.edits))
            cost = meter.cost(len(group.edits), cost_of(answerer))
            is_whole = self.editor_pass.mode.kind == "all"
            self._report_edits(cost.seconds, 0 if is_whole else sum(1 for _ in self._pending(group)))
            cost = cost.plus(ahead)
            self._write_cost(group.edits, cost)
            self._measure_edited(group.edits, len(group.edits))
            yield answerer, cost

    def _apply_and_ask(self, group: Group, queue: TaskQueue) -> Exception | None:
        """Ask the units under the edits; return the error if these cannot be applied."""
        with ExitStack() as stack:
            try:
                answerer, cost = stack.enter_context(self.apply_group(group))
            except FATAL:
                raise
            except Exception as error:  # noqa: BLE001  whatever an editor raises
                return error
            try:
                for unit in self._pending(group):
                    queue.put(partial(self._evaluate_unit, unit._replace(cost=cost), answerer))
                queue.drain()
            except BaseException:
                self.context.stop.set()  # before the edits are undone under the units that are still being asked
                raise
        return None

    def _split_failed_group(self, group: Group, queue: TaskQueue, error: Exception) -> None:
        """Go on without the edits that cannot be applied; if that does not help, the whole group has failed."""
        errors: dict[str, Exception] = {}
        if (self.editor.needs_weights or hasattr(self.editor, "solve")) and len(group.edits) > 1:
            logging.getLogger(__name__).warning(
                "%s edits fail together: searching for the culprits", f"{len(group.edits):,}"
            )
            errors = find_failing_edits(self.editor, group.edits, FATAL)
        sound = [edit for edit in group.edits if edit.id not in errors]
        if not errors or not sound:
            self._fail(self._pending(group), error)
            return

        def error_of(case: Case) -> Exception | None:
            return next((errors[edit.id] for edit in case.edits if edit.id in errors), None)

        for unit in self._pending(group):
            if failure := error_of(unit.case):
                self._fail([unit], failure)
        rest = group._replace(edits=sound, cases=lambda: (case for case in group.cases() if not error_of(case)))
        if self._is_pending(rest):
            self.evaluate_group(rest, queue)

    def _evaluate_sequence(self, editor: Sequential) -> None:
        """Apply each case's edits on top of those before; edits of finished units too if a later unit needs them."""
        if not sum(self._prepare_baseline(group) for group in self._groups()):
            return
        self._measure_unedited([edit for group in self._groups() for edit in group.new])
        with editor.sequence() as apply_more:
            applied = AppliedEdits(apply_more, FATAL, divides=self.editor_pass.mode.size > 1)
            for group in self._groups():
                applied.defer(group.new, again=not self._is_pending(group))
                if group.checkpoint and self._is_pending(group):
                    self._measure_checkpoint(applied)
                for unit in self._pending(group):
                    self._apply_pending(applied)
                    error = applied.error_of(unit.case)
                    if error is None:
                        cost = applied.cost_of(unit.case)
                        self._evaluate_unit(unit._replace(active_edits=applied.count, cost=cost), applied.answerer)
                    else:
                        self._fail([unit], error)
        self.context.restore_check.check(self.editor_pass.name)
        if self._edit_calls and self._edit_calls.counts and not self._failed:
            self._edit_calls.journal.forget(self._edit_calls.unit)

    def _apply_pending(self, applied: AppliedEdits) -> None:
        for edits, again in applied.pending():
            with self._meter() as meter, calls_scope(self._edit_calls):
                success = applied.apply(edits)
            if success:
                cost = meter.cost(len(edits), cost_of(applied.answerer))
                self._report_edits(cost.seconds, 1)
                applied.set_cost(edits, cost)
                self._write_cost(edits, cost, again)
                applied.newest = edits
                if not again:
                    self._measure_edited(edits, applied.count, thorough=False)

    def _measure_checkpoint(self, applied: AppliedEdits) -> None:
        """Measure all that the edits so far may harm; the line takes the place of the one after the last turn."""
        self._apply_pending(applied)
        self.context.side_effects.measure_edited(self.editor_pass, applied.newest, applied.count)

    def _measure_unedited(self, edits: Sequence[Edit]) -> None:
        """Measure what the edits may harm; called while none is applied."""
        self.context.side_effects.measure_unedited(self.editor_pass)
        if self.editor.needs_weights:
            self.context.edit_check.prepare(edits, self.context.setup.source.other_edits(self.editor_pass.setting))

    def _measure_edited(self, edits: Sequence[Edit], active_edits: int, thorough: bool = True) -> None:
        """Measure the edited model, and write what went wrong to log and run folder; no cost of the edits."""
        self.context.side_effects.measure_edited(self.editor_pass, edits, active_edits, thorough)
        if not self.editor.needs_weights:
            return
        if outcome := self.context.edit_check.measure(self.editor_pass.name, edits):
            edited = content_id("edited", [edit.id for edit in edits])
            line = {"act": EDIT_CHECK, **self.editor_pass.labels, "edits": edited, "standing": active_edits}
            self.context.results.cost(line | outcome.model_dump())

    def _evaluate_unit(self, unit: Unit, answerer: Answerer) -> None:
        context = self.context
        try:
            with unit_scope(context.journal, unit.key):
                with UnitShares(
                    partial(context.results.probes, self.editor_pass.name), len(unit.case.probes)
                ) as shares:
                    result = ask_unit(
                        self.editor_pass,
                        unit,
                        answerer,
                        context.baseline,
                        context.stop,
                        shares.add,
                        self._probes_at_once,
                    )
                context.results.unit(self.editor_pass, unit, result)
        except FATAL:
            raise
        except Exception as error:
            if context.stop.is_set():
                raise Stopped from error
            self._fail([unit], error)

    def _fail(self, units: Iterable[Unit], error: BaseException) -> None:
        self._failed = True
        for unit in units:
            self.context.results.failure(self.editor_pass, unit, error)

    def _groups(self) -> Iterator[Group]:
        return self.context.setup.groups(self.editor_pass.setting)

    def _pending(self, group: Group) -> Iterator[Unit]:
        return (unit for unit in group.units(self.editor_pass) if unit.key not in self.context.finished)

    def _is_pending(self, group: Group) -> bool:
        return next(self._pending(group), None) is not None

    def _prepare_baseline(self, group: Group) -> int:
        """Ask the unedited model now, because weights are about to change; return the number of pending units."""
        pending = 0
        for unit in self._pending(group):
            pending += 1
            self.context.baseline.prepare(unit.case.probes, self.editor_pass.repeat, self._probes_at_once)
        return pending

    def _meter(self) -> Meter:
        return Meter(self.editor.needs_weights, getattr(self.context.setup.model, "lm", None))

    def _report_edits(self, seconds: float, units: int) -> None:
        """Report the time of edits before these units are asked, if it is worth a message and nobody asks meanwhile."""
        if self.editor.needs_weights and seconds >= WORTH_REPORTING:
            self.context.results.edited(self.editor_pass.name, seconds, units)

    def _write_cost(self, edits: Sequence[Edit], cost: EditCost, again: bool = False) -> None:
        """Write what applying edits cost; their ids are those of `cases.jsonl`, of many at once the first ones."""
        ids = [edit.id for edit in edits[:MAX_COST_IDS]]
        line = {"act": "edit", **self.editor_pass.labels, **cost.model_dump(), "again": again, "of": ids}
        self.context.results.cost(line)
