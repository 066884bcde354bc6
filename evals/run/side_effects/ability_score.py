"""Scores of a model on tasks that no edit is about, and the protocol of such tasks."""

from typing import Any, Protocol

from emend.memory.edit import FrozenModel

BUILT_IN, LM_EVAL = "built_in", "lm_eval"


class AbilityScore(FrozenModel):
    """A task's score by one metric, and that of each of its questions, whose mean it is; or why there is none.

    All are shares, from 0 to 1.
    """

    task: str
    metric: str = "acc"
    score: float | None = None
    scores: tuple[float, ...] = ()
    unscored: str = ""


class AbilityTask(Protocol):
    """A task on which an edited model is compared with the unedited one."""

    def measure(self, model: Any) -> list[AbilityScore]:
        """The scores of a model as it is now, by metric; a task that fails has one that says why."""
        ...
