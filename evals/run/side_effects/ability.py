"""Tasks that measure the general ability of a model, by name."""

from collections.abc import Sequence

from emend.evals.run.side_effects.ability_score import BUILT_IN, LM_EVAL, AbilityTask
from emend.evals.run.side_effects.built_in_task import BuiltInTask, built_in_questions
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest


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
        from emend.evals.run.side_effects.lm_eval_task import LmEvalTask  # lazily: an extra, and slow to import

        return [LmEvalTask(task)]
    raise BadSettings(f"--ability '{name}': {nearest(name, [BUILT_IN, f'{LM_EVAL}:TASK'])}")
