"""Tasks of a run for worker processes: whole groups or parts of a pass, by mode and editor."""

from collections.abc import Collection, Iterator
from functools import partial
from itertools import chain, count, islice
from typing import Literal, NamedTuple

from emend.editors.base import BatchSolver
from emend.evals.case import Case
from emend.evals.evaluate.edit_groups import CHUNK
from emend.evals.evaluate.setup.run_setup import RunSetup
from emend.evals.evaluate.units import EditorPass, Group, Unit, groups
from emend.evals.jobs.job import Task


class PassPortion(NamedTuple):
    """Units of one pass: whole groups, or in modes `all` and `sequential` a part of the pass."""

    pass_index: int
    cases: tuple[Case, ...] | None
    """Cases of whole groups; None for a part of the pass, whose cases the worker reads itself."""
    stride: tuple[int, int] = (0, 1)
    """Index of the first case, and step to the next: (1, 4) takes the 2nd, 6th, 10th and so on."""


def tasks_of(setup: RunSetup, finished: Collection[str], workers: int) -> Iterator[Task]:
    """Yield the tasks of all passes that have unfinished units.

    In modes `single` and `batch:N` a task is a group, or all groups whose edits are solved ahead
    together. In mode `all` each worker applies all edits and asks its part of the units. In mode
    `sequential` a task is a whole pass.
    """
    numbers = count()
    for index, editor_pass in enumerate(setup.share_passes):
        if setup.is_finished(editor_pass):
            continue
        for portion in _portions(setup, editor_pass, index, workers):
            complete = frozenset[str]()
            if finished:
                keys = [unit.key for unit in units_of(portion, setup)]
                complete = frozenset(keys).intersection(finished)
                if len(complete) == len(keys):
                    continue
            takes = _takes(portion, editor_pass)
            yield Task(next(numbers), portion, stage=index, takes=takes, finished=complete)


def _portions(
    setup: RunSetup, editor_pass: EditorPass, index: int, workers: int
) -> Iterator[PassPortion]:
    mode = editor_pass.mode
    if mode.kind == "sequential":
        yield PassPortion(index, None)
    elif mode.kind == "all":
        yield from (PassPortion(index, None, (first, workers)) for first in range(workers))
    else:
        together = (
            CHUNK if mode.kind == "single" and isinstance(editor_pass.editor, BatchSolver) else 1
        )
        stream = setup.groups(editor_pass.setting)
        while portion := list(islice(stream, together)):
            cases = chain.from_iterable(group.cases() for group in portion)
            yield PassPortion(index, tuple(cases))


def _takes(portion: PassPortion, editor_pass: EditorPass) -> Literal["worker", "turn", "thread"]:
    """Return how much of a worker a portion takes; weight edits need the model exclusively."""
    needs_weights = editor_pass.editor.needs_weights
    if portion.cases is None or (needs_weights and len(portion.cases) > 1):
        return "worker"
    return "turn" if needs_weights else "thread"


def groups_of(portion: PassPortion, setup: RunSetup) -> Iterator[Group]:
    """Yield the groups of a portion; in mode `all` one group with a part of the cases."""
    editor_pass = setup.share_passes[portion.pass_index]
    if portion.cases is not None:
        yield from groups(lambda: iter(portion.cases or ()), editor_pass.mode)
        return
    for group in setup.groups(editor_pass.setting):
        is_shared = portion.stride != (0, 1)
        yield group._replace(cases=partial(_every, group, *portion.stride)) if is_shared else group


def _every(group: Group, first: int, step: int) -> Iterator[Case]:
    return islice(group.cases(), first, None, step)


def units_of(portion: PassPortion, setup: RunSetup) -> Iterator[Unit]:
    """Yield the units of a portion."""
    editor_pass = setup.share_passes[portion.pass_index]
    return chain.from_iterable(group.units(editor_pass) for group in groups_of(portion, setup))
