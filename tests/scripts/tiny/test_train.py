"""The training script: interrupted and resumed, it ends where an undisturbed run ends."""

import shutil
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from emend.agents.tiny.world import World
from scripts.tiny.reasoning import TrainingCorpus
from scripts.tiny.train import Schedule, Trainer, batches

pytestmark = pytest.mark.slow

PLAN = Schedule(seed=1, steps=4, block=2, positions=256, warm_up=2, drill=2, examples=2)


def trained(out: Path, tokenizer: Path, stop_after: int | None = None) -> Trainer:
    shutil.copytree(tokenizer, out, dirs_exist_ok=True)
    trainer = Trainer(out, PLAN)
    trainer.resume()
    if stop_after is not None:
        trainer.run_to(stop_after)
        return trainer
    trainer.run()
    return trainer


@pytest.mark.slow
def test_a_resumed_run_ends_with_the_weights_of_an_undisturbed_one(tmp_path: Path, tokenizer_folder: Path) -> None:
    whole = trained(tmp_path / "whole", tokenizer_folder)
    trained(tmp_path / "parts", tokenizer_folder, stop_after=2)
    trained(tmp_path / "parts", tokenizer_folder, stop_after=4)
    trained(tmp_path / "parts", tokenizer_folder, stop_after=6)
    parts = trained(tmp_path / "parts", tokenizer_folder)
    assert parts.step == whole.step == 8
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, parts.model.state_dict()[name]), name
    assert (tmp_path / "parts" / "model.safetensors").exists()


def test_the_rate_rises_stays_and_decays_to_zero() -> None:
    plan = Schedule(steps=1000, warm_up=100, decay_share=0.4)
    assert plan.rate(0) == 0.01
    assert plan.rate(300) == 1.0
    assert plan.rate(800) < plan.rate(700) < 1.0
    assert plan.rate(999) < 0.01


@pytest.mark.slow
def test_the_last_part_done_alone_ends_where_the_whole_training_does(tmp_path: Path, tokenizer_folder: Path) -> None:
    drilled = trained(tmp_path / "drilled", tokenizer_folder, stop_after=4)
    drilled.run_to(6)
    drilled.model.bfloat16().save_pretrained(tmp_path / "drilled")
    alone = Trainer(tmp_path / "alone", PLAN)
    alone.take(tmp_path / "drilled")
    alone.run()
    whole = trained(tmp_path / "whole", tokenizer_folder)
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, alone.model.state_dict()[name]), name


def test_the_last_part_learns_no_prompts(tokenizer_folder: Path) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tokenizer_folder)
    learnt = {}
    for part, end in PLAN.ends.items():
        block = end // PLAN.block - 1
        batch = next(batches(TrainingCorpus(World(), 1, part=part), tokenizer, PLAN, block))
        learnt[part] = set(batch.weights.tolist())
    assert PLAN.prompt_weight in learnt["whole"] & learnt["drill"]
    assert PLAN.prompt_weight not in learnt["examples"]


def test_the_drill_restarts_at_a_lower_rate_and_decays_to_zero() -> None:
    plan = Schedule(steps=1000, warm_up=100, drill=500, drill_rate=0.3, examples=200, examples_rate=0.1)
    assert plan.rate(1000) == pytest.approx(0.003)
    assert 0.2 < plan.rate(1120) < 0.3
    assert plan.rate(1400) == pytest.approx(0.06)
    assert plan.rate(1499) < 0.001
    assert plan.rate(1500) == pytest.approx(0.001)
    assert plan.rate(1700) == 0.0
