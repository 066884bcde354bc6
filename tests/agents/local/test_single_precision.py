"""Models of half precision: replies and probabilities that no batch changes, and weights that stay as they are."""

import os
from pathlib import Path

import pytest
import torch

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.single_precision import SinglePrecision
from tests.fakes import SIZES
from tests.params import QUICK_ARCHITECTURES, mostly_slow

PROMPTS = [f"{'The author of ' * (place % 4)}The Silent River is {word}" for place, word in enumerate("abcdefgh")]
PAIRS = [(prompt, target) for prompt in PROMPTS for target in ("Paris", "the old city of Rome")]


HALVES = [(dtype, architecture) for dtype in ("bfloat16", "float16") for architecture in SIZES]
QUICK = [*(("bfloat16", architecture) for architecture in QUICK_ARCHITECTURES), ("float16", "llama")]


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "architecture"), mostly_slow(HALVES, *QUICK))
def test_a_batch_changes_no_reply_and_no_probability(random_folder, architecture, dtype):
    lm = CausalLM(random_folder(architecture), device="cpu", dtype=dtype)
    assert lm.generate(PROMPTS, 12, ()) == [lm.generate([prompt], 12, ())[0] for prompt in PROMPTS]
    alone = [lm.log_probs([pair])[0].log_prob for pair in PAIRS]
    assert [scored.log_prob for scored in lm.log_probs(PAIRS)] == pytest.approx(alone, abs=1e-4)
    assert {weight.dtype for weight in lm.model.parameters()} == {getattr(torch, dtype)}


@pytest.mark.slow
def test_numbers_are_those_of_a_model_of_single_precision_with_the_same_weights(random_folder, tmp_path):
    half = CausalLM(random_folder("llama"), device="cpu", dtype="bfloat16")
    half.model.save_pretrained(tmp_path)
    half.tokenizer.save_pretrained(tmp_path)
    single = CausalLM(tmp_path, device="cpu", dtype="float32")
    assert half.generate(PROMPTS, 12, ()) == single.generate(PROMPTS, 12, ())
    expected = [scored.log_prob for scored in single.log_probs(PAIRS)]
    assert [scored.log_prob for scored in half.log_probs(PAIRS)] == pytest.approx(expected, abs=1e-4)


def test_the_fingerprint_says_how_replies_are_computed(random_folder):
    models = [CausalLM(random_folder("llama"), device="cpu", dtype="bfloat16", deterministic=x) for x in (True, False)]
    assert [lm.fingerprint.rpartition("/")[2] for lm in models] == ["bfloat16-in-float32", "bfloat16"]


def test_operations_in_place_write_to_their_tensor():
    target = torch.zeros(3, dtype=torch.bfloat16)
    with SinglePrecision():
        target.copy_(torch.ones(3))
        target[0] = torch.tensor(2.0)
    assert target.tolist() == [2, 1, 1] and target.dtype == torch.bfloat16


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["EMEND_SMOLLM2", "EMEND_GEMMA"])
def test_a_real_models_replies_depend_on_no_batch(variable):
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"set {variable} to the folder of such a model")
    lm = CausalLM(Path(folder), device="cpu", dtype="bfloat16")
    prompts = ["The capital of France is", "The author of Hamlet is", "Once upon a time there was a", "Water boils at"]
    assert lm.generate(prompts, 12, ()) == [lm.generate([prompt], 12, ())[0] for prompt in prompts]
