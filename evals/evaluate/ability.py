"""Tasks on a model's general ability, built in or from lm-evaluation-harness."""

import copy
import io
import logging
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from emend.agents.scoring import ScoringModel, TextModel
from emend.memory.distribution import install_command
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, EmendError, MissingExtra
from emend.memory.registry import nearest, require_trusted

if TYPE_CHECKING:
    from emend.agents.local.causal_lm import CausalLM

BUILT_IN, LM_EVAL = "built_in", "lm_eval"


class AbilityScore(FrozenModel):
    """A task's score by one metric, the mean over its questions, or why it is missing.

    All scores are shares from 0 to 1.
    """

    task: str
    metric: str = "acc"
    score: float | None = None
    scores: tuple[float, ...] = ()
    unscored: str = ""


class AbilityTask(Protocol):
    """A task that compares an edited model with the unedited one."""

    def measure(self, model: Any) -> list[AbilityScore]:
        """Return the scores of the model in its current state, one per metric.

        A task that fails returns a score with the reason in `unscored`.
        """
        ...


QUESTIONS = Path(__file__).parent / "built_in_questions.toml"


class ChoiceQuestion(FrozenModel):
    """A prompt with possible continuations, the first of which is right."""

    prompt: str = ""
    choices: tuple[str, ...]


class BuiltInTask:
    """Questions with two to four choices, scored like lm_eval's `acc`.

    An answer is right if the first choice has the highest probability.

    Args:
        questions: questions, such as those of `built_in_questions.toml`.
    """

    def __init__(self, questions: Sequence[ChoiceQuestion]) -> None:
        self._questions = questions

    def measure(self, model: Any) -> list[AbilityScore]:
        """Return the share of right choices."""
        plain = model.plain() if isinstance(model, TextModel) else model
        if not isinstance(plain, ScoringModel):
            return [
                AbilityScore(
                    task=BUILT_IN, unscored=f"{type(model).__name__} has no log-probabilities"
                )
            ]
        try:
            likelihoods = [
                plain.score(question.prompt, question.choices).log_probs
                for question in self._questions
            ]
        except EmendError as error:
            return [AbilityScore(task=BUILT_IN, unscored=str(error))]
        if not all(isfinite(value) for values in likelihoods for value in values):
            return [
                AbilityScore(
                    task=BUILT_IN, unscored="the edited model's log-probabilities are not finite"
                )
            ]
        scores = tuple(float(first > max(others)) for first, *others in likelihoods)
        return [AbilityScore(task=BUILT_IN, score=sum(scores) / len(scores), scores=scores)]


def built_in_questions() -> list[ChoiceQuestion]:
    """Return the built-in questions on grammar, arithmetic, words, common sense and short texts."""
    kinds = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))
    return [ChoiceQuestion(**question) for questions in kinds.values() for question in questions]


def load_abilities(names: Sequence[str], edits_weights: bool = True) -> tuple[AbilityTask, ...]:
    """Load tasks by name: `built_in`, or `lm_eval:` with a registered task or a task's YAML file.

    Raises:
        BadSettings: a name is unknown, a file is not trusted, or no editor changes weights.
        MissingExtra: lm-evaluation-harness is not installed.
    """
    if names and not edits_weights:
        raise BadSettings(
            f"--ability {names[0]} is measured while an editor changes weights, but no chosen "
            "editor does: add one, such as ft, or leave it out."
        )
    return tuple(task for name in dict.fromkeys(names) for task in _load(name))


def _load(name: str) -> Sequence[AbilityTask]:
    source, _, task = name.partition(":")
    if name == BUILT_IN:
        return [BuiltInTask(built_in_questions())]
    if source == LM_EVAL and task:
        return [LmEvalTask(task)]
    raise BadSettings(f"--ability '{name}': {nearest(name, [BUILT_IN, f'{LM_EVAL}:TASK'])}")


# Batch size of the harness.
BATCH = 8
FILES = (".yaml", ".yml")


class LmEvalTask:
    """A task or group of tasks of lm-evaluation-harness, registered or from a YAML file.

    Raises:
        MissingExtra: the harness is not installed.
        BadSettings: there is no such task, its file is not trusted, or it cannot be loaded.
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
            raise MissingExtra(
                f"--ability {self.name} needs lm-evaluation-harness: {remedy}"
            ) from error
        manager = TaskManager(include_defaults=not is_file)
        if not is_file and task not in manager.all_tasks:
            raise BadSettings(
                f"--ability {self.name}: unknown task: {nearest(task, manager.all_tasks[:])}"
            )
        try:
            with _quiet():
                self._tasks = list(
                    manager.load([str(Path(task).absolute()) if is_file else task])[
                        "tasks"
                    ].values()
                )
        except Exception as error:  # a task's file or data set may raise anything
            raise BadSettings(
                f"--ability {self.name} cannot be loaded: {type(error).__name__}: {error}. Its "
                "data must be in files or in the cache of the package datasets where there is no "
                "network."
            ) from error

    def measure(self, model: Any) -> list[AbilityScore]:
        """Return the harness's scores of each task by each of its metrics."""
        # imported here, so that a run over an API does not import torch
        from emend.agents.local.causal_lm import CausalLM

        lm = getattr(model, "lm", None)
        if not isinstance(lm, CausalLM):
            return [
                AbilityScore(
                    task=self.name, unscored=f"{type(model).__name__} is not a local model"
                )
            ]
        try:
            with lm.lock, _quiet():
                results = self._evaluate(lm)
        except Exception as error:  # noqa: BLE001  a broken model may raise anything in the harness
            return [AbilityScore(task=self.name, unscored=f"{type(error).__name__}: {error}")]
        return [
            score
            for task, values in results["results"].items()
            for score in _scores(task, values, results)
        ] or [
            AbilityScore(
                task=self.name, unscored="it has no metric that is a proportion of its questions"
            )
        ]

    def _evaluate(self, lm: "CausalLM") -> Any:
        from lm_eval import simple_evaluate
        from lm_eval.models.huggingface import HFLM

        # A copy, since the harness adds a padding token to the tokenizer.
        wrapped = HFLM(pretrained=lm.model, tokenizer=copy.deepcopy(lm.tokenizer), batch_size=BATCH)
        # No seeds, since they would apply to the whole process; few-shot examples have their own
        # seed.
        seeds = dict.fromkeys(("random_seed", "numpy_random_seed", "torch_random_seed"))
        return simple_evaluate(wrapped, tasks=self._tasks, bootstrap_iters=0, **seeds)


def _scores(task: str, values: dict[str, Any], results: Any) -> Iterator[AbilityScore]:
    """Yield a score for each metric of a task that is the mean of shares over its questions.

    Other metrics, such as perplexities, are skipped.
    """
    for key, value in values.items():
        metric, _, reader = key.partition(",")
        samples = [each for each in results["samples"].get(task, ()) if each["filter"] == reader]
        scores = [each.get(metric) for each in samples]
        if scores and all(isinstance(score, float | int) and 0 <= score <= 1 for score in scores):
            if abs(sum(scores) / len(scores) - value) < 1e-9:
                name = metric if reader == "none" else key
                shares = tuple(map(float, scores))
                yield AbilityScore(
                    task=f"{LM_EVAL}:{task}", metric=name, score=float(value), scores=shares
                )


@contextmanager
def _quiet() -> Iterator[None]:
    """Context without the harness's log and progress bars."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
