"""Tasks: the units of a run divided so that results do not depend on how many workers there are."""

from collections.abc import Collection, Iterator
from functools import partial
from itertools import chain, count, islice

from emend.editors.base import BatchSolver
from emend.evals.case import Case
from emend.evals.run.batch_ahead import CHUNK
from emend.evals.run.setup.run_setup import RunSetup
from emend.evals.run.units import EditorPass, Group, Unit, groups
from emend.evals.run.workers.base import Task


def tasks_of(setup: RunSetup, finished: Collection[str], workers: int) -> Iterator[Task]:
    """Yield the tasks of all passes that have unfinished units.

    In modes `single` and `batch:N` a task is a group, or where edits are solved ahead of their groups all those that
    are solved together. In mode `all` each worker applies all edits, and asks its share of the units. In mode
    `sequential` a task is a whole pass.
    """
    numbers = count()
    for index, editor_pass in enumerate(setup.share_passes):
        if setup.is_finished(editor_pass):
            continue
        for task in _tasks_of_pass(setup, editor_pass, index, workers):
            if finished:
                keys = [unit.key for unit in units_of(task, setup)]
                task = task._replace(finished=frozenset(keys).intersection(finished))
                if len(task.finished) == len(keys):
                    continue
            yield task._replace(number=next(numbers))


def _tasks_of_pass(setup: RunSetup, editor_pass: EditorPass, index: int, workers: int) -> Iterator[Task]:
    mode = editor_pass.mode
    if mode.kind == "sequential":
        yield Task(0, index, None)
    elif mode.kind == "all":
        yield from (Task(0, index, None, (part, workers)) for part in range(workers))
    else:
        together = CHUNK if mode.kind == "single" and isinstance(editor_pass.editor, BatchSolver) else 1
        stream = setup.groups(editor_pass.setting)
        while portion := list(islice(stream, together)):
            yield Task(0, index, tuple(case for group in portion for case in group.cases()))


def groups_of(task: Task, setup: RunSetup) -> Iterator[Group]:
    """Yield the groups of a task; in mode `all` one with all edits and a share of the cases."""
    editor_pass = setup.share_passes[task.pass_index]
    if task.cases is not None:
        yield from groups(lambda: iter(task.cases or ()), editor_pass.mode)
        return
    for group in setup.groups(editor_pass.setting):
        yield group if task.stride == (0, 1) else group._replace(cases=partial(_every, group, *task.stride))


def _every(group: Group, first: int, step: int) -> Iterator[Case]:
    return islice(group.cases(), first, None, step)


def units_of(task: Task, setup: RunSetup) -> Iterator[Unit]:
    """Yield the units of a task."""
    editor_pass = setup.share_passes[task.pass_index]
    return chain.from_iterable(group.units(editor_pass) for group in groups_of(task, setup))
