"""Tasks of lm-evaluation-harness on a local model in this process, by the harness's own code."""

import copy
import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

from emend.agents.local.causal_lm import CausalLM
from emend.evals.run.side_effects.ability_score import LM_EVAL, AbilityScore
from emend.memory.distribution import install_command
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.registry import nearest, require_trusted

BATCH = 8
"""Rows of a batch of the harness."""
FILES = (".yaml", ".yml")


class LmEvalTask:
    """A task, or a group of them: registered with the harness, or a YAML file in its form.

    Raises:
        MissingExtra: the harness is not installed.
        BadSettings: no such task, a file that the user has not named, or a task that cannot be loaded.
    """

    def __init__(self, task: str) -> None:
        self.name = f"{LM_EVAL}:{task}"
        is_file = task.endswith(FILES)
        if is_file:
            require_trusted(self.name, "task")  # a task's file may name Python functions
        try:
            from lm_eval.tasks import TaskManager
        except ImportError as error:
            remedy = install_command("ability")
            raise MissingExtra(f"--ability {self.name} needs lm-evaluation-harness: {remedy}") from error
        manager = TaskManager(include_defaults=not is_file)
        if not is_file and task not in manager.all_tasks:
            raise BadSettings(f"--ability {self.name}: no such task: {nearest(task, manager.all_tasks[:])}")
        try:
            with _quiet():
                self._tasks = list(manager.load([str(Path(task).absolute()) if is_file else task])["tasks"].values())
        except Exception as error:  # whatever a task's file or its data set raises
            raise BadSettings(
                f"--ability {self.name} cannot be loaded: {type(error).__name__}: {error}. Its data must be in files "
                "or in the cache of the package datasets where there is no network."
            ) from error

    def measure(self, model: Any) -> list[AbilityScore]:
        """The harness's scores of each task by each of its metrics."""
        lm = getattr(model, "lm", None)
        if not isinstance(lm, CausalLM):
            return [AbilityScore(task=self.name, unscored=f"{type(model).__name__} is not a local model")]
        try:
            with lm.lock, _quiet():
                results = self._evaluate(lm)
        except Exception as error:  # noqa: BLE001  whatever the harness raises under a broken model
            return [AbilityScore(task=self.name, unscored=f"{type(error).__name__}: {error}")]
        return [score for task, values in results["results"].items() for score in _scores(task, values, results)] or [
            AbilityScore(task=self.name, unscored="it has no metric that is a share of its questions")
        ]

    def _evaluate(self, lm: CausalLM) -> Any:
        from lm_eval import simple_evaluate
        from lm_eval.models.huggingface import HFLM

        # A copy, since the harness gives a tokenizer a token for padding.
        wrapped = HFLM(pretrained=lm.model, tokenizer=copy.deepcopy(lm.tokenizer), batch_size=BATCH)
        # Without seeds, which would be those of the whole process; examples of a prompt have a seed of their own.
        seeds = dict.fromkeys(("random_seed", "numpy_random_seed", "torch_random_seed"))
        return simple_evaluate(wrapped, tasks=self._tasks, bootstrap_iters=0, **seeds)


def _scores(task: str, values: dict[str, Any], results: Any) -> Iterator[AbilityScore]:
    """A score for each metric of a task that is the mean of its questions' shares; perplexities, say, are none."""
    for key, value in values.items():
        metric, _, reader = key.partition(",")
        samples = [each for each in results["samples"].get(task, ()) if each["filter"] == reader]
        scores = [each.get(metric) for each in samples]
        if scores and all(isinstance(score, float | int) and 0 <= score <= 1 for score in scores):
            if abs(sum(scores) / len(scores) - value) < 1e-9:
                name = metric if reader == "none" else key
                shares = tuple(map(float, scores))
                yield AbilityScore(task=f"{LM_EVAL}:{task}", metric=name, score=float(value), scores=shares)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the harness's log and progress bars."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
