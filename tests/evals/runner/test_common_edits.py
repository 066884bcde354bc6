"""Edits that many tasks share are applied once, and an error of theirs is each task's."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from emend.editors.base import NO_COST
from emend.evals.runner.evaluate import CommonEdits
from emend.evals.runner.units import Group


class Evaluator:
    """Applies a group's edits, or raises; keeps what happens."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.events = error, list[str]()

    @contextmanager
    def apply_group(self, group: Group) -> Iterator[Any]:
        self.events.append("apply")
        if self.error is not None:
            raise self.error
        yield "answerer", NO_COST
        self.events.append("undo")


def apply(common: CommonEdits) -> Any:
    with common.apply() as applied:
        return applied


def test_many_threads_apply_common_edits_once_and_closing_undoes_them() -> None:
    evaluator: Any = Evaluator()
    common = CommonEdits(evaluator, Group((), lambda: ()))
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(apply, [common] * 16)) == [("answerer", NO_COST)] * 16
    assert evaluator.events == ["apply"]
    common.close()
    assert evaluator.events == ["apply", "undo"]


def test_the_error_of_common_edits_is_raised_each_time() -> None:
    evaluator: Any = Evaluator(ValueError("no"))
    common = CommonEdits(evaluator, Group((), lambda: ()))
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            apply(common)
    common.close()
    assert evaluator.events == ["apply"]
