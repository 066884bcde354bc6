"""Models whose weights are kept in main memory or on disk between passes."""

from typing import Any

import pytest
import torch

from emend.agents.llm import load_model
from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.offload import computing_devices, is_offloaded, keep_loaded
from emend.memory.errors import BadSettings, ModelError

accelerate = pytest.importorskip("accelerate")

PAIRS = [("The capital of France is", "Paris"), ("The capital of France is", "Rome"), ("said ", "12")]
PARTLY = {
    "model.embed_tokens": "disk",
    "model.layers.0": "cpu",
    "model.layers.1": "disk",
    "model.norm": "cpu",
    "model.rotary_emb": "cpu",
    "lm_head": "disk",
}


def numbers(lm):
    prompts = [prompt for prompt, _ in PAIRS]
    return lm.log_probs(PAIRS), lm.generate(prompts, 8, ()), lm.generate(["Paris is"], 3)


@pytest.mark.slow
@pytest.mark.parametrize("device_map", [PARTLY, {"": "disk"}, "auto"])
def test_a_mapped_model_gives_the_same_numbers(random_folder, random_lm, device_map):
    model: Any = load_model(f"hf:{random_folder()}", device_map=device_map)
    mapped = model.lm
    assert is_offloaded(mapped.model) == (device_map != "auto")
    assert mapped.device == torch.device("cpu") and computing_devices(mapped.model) == {mapped.device}
    assert numbers(mapped) == numbers(random_lm())


@pytest.mark.slow
def test_main_memory_behind_a_computing_device_gives_the_same_numbers(random_folder, random_lm):
    """The hooks are those of a GPU with layers in main memory; here the CPU computes."""
    lm = CausalLM(random_folder(), device="cpu")
    accelerate.cpu_offload(lm.model, execution_device=torch.device("cpu"))
    assert all(weight.is_meta for weight in lm.model.parameters())
    assert numbers(lm) == numbers(random_lm())


def test_a_loaded_module_can_be_changed_and_the_others_stay_offloaded(random_folder, random_lm):
    lm, path = CausalLM(random_folder(), device_map=PARTLY), "model.layers.1.mlp.down_proj"
    before = lm.log_probs(PAIRS)
    keep_loaded(lm.model, [path])
    (weight,) = lm.model.get_submodule(path).parameters()
    assert torch.equal(weight, random_lm().model.get_parameter(f"{path}.weight"))
    assert lm.model.get_parameter("model.layers.1.mlp.up_proj.weight").is_meta
    with torch.no_grad():
        weight.add_(1)
    assert lm.log_probs(PAIRS) != before
    with torch.no_grad():
        weight.copy_(random_lm().model.get_parameter(f"{path}.weight"))
    assert lm.log_probs(PAIRS) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device_map": "spread"}, "'spread': give auto, balanced"),
        ({"device_map": {}}, "give a device for every module"),
        ({"device_map": {"": "cpu", "lm_head": "disk"}}, "give a device for every module"),
        ({"device_map": "auto", "device": "cpu"}, "model.device=cpu conflicts with model.device_map"),
        ({"device_map": 3}, "setting 'device_map' of model"),
    ],
)
def test_a_wrong_map_is_refused(random_folder, settings, message):
    with pytest.raises(BadSettings, match=message):
        load_model(f"hf:{random_folder()}", **settings)


def test_a_map_without_some_modules_is_an_error(random_folder):
    with pytest.raises(ModelError, match="any device for.* model.device_map must give each of its modules a device"):
        CausalLM(random_folder(), device_map={"model.layers": "disk"})
