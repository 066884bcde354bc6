"""How a run is divided into tasks: by its mode and its editor, never by the number of workers."""

from pathlib import Path

import pytest

from emend.evals.evaluate.setup.run_setup import load_setup
from emend.evals.evaluate.tasks import tasks_of
from tests.evals.evaluate.test_batch_ahead import EDITOR as PRESOLVING
from tests.evals.toy_runs import config
from tests.evals.toys import EDITOR, ScriptedModel


@pytest.mark.parametrize(
    ("editor", "mode", "cases"),
    [
        (EDITOR, "single", [1] * 18),
        (PRESOLVING, "single", [16, 2]),
        (PRESOLVING, "batch:4", [4, 4, 4, 4, 2]),
        (EDITOR, "all", [None] * 3),
        (EDITOR, "sequential", [None]),
    ],
)
def test_a_task_is_a_group_or_those_that_are_solved_together(tmp_path: Path, editor, mode, cases) -> None:
    plan = config(editors=(editor,), mode=mode, benchmark_options={"cases": "18"})
    tasks = list(tasks_of(load_setup(plan, tmp_path, ScriptedModel()), (), workers=3))
    assert [task.content.cases and len(task.content.cases) for task in tasks] == cases
    assert [task.number for task in tasks] == list(range(len(cases)))
