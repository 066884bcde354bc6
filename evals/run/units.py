"""Passes, groups and units of a run, and queues of tasks that are done at once."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

from emend.editors.base import NO_COST, EditCost, Editor
from emend.evals.case import Case, pass_id, unit_key
from emend.evals.config.run_config import NO_CHECKPOINTS, Checkpoints, Mode
from emend.memory.edit import Edit

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(function: Callable[[Item], Result], items: Sequence[Item], at_once: int) -> Iterator[Result]:
    """The function's results in the order of the items, computed by that many threads in the caller's context.

    The first error is raised in its item's place; items that have not begun are then left out.
    """
    if at_once == 1 or len(items) < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(min(at_once, len(items)), "emend-probe") as pool:
        futures = [pool.submit(copy_context().run, function, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class TaskQueue:
    """Hands tasks to a pool, a bounded number at a time, so that cases are read no faster than they are asked.

    Without a pool each task is done at once: for tasks that may not overlap.
    """

    def __init__(self, pool: ThreadPoolExecutor | None = None, bound: int = 0) -> None:
        self._pool, self._bound = pool, bound
        self._changed = threading.Condition()
        self._pending = 0
        self._error: BaseException | None = None

    def put(self, task: Callable[[], None]) -> None:
        """Wait for room, then hand the task over; raise what an earlier task raised."""
        if self._pool is None:
            task()
            return
        self._wait_until_fewer(self._bound)
        with self._changed:
            self._pending += 1
        self._pool.submit(task).add_done_callback(self._end)

    def drain(self) -> None:
        """Wait for all tasks; raise what any of them raised."""
        self._wait_until_fewer(1)

    def _wait_until_fewer(self, number: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._pending < number or self._error is not None)
            error, self._error = self._error, None
        if error is not None:
            raise error

    def _end(self, future: Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        with self._changed:
            self._pending -= 1
            self._error = self._error or error
            self._changed.notify()


MAX_HELD = 1000
"""Number of cases that are held; more are streamed again."""


@dataclass(frozen=True)
class EditorPass:
    """One editor going once over all cases of one setting."""

    editor: Editor
    name: str
    model: str
    model_fingerprint: dict[str, Any]
    setting: str
    mode: Mode
    repeat: int

    @cached_property
    def labels(self) -> dict[str, Any]:
        """The fields that records, costs and errors of this pass have in common."""
        return {"editor": self.name, "setting": self.setting, "mode": str(self.mode), "repeat": self.repeat}

    @cached_property
    def content_id(self) -> str:
        """Identifier made from everything that decides the answers of this pass besides the case."""
        fingerprint = self.editor.fingerprint
        return pass_id(self.name, fingerprint, self.model_fingerprint, self.setting, str(self.mode), self.repeat)

    def unit_key(self, case: Case, checkpoint: int = 0) -> str:
        """Key of a unit: made from content, not from order, time or machine; another one at every checkpoint."""
        return self.key_of(case.id, checkpoint)

    def key_of(self, case: str, checkpoint: int = 0) -> str:
        """Key of the unit of the case of that id."""
        return unit_key(case, self.content_id, checkpoint)


class UnfinishedCases:
    """Those of a setting's cases that have an unfinished unit in one of its passes.

    `passes` are ids of the passes with unfinished units; `cases` is None where there are too many to be held.

    Args:
        passes: of the setting.
        finished: keys of finished units.
    """

    def __init__(self, passes: Sequence[EditorPass], finished: Collection[str]) -> None:
        self.passes: set[str] = set()
        self.cases: list[Case] | None = []
        self._all_passes, self._finished = passes, finished

    def add(self, case: Case) -> None:
        """Look for unfinished units of a case, the next one of the setting."""
        left = [each.content_id for each in self._all_passes if each.unit_key(case) not in self._finished]
        self.passes.update(left)
        if left and self.cases is not None:
            self.cases.append(case)
            if len(self.cases) > MAX_HELD:
                self.cases = None


class Unit(NamedTuple):
    """One case of one pass, evaluated and written as a whole.

    `checkpoint` is the number of edits after which the case is asked again, 0 the first time; `active_edits` the number
    of edits that are applied meanwhile, and `cost` that of applying the case's own.
    """

    key: str
    case: Case
    checkpoint: int = 0
    active_edits: int = 0
    cost: EditCost = NO_COST


class Group(NamedTuple):
    """Cases that are asked under the same applied edits.

    In mode `sequential`, `new` are those of the edits that earlier groups did not have, and a group with a `checkpoint`
    asks the first `again` cases of all once more.
    """

    edits: Sequence[Edit]
    cases: Callable[[], Iterable[Case]]
    new: Sequence[Edit] = ()
    checkpoint: int = 0
    again: int = 0

    def units(self, editor_pass: EditorPass) -> Iterator[Unit]:
        """Units of a pass over this group."""
        for case in self.cases():
            yield Unit(editor_pass.unit_key(case, self.checkpoint), case, self.checkpoint, len(self.edits))


def groups(
    cases: Callable[[], Iterator[Case]], mode: Mode, checkpoints: Checkpoints = NO_CHECKPOINTS
) -> Iterator[Group]:
    """Divide cases into groups, in the order of the cases.

    `single`: each case's edits alone; `batch:N`: those of N cases; `sequential:N`: those of N cases, or of 1,
    and all before them, in order, with all cases so far once more at each checkpoint; `all`: those of all cases, which
    are then streamed and never held together.
    """
    if mode.kind == "all":
        yield Group(_distinct(cases()), cases)
    elif mode.kind == "sequential":
        yield from _sequence(cases, mode.size or 1, checkpoints)
    else:
        stream = cases()
        while batch := list(islice(stream, mode.size or 1)):
            yield _group(batch, _distinct(batch))


def _sequence(cases: Callable[[], Iterator[Case]], size: int, checkpoints: Checkpoints) -> Iterator[Group]:
    applied: dict[str, Edit] = {}
    last = number = 0
    stream = cases()
    while turn := list(islice(stream, size)):
        before, number = len(applied), number + len(turn)
        new = {edit.id: edit for case in turn for edit in case.edits if edit.id not in applied}
        applied |= new
        edits = tuple(applied.values())
        yield _group(turn, edits)._replace(new=tuple(new.values()))
        if checkpoints.passed(before, len(applied)):
            last = len(applied)
            yield _again(cases, edits, number)
    if checkpoints.end and last < len(applied):
        yield _again(cases, tuple(applied.values()), number)


def _again(cases: Callable[[], Iterator[Case]], edits: Sequence[Edit], count: int) -> Group:
    return Group(edits, lambda: islice(cases(), count), checkpoint=len(edits), again=count)


def _group(cases: list[Case], edits: Sequence[Edit]) -> Group:
    return Group(edits, lambda: cases)


def _distinct(cases: Iterable[Case]) -> tuple[Edit, ...]:
    edits = chain.from_iterable(case.edits for case in cases)
    return tuple({edit.id: edit for edit in edits}.values())


def without_repeats(cases: Iterator[Case]) -> Iterator[Case]:
    """Yield each case once: data sets repeat rows, and the same content would be the same unit."""
    ids: set[str] = set()
    for case in cases:
        if case.id not in ids:
            ids.add(case.id)
            yield case
