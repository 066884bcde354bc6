"""General ability before and under edits of weights: built-in questions, lines, rows, tables and refusals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emend.agents.scoring import TargetScores
from emend.evals.cli.trust import names_of_run
from emend.evals.config.mode import NO_CHECKPOINTS
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.ability import (
    AbilityScore,
    BuiltInTask,
    ChoiceQuestion,
    built_in_questions,
    load_abilities,
)
from emend.evals.log.lines import COSTS, PERPLEXITY, PERPLEXITY_BEFORE
from emend.evals.log.records import read_lines
from emend.evals.results.aggregate.rows import report
from emend.evals.results.aggregate.side_effects import abilities_of, perplexities_of
from emend.evals.show.report.secondary import ability_tables
from emend.memory.errors import BadSettings, ModelError
from tests.evals import toy_runs
from tests.evals.evaluate.test_perplexity import HARMING, STACKING, Fragile
from tests.evals.toys import EDITOR, ScriptedModel


class Forgetful(Fragile):
    """Prefers the right choice of a question, until as many edits stand as the prompt has letters."""

    def score(self, prompt: str, targets: Sequence[str]) -> TargetScores:
        length = len(prompt) or len(targets[0])
        ranks = range(len(targets)) if self.harm[0] < length else range(len(targets), 0, -1)
        return TargetScores(log_probs=tuple(-1.0 - rank for rank in ranks), target_tokens=(1,) * len(targets))


def go(folder: Path, model: Any = None, **changed: Any) -> None:
    plan = {"editors": (HARMING,), "benchmark_options": {"cases": "3"}, "ability": ("built_in",)}
    toy_runs.go(folder, model or Forgetful(), **plan | {"perplexity_text": "none"} | changed)


def measured(folder: Path, act: str) -> list[Any]:
    return [line.get("ability", []) for line in read_lines(folder, COSTS) if line["act"] == act]


def test_a_choice_is_right_where_the_first_is_the_most_likely() -> None:
    class Fixed(ScriptedModel):
        def score(self, prompt: str, targets: Sequence[str]) -> TargetScores:
            return TargetScores(log_probs=tuple({"b": -1.0}.get(target, -2.0) for target in targets))

    questions = [ChoiceQuestion(choices=choices) for choices in (("b", "a"), ("a", "b"), ("a", "c"), ("b", "c", "d"))]
    (score,) = BuiltInTask(questions).measure(Fixed())
    assert score == AbilityScore(task="built_in", score=0.5, scores=(1.0, 0.0, 0.0, 1.0))  # a tie is no choice
    assert BuiltInTask(questions).measure(object())[0].unscored == "object has no log-probabilities"


def test_the_built_in_questions_have_distinct_choices_and_each_occurs_once() -> None:
    questions = built_in_questions()
    assert len(questions) == 116 and len({(each.prompt, each.choices) for each in questions}) == 116
    assert all(len(set(each.choices)) == len(each.choices) >= 2 for each in questions)


def test_the_unedited_model_is_measured_once_and_each_set_of_edits_beside_it(tmp_path: Path) -> None:
    go(tmp_path / "run", editors=(HARMING, EDITOR))
    ((before,),) = measured(tmp_path / "run", PERPLEXITY_BEFORE)
    assert before["score"] == 1.0 and len(before["scores"]) == 116
    (row,) = abilities_of(tmp_path / "run", [HARMING, EDITOR])
    assert (row.task, row.metric, row.n, row.before.mean, row.mean) == ("built_in", "acc", 116, 100, 100)
    assert len(measured(tmp_path / "run", PERPLEXITY)) == 3
    assert not perplexities_of(tmp_path / "run", [HARMING], NO_CHECKPOINTS)
    go(tmp_path / "run", editors=(HARMING, EDITOR))
    assert len(measured(tmp_path / "run", PERPLEXITY_BEFORE)) == 1


@pytest.mark.slow
def test_a_loss_is_shown_with_the_paired_difference(tmp_path: Path) -> None:
    class Ruined(Forgetful):
        def score(self, prompt: str, targets: Sequence[str]) -> TargetScores:
            ranks = range(len(targets), 0, -1) if self.harm[0] and len(prompt) % 2 else range(len(targets))
            return TargetScores(log_probs=tuple(-1.0 - rank for rank in ranks), target_tokens=(1,) * len(targets))

    go(tmp_path / "run", Ruined(), mode="all")
    (row,) = report(tmp_path / "run").ability
    lost = sum(len(each.prompt) % 2 for each in built_in_questions()) / 116 * 100
    assert row.change.difference == pytest.approx(-lost) and row.mean == pytest.approx(100 - lost)
    assert row.change.low is not None and row.change.high is not None and row.change.high < 0
    ((title, table),) = ability_tables([row])
    with (console := Console(width=120)).capture() as screen:
        console.print(table)
    assert "built_in" in screen.get() and f"-{lost:.1f}" in screen.get()


def test_a_sequence_is_measured_at_its_checkpoints(tmp_path: Path) -> None:
    plan = {"editors": (STACKING,), "mode": "sequential", "benchmark_options": {"cases": "5"}}
    go(tmp_path / "run", **plan, reevaluate_at="2,end")
    assert [row.standing for row in abilities_of(tmp_path / "run", [STACKING])] == [2, 5]
    go(tmp_path / "none", **plan, reevaluate_at="none")
    assert not abilities_of(tmp_path / "none", [STACKING])


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_broken_model_is_unscored_and_not_wrong(value: float) -> None:
    class Broken(ScriptedModel):
        def score(self, prompt: str, targets: Sequence[str]) -> TargetScores:
            return TargetScores(log_probs=(-1.0, *[value] * (len(targets) - 1)))

    (score,) = BuiltInTask([ChoiceQuestion(choices=("a", "b"))]).measure(Broken())
    assert score.score is None and "not finite" in score.unscored


def test_a_task_that_fails_is_unscored_with_its_reason(tmp_path: Path) -> None:
    class Mute(Fragile):
        def score(self, prompt: str, targets: Sequence[str]) -> TargetScores:
            if "Land" in prompt:
                return super().score(prompt, targets)
            raise ModelError("no scores today")

    go(tmp_path / "run", Mute(), mode="all", benchmark_options={"cases": "1"}, fail_on_error="false")
    (row,) = abilities_of(tmp_path / "run", [HARMING])
    assert (row.mean, row.unscored, row.reason) == (None, 1, "no scores today")


def test_it_is_refused_where_no_editor_changes_weights(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="--ability built_in.*ft"):
        go(tmp_path / "run", editors=(EDITOR,))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name, hint", [("built-in", "built_in"), ("mmlu", "lm_eval:TASK"), ("lm_eval:", "lm_eval")])
def test_an_unknown_task_is_refused_with_the_names(name: str, hint: str) -> None:
    with pytest.raises(BadSettings, match=hint):
        load_abilities([name])


def test_a_task_s_file_is_code_that_a_run_folder_may_not_name(tmp_path: Path) -> None:
    name = f"lm_eval:{tmp_path}/task.yaml"
    config = RunConfig(benchmark="tinyworld", editors=("ft",), model="tiny", ability=(name, "built_in"))
    assert names_of_run(config).names == [name]
    with pytest.raises(BadSettings, match="--trust"):
        load_abilities([name])
