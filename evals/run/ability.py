"""General ability of a model: tasks that no edit is about, built in or by lm-evaluation-harness in this process."""

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


QUESTIONS = Path(__file__).parent / "built_in_questions.toml"


class ChoiceQuestion(FrozenModel):
    """A prompt and its continuations, of which the first is right."""

    prompt: str = ""
    choices: tuple[str, ...]


class BuiltInTask:
    """Questions with two to four choices: right where the first has the highest probability, as in lm_eval's `acc`.

    Args:
        questions: those of `built_in_questions.toml`, or others.
    """

    def __init__(self, questions: Sequence[ChoiceQuestion]) -> None:
        self._questions = questions

    def measure(self, model: Any) -> list[AbilityScore]:
        """The share of right choices."""
        plain = model.plain() if isinstance(model, TextModel) else model
        if not isinstance(plain, ScoringModel):
            return [AbilityScore(task=BUILT_IN, unscored=f"{type(model).__name__} has no log-probabilities")]
        try:
            likelihoods = [plain.score(question.prompt, question.choices).log_probs for question in self._questions]
        except EmendError as error:
            return [AbilityScore(task=BUILT_IN, unscored=str(error))]
        if not all(isfinite(value) for values in likelihoods for value in values):
            return [AbilityScore(task=BUILT_IN, unscored="the edited model's log-probabilities are not finite")]
        scores = tuple(float(first > max(others)) for first, *others in likelihoods)
        return [AbilityScore(task=BUILT_IN, score=sum(scores) / len(scores), scores=scores)]


def built_in_questions() -> list[ChoiceQuestion]:
    """Questions on grammar, arithmetic, words, common sense and short texts."""
    kinds = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))
    return [ChoiceQuestion(**question) for questions in kinds.values() for question in questions]


def load_abilities(names: Sequence[str], edits_weights: bool = True) -> tuple[AbilityTask, ...]:
    """The tasks of these names: `built_in`, or `lm_eval:` with a registered task or a task's YAML file.

    Raises:
        BadSettings: an unknown name, a file that the user has not named, or no editor changes weights.
        MissingExtra: lm-evaluation-harness is not installed.
    """
    if names and not edits_weights:
        raise BadSettings(
            f"--ability {names[0]} is measured while an editor changes weights, and none of these does: add one, such "
            "as ft, or leave it out."
        )
    return tuple(task for name in dict.fromkeys(names) for task in _load(name))


def _load(name: str) -> Sequence[AbilityTask]:
    source, _, task = name.partition(":")
    if name == BUILT_IN:
        return [BuiltInTask(built_in_questions())]
    if source == LM_EVAL and task:
        return [LmEvalTask(task)]
    raise BadSettings(f"--ability '{name}': {nearest(name, [BUILT_IN, f'{LM_EVAL}:TASK'])}")


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
        from emend.agents.local.causal_lm import CausalLM  # lazily: a run over an API imports no torch

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

    def _evaluate(self, lm: "CausalLM") -> Any:
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
