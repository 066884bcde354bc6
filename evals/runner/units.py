"""Units of a run: one case under one editor, and which edits stand while it is asked."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, NamedTuple

from emend.editors.base import NO_COST, EditCost, Editor
from emend.evals.case import Case
from emend.evals.log.checkpoints import NO_CHECKPOINTS, Checkpoints
from emend.evals.log.manifest import parse_mode
from emend.memory.edit import Edit, content_id


@dataclass(frozen=True)
class Pass:
    """One editor going over all cases of one setting once."""

    editor: Editor
    name: str
    model: str
    model_fingerprint: dict[str, Any]
    setting: str
    mode: str
    repeat: int

    @cached_property
    def stem(self) -> str:
        """What the keys of all its units have in common."""
        return content_id(
            self.name, self.editor.fingerprint, self.model_fingerprint, self.setting, self.mode, self.repeat
        )

    def unit(self, case: Case, checkpoint: int = 0) -> str:
        """The unit's key: by content, never by order, time or machine; another one at every checkpoint."""
        again = (checkpoint,) if checkpoint else ()
        return content_id("unit", case.id, self.stem, *again)


class Unit(NamedTuple):
    """A case to be asked: its key, the checkpoint at which it is asked again (else 0), edits that stand, their cost."""

    key: str
    case: Case
    checkpoint: int = 0
    standing: int = 0
    cost: EditCost = NO_COST


class Group(NamedTuple):
    """Cases that are asked while the same edits stand.

    In mode `sequential`, `new` are those of the edits that did not stand before, and a group with a `checkpoint` asks
    again the first `again` cases of all.
    """

    edits: Sequence[Edit]
    cases: Callable[[], Iterable[Case]]
    new: Sequence[Edit] = ()
    checkpoint: int = 0
    again: int = 0

    def units(self, one: Pass) -> Iterator[Unit]:
        """The units of an editor's pass over the group."""
        for case in self.cases():
            yield Unit(one.unit(case, self.checkpoint), case, self.checkpoint, len(self.edits))


def groups(
    cases: Callable[[], Iterator[Case]], mode: str, checkpoints: Checkpoints = NO_CHECKPOINTS
) -> Iterator[Group]:
    """The groups of a mode, in the order of the cases.

    `single`: each case's edits alone; `batch:N`: those of N cases; `sequential`: those of this case and all before it,
    in order, with all cases so far once more at each checkpoint; `all`: those of all cases, which are then streamed and
    never held together.
    """
    kind, size = parse_mode(mode)
    if kind == "all":
        yield Group(_distinct(cases()), cases)
    elif kind == "sequential":
        yield from _sequence(cases, checkpoints)
    else:
        stream = cases()
        while batch := list(islice(stream, size or 1)):
            yield _group(batch, _distinct(batch))


def _sequence(cases: Callable[[], Iterator[Case]], checkpoints: Checkpoints) -> Iterator[Group]:
    standing: dict[str, Edit] = {}
    last = number = 0
    for number, case in enumerate(cases(), 1):
        before = len(standing)
        new = {edit.id: edit for edit in case.edits if edit.id not in standing}
        standing |= new
        edits = tuple(standing.values())
        yield _group([case], edits)._replace(new=tuple(new.values()))
        if checkpoints.passed(before, len(standing)):
            last = len(standing)
            yield _again(cases, edits, number)
    if checkpoints.end and last < len(standing):
        yield _again(cases, tuple(standing.values()), number)


def _again(cases: Callable[[], Iterator[Case]], edits: Sequence[Edit], count: int) -> Group:
    return Group(edits, lambda: islice(cases(), count), checkpoint=len(edits), again=count)


def _group(cases: list[Case], edits: Sequence[Edit]) -> Group:
    return Group(edits, lambda: cases)


def _distinct(cases: Iterable[Case]) -> tuple[Edit, ...]:
    edits = chain.from_iterable(case.edits for case in cases)
    return tuple({edit.id: edit for edit in edits}.values())


def without_repeats(cases: Iterator[Case]) -> Iterator[Case]:
    """Each case once: data sets repeat rows, and the same content would be the same unit."""
    seen: set[str] = set()
    for case in cases:
        if case.id not in seen:
            seen.add(case.id)
            yield case
