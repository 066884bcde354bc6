"""Time of runs of local models: foreseen from sizes and speed, and replaced by what was measured."""

import json
import re
from pathlib import Path

import pytest

from emend.editors.device_speed import DeviceSpeed, device_speed
from emend.editors.edit_estimate import DECODE_COST, LAST_LAYERS, STEPS_SHARE, VALUE_SEARCH_SHARE
from emend.evals.config.run_config import RunConfig
from emend.evals.log.lines import COSTS
from emend.evals.papers.reproduce.estimate import estimate
from emend.evals.papers.reproduce.execute import RunOutcome
from emend.evals.papers.reproduce.recipe import Recipe, RecipeRun
from emend.evals.papers.show.estimate import estimate_lines
from emend.evals.results.dry_run import price
from emend.evals.results.dry_run.duration import BUSY, local_seconds
from emend.evals.results.dry_run.estimate import EstimatedRow
from emend.evals.results.dry_run.local_model import parameters_of
from tests.evals.toy_runs import config

COUNTED = "units skipped failed records unscored calls input_tokens output_tokens baseline_calls peak_bytes"
MEASURED = dict.fromkeys(COUNTED.split(), 0) | {"act": "run", "finished": 1, "seconds": 7.0, "cpu_seconds": 7.0}


def rows(editor: str, edits: int) -> list[EstimatedRow]:
    counts = {"calls": 10, "input_tokens": 1_000, "output_tokens": 100, "edits": edits, "edit_tokens": 10 * edits}
    return [EstimatedRow(setting="s", editor=editor, units=10, **counts)]


def test_time_grows_with_edits_steps_and_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    import emend.evals.results.dry_run.duration as module

    monkeypatch.setattr(module, "device_speed", lambda parameters: DeviceSpeed("cpu", 0.001, 0.01))
    of = RunConfig(benchmark="tinyworld", editors=("rome", "ft"), model="hf:nowhere")
    alone, together = 100 * (0.001 + 0.01), 100 * (0.001 + 0.01 / (BUSY * of.concurrency))
    assert local_seconds(of, rows("ft", 0), 1e9) == pytest.approx(1.0 + together)
    trained = STEPS_SHARE * 25 * LAST_LAYERS * (10 + DECODE_COST)  # steps, tokens and a pass's own time
    assert local_seconds(of, rows("ft", 2), 1e9) == pytest.approx(1.0 + alone + 2 * 3 * trained * 0.001)
    whole = of.model_copy(update={"overrides": {"lora": {"num_steps": 25}}})
    assert local_seconds(whole, rows("lora", 2), 1e9) == pytest.approx(1.0 + alone + 2 * 9 * trained * 0.001)
    searched = VALUE_SEARCH_SHARE * 25 * (2 * 10 + 10 * (5 + 10) + 10 * (10 + 10))  # steps, prompts and contexts
    assert local_seconds(of, rows("rome", 2), 1e9) == pytest.approx(1.0 + alone + 2 * 3 * searched * 0.001)
    fewer = of.model_copy(update={"overrides": {"rome": {"v_num_grad_steps": 5}}})
    assert local_seconds(fewer, rows("rome", 2), 1e9) == pytest.approx(1.0 + alone + 2 * 3 * searched / 5 * 0.001)


def test_sizes_are_those_of_the_files_or_of_the_papers() -> None:
    assert 2e6 < (parameters_of("tiny") or 0) < 3e6
    assert parameters_of("hf:EleutherAI/gpt-j-6b") == 6.05e9
    assert parameters_of("hf:nowhere") is None
    small, large = device_speed(1e6), device_speed(1e7)
    assert small.reading < large.reading < large.writing


@pytest.mark.slow
def test_what_was_measured_replaces_what_was_foreseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price, "local_seconds", lambda config, rows, parameters: 100.0 * config.seed)
    first, second = (RecipeRun(config=config(model="tiny", seed=seed)) for seed in (1, 2))
    recipe = Recipe(runs=(first, second))
    none = [RunOutcome(folder=str(tmp_path / str(n))) for n in range(2)]
    assert estimate(recipe, none).seconds == pytest.approx(300.0)
    assert "a rough estimate" in list(estimate_lines(estimate(recipe, none)))[-1]
    units = estimate(recipe, none).runs[0].units
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / COSTS).write_text(json.dumps(MEASURED) + "\n", encoding="utf-8")
    begun = [RunOutcome(folder=str(tmp_path / "0"), units=units, finished=1), none[1]]
    left = estimate(recipe, begun)
    assert left.seconds == pytest.approx(7.0 * (units - 1) + 7.0 * 2 * units)  # the second takes twice as long
    assert left.runs[0].need is not None and left.runs[1].need is not None
    assert left.runs[0].need.total("calls") == pytest.approx(
        left.runs[1].need.total("calls") * (units - 1) / units, abs=2
    )
    assert list(estimate_lines(left))[-1].endswith("at the pace of the 1 units that are finished")


def test_runs_that_lack_the_same_folder_share_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [
        RecipeRun(config=RunConfig(benchmark="akew", editors=("rag",), model="tiny", benchmark_options=options))
        for options in ({}, {"dataset": "counterfact"})
    ]
    outcomes = [RunOutcome(folder=str(tmp_path / str(n))) for n in range(2)]
    lines = list(estimate_lines(estimate(Recipe(runs=tuple(runs)), outcomes)))
    refused = [line for line in lines if line.startswith("cannot be run: ")]
    assert len(refused) == 1
    assert refused[0].startswith("cannot be run: 2 runs: no folder 'data/akew' with the files. Get them with: ")


def test_figures_that_no_run_gives_are_counted_before_the_start() -> None:
    models = dict.fromkeys(("GPT-J", "Mistral 7B", "Llama 3", "GPT-4"), "tiny")
    lines = list(estimate_lines(estimate(Recipe(table="elken:5", models=models), [])))
    assert lines[0].startswith("0 runs, 0 units") and "--judge MODEL" in lines[1]
    assert re.match("no run gives [0-9]+ figures: ", lines[1])
