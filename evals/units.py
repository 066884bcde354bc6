"""Units of a run: one case under one editor, and which edits stand while it is asked."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, NamedTuple

from emend.editors.base import Editor
from emend.evals.case import Case
from emend.evals.manifest import parse_mode
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

    def unit(self, case: Case) -> str:
        """The unit's key: by content, never by order, time or machine."""
        return content_id("unit", case.id, self.stem)


class Unit(NamedTuple):
    """A case to be asked, and its key."""

    key: str
    case: Case


class Group(NamedTuple):
    """Cases that are asked while the same edits stand."""

    edits: Sequence[Edit]
    cases: Callable[[], Iterable[Case]]


def groups(cases: Callable[[], Iterator[Case]], mode: str) -> Iterator[Group]:
    """The groups of a mode, in the order of the cases.

    `single`: each case's edits alone; `batch:N`: those of N cases; `sequential`: those of this case and all before it,
    in order; `all`: those of all cases, which are then streamed and never held together.
    """
    kind, size = parse_mode(mode)
    if kind == "all":
        yield Group(_distinct(cases()), cases)
    elif kind == "sequential":
        standing: dict[str, Edit] = {}
        for case in cases():
            standing |= {edit.id: edit for edit in case.edits}
            yield _group([case], tuple(standing.values()))
    else:
        stream = cases()
        while batch := list(islice(stream, size or 1)):
            yield _group(batch, _distinct(batch))


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
