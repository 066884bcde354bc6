"""Evaluation of one pass: apply the edits of each group, ask its units, and write the results."""

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
from emend.evals.evaluate.ask_unit import ask_unit
from emend.evals.evaluate.baseline import Baseline
from emend.evals.evaluate.edit_groups import AppliedEdits, Lookahead, find_failing_edits, piece_size
from emend.evals.evaluate.setup.run_setup import RunSetup
from emend.evals.evaluate.side_effects import SideEffects
from emend.evals.evaluate.units import EditorPass, Group, Unit
from emend.evals.jobs.failures import FATAL, Stopped
from emend.evals.jobs.progress import UnitShares
from emend.evals.jobs.queues import TaskQueue
from emend.evals.jobs.results import Results
from emend.evals.log.lines import EDIT_CHECK
from emend.memory.edit import Edit, content_id

# Minimum seconds of editing that are reported apart from the time of asking.
MIN_REPORTED_SECONDS = 0.1
# Maximum number of edit ids in a line of `costs.jsonl`.
MAX_COST_IDS = 100


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
    """Keys of units finished by earlier processes."""
    journal: ReplyStore | None = None
    """Replies of unfinished units; None for local models, whose replies cost only time."""
    stop: threading.Event = field(default_factory=threading.Event)


class PassEvaluator:
    """Evaluates the unfinished units of one pass.

    An editor that changes weights is asked one unit after the other, with the probes of a unit in
    parallel; units of other editors run in the threads of the pool.
    """

    def __init__(
        self, editor_pass: EditorPass, context: EvaluationContext, pool: ThreadPoolExecutor
    ) -> None:
        self.editor_pass, self.editor, self.context = editor_pass, editor_pass.editor, context
        bound = 2 * context.setup.units_at_once
        self._queue = TaskQueue(None if self.editor.needs_weights else pool, bound)
        # Calls to a provider are recorded in the journal in the order of a unit's probes.
        is_local = self.editor.needs_weights and context.journal is None
        self._probes_at_once = context.setup.units_at_once if is_local else 1
        piece = piece_size(getattr(context.setup.model, "lm", None))
        self._lookahead = Lookahead(editor_pass, piece, self._meter, self._report_edits)
        journal = context.journal
        self._edit_calls = (
            None if journal is None else UnitCalls(journal, content_id("edits", editor_pass.labels))
        )
        """Recorded calls that read a sequence's edits, which a later process repeats at no cost."""
        self._failed = False

    def evaluate(self, groups: Iterator[Group] | None = None) -> None:
        """Evaluate the groups one after the other.

        In mode `sequential`, an editor that supports sequences always evaluates its whole pass.

        Args:
            groups: groups to evaluate; None for all groups of the pass.

        Raises:
            EmendError: an error of a class in `FATAL`; any other error only fails a unit.
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
        """Apply the group's edits, ask its unfinished units, and undo the edits.

        If the edits cannot be applied together, the group is split.
        """
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
        """Context in which the group's edits are applied; yields the answerer and the cost."""
        self._measure_unedited(group.edits)
        ahead = self._lookahead.cost(len(group.edits))
        with ExitStack() as applied:
            with self._meter() as meter:
                answerer = applied.enter_context(self.editor.edit(group.edits))
            cost = meter.cost(len(group.edits), cost_of(answerer))
            is_whole = self.editor_pass.mode.kind == "all"
            self._report_edits(
                cost.seconds, 0 if is_whole else sum(1 for _ in self._pending(group))
            )
            cost = cost.plus(ahead)
            self._write_cost(group.edits, cost)
            self._measure_edited(group.edits, len(group.edits))
            yield answerer, cost

    def _apply_and_ask(self, group: Group, queue: TaskQueue) -> Exception | None:
        """Ask the units under the edits; return the error if the edits cannot be applied."""
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
                # stop before the edits are undone while units are still being asked
                self.context.stop.set()
                raise
        return None

    def _split_failed_group(self, group: Group, queue: TaskQueue, error: Exception) -> None:
        """Continue without the edits that fail alone; if there are none, fail the whole group."""
        errors: dict[str, Exception] = {}
        if (self.editor.needs_weights or hasattr(self.editor, "solve")) and len(group.edits) > 1:
            logging.getLogger(__name__).warning(
                "%s edits fail together: searching for those that cause it", f"{len(group.edits):,}"
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
        rest = group._replace(
            edits=sound, cases=lambda: (case for case in group.cases() if not error_of(case))
        )
        if self._is_pending(rest):
            self.evaluate_group(rest, queue)

    def _evaluate_sequence(self, editor: Sequential) -> None:
        """Apply each case's edits on top of the previous ones.

        Edits of finished units are applied too if a later unit needs them.
        """
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
                        self._evaluate_unit(
                            unit._replace(active_edits=applied.count, cost=cost), applied.answerer
                        )
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
        """Measure all side effects of the edits so far.

        The line replaces the one written after the last turn.
        """
        self._apply_pending(applied)
        self.context.side_effects.measure_edited(self.editor_pass, applied.newest, applied.count)

    def _measure_unedited(self, edits: Sequence[Edit]) -> None:
        """Measure the unedited model's side-effect metrics, before any edit is applied."""
        self.context.side_effects.measure_unedited(self.editor_pass)
        if self.editor.needs_weights:
            self.context.edit_check.prepare(
                edits, self.context.setup.source.other_edits(self.editor_pass.setting)
            )

    def _measure_edited(
        self, edits: Sequence[Edit], active_edits: int, thorough: bool = True
    ) -> None:
        """Measure the edited model, and report problems to the log and the run folder.

        The measurement is not part of the cost of the edits.
        """
        self.context.side_effects.measure_edited(self.editor_pass, edits, active_edits, thorough)
        if not self.editor.needs_weights:
            return
        if outcome := self.context.edit_check.measure(self.editor_pass.name, edits):
            edited = content_id("edited", [edit.id for edit in edits])
            line = {
                "act": EDIT_CHECK,
                **self.editor_pass.labels,
                "edits": edited,
                "standing": active_edits,
            }
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
                context.results.unit(self.editor_pass.work_unit(unit), result)
        except FATAL:
            raise
        except Exception as error:
            if context.stop.is_set():
                raise Stopped from error
            self._fail([unit], error)

    def _fail(self, units: Iterable[Unit], error: BaseException) -> None:
        self._failed = True
        for unit in units:
            self.context.results.failure(self.editor_pass.work_unit(unit), error)

    def _groups(self) -> Iterator[Group]:
        return self.context.setup.groups(self.editor_pass.setting)

    def _pending(self, group: Group) -> Iterator[Unit]:
        return (
            unit for unit in group.units(self.editor_pass) if unit.key not in self.context.finished
        )

    def _is_pending(self, group: Group) -> bool:
        return next(self._pending(group), None) is not None

    def _prepare_baseline(self, group: Group) -> int:
        """Ask the unedited model before weights change, and return the number of pending units."""
        pending = 0
        for unit in self._pending(group):
            pending += 1
            self.context.baseline.prepare(
                unit.case.probes, self.editor_pass.repeat, self._probes_at_once
            )
        return pending

    def _meter(self) -> Meter:
        return Meter(self.editor.needs_weights, getattr(self.context.setup.model, "lm", None))

    def _report_edits(self, seconds: float, units: int) -> None:
        """Report the time of applying edits before these units, if it is long enough."""
        if self.editor.needs_weights and seconds >= MIN_REPORTED_SECONDS:
            self.context.results.prepared(self.editor_pass.name, seconds, units)

    def _write_cost(self, edits: Sequence[Edit], cost: EditCost, again: bool = False) -> None:
        """Write the cost of applying edits, with at most the first `MAX_COST_IDS` of their ids."""
        ids = [edit.id for edit in edits[:MAX_COST_IDS]]
        line = {
            "act": "edit",
            **self.editor_pass.labels,
            **cost.model_dump(),
            "again": again,
            "of": ids,
        }
        self.context.results.cost(line)
