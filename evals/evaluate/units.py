"""Passes, groups and units of a run."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, NamedTuple

from emend.editors.base import NO_COST, EditCost, Editor
from emend.evals.case import Case, pass_id, unit_key
from emend.evals.config.mode import NO_CHECKPOINTS, Checkpoints, Mode
from emend.evals.jobs.results import WorkUnit
from emend.memory.edit import Edit

# Maximum number of unfinished cases that are kept; with more, cases are streamed again.
MAX_HELD = 1000


@dataclass(frozen=True)
class EditorPass:
    """One pass of an editor over all cases of one setting."""

    editor: Editor
    name: str
    model: str
    model_fingerprint: dict[str, Any]
    setting: str
    mode: Mode
    repeat: int

    @cached_property
    def labels(self) -> dict[str, Any]:
        """Fields that records, costs and errors of this pass have in common."""
        return {
            "editor": self.name,
            "setting": self.setting,
            "mode": str(self.mode),
            "repeat": self.repeat,
        }

    @cached_property
    def content_id(self) -> str:
        """Identifier computed from all that decides this pass's answers, except for the case."""
        fingerprint = self.editor.fingerprint
        return pass_id(
            self.name,
            fingerprint,
            self.model_fingerprint,
            self.setting,
            str(self.mode),
            self.repeat,
        )

    def unit_key(self, case: Case, checkpoint: int = 0) -> str:
        """Return the key of a unit, which depends on content but not on order, time or machine.

        Each checkpoint has its own key.
        """
        return self.key_of(case.id, checkpoint)

    def key_of(self, case: str, checkpoint: int = 0) -> str:
        """Return the key of the unit for a case id."""
        return unit_key(case, self.content_id, checkpoint)

    def work_unit(self, unit: "Unit") -> WorkUnit:
        """Return a unit in the form of the job engine."""
        labels = {"case": unit.case.id, "probe": "", **self.labels}
        labels |= {"model": self.model, "checkpoint": unit.checkpoint}
        return WorkUnit(unit.key, self.name, labels)


class UnfinishedCases:
    """Cases of a setting with an unfinished unit in one of its passes.

    `passes` holds the ids of passes with unfinished units; `cases` is None if there are more than
    `MAX_HELD`.

    Args:
        passes: passes of the setting.
        finished: keys of finished units.
    """

    def __init__(self, passes: Sequence[EditorPass], finished: Collection[str]) -> None:
        self.passes: set[str] = set()
        self.cases: list[Case] | None = []
        self._all_passes, self._finished = passes, finished

    def add(self, case: Case) -> None:
        """Add a case, and check whether its units are finished."""
        left = [
            each.content_id
            for each in self._all_passes
            if each.unit_key(case) not in self._finished
        ]
        self.passes.update(left)
        if left and self.cases is not None:
            self.cases.append(case)
            if len(self.cases) > MAX_HELD:
                self.cases = None


class Unit(NamedTuple):
    """One case of one pass, evaluated and written as a whole.

    `checkpoint` is the number of edits after which the case is asked again, 0 the first time.
    `active_edits` is the number of edits applied at that time, and `cost` the cost of applying the
    case's own edits.
    """

    key: str
    case: Case
    checkpoint: int = 0
    active_edits: int = 0
    cost: EditCost = NO_COST


class Group(NamedTuple):
    """Cases that are asked under the same applied edits.

    In mode `sequential`, `new` holds the edits that earlier groups did not have, and a group with a
    `checkpoint` asks the first `again` cases once more.
    """

    edits: Sequence[Edit]
    cases: Callable[[], Iterable[Case]]
    new: Sequence[Edit] = ()
    checkpoint: int = 0
    again: int = 0

    def units(self, editor_pass: EditorPass) -> Iterator[Unit]:
        """Yield the units of a pass over this group."""
        for case in self.cases():
            yield Unit(
                editor_pass.unit_key(case, self.checkpoint), case, self.checkpoint, len(self.edits)
            )


def groups(
    cases: Callable[[], Iterator[Case]], mode: Mode, checkpoints: Checkpoints = NO_CHECKPOINTS
) -> Iterator[Group]:
    """Divide cases into groups, in the order of the cases.

    A group applies the edits of one case in mode `single`, and of N cases in mode `batch:N`. In
    mode `sequential:N` it adds the edits of N cases (default 1) to all previous ones, and at each
    checkpoint all cases so far are asked again. In mode `all` one group applies all edits; its
    cases are streamed and never kept together.
    """
    if mode.kind == "all":
        yield Group(_distinct(cases()), cases)
    elif mode.kind == "sequential":
        yield from _sequence(cases, mode.size or 1, checkpoints)
    else:
        stream = cases()
        while batch := list(islice(stream, mode.size or 1)):
            yield _group(batch, _distinct(batch))


def _sequence(
    cases: Callable[[], Iterator[Case]], size: int, checkpoints: Checkpoints
) -> Iterator[Group]:
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
    """Yield each case once, since data sets repeat rows, and equal cases would be the same unit."""
    ids: set[str] = set()
    for case in cases:
        if case.id not in ids:
            ids.add(case.id)
            yield case
