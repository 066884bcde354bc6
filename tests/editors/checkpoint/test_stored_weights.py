"""Weights that cannot be added to are refused, and an editor that fails leaves no hook behind."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL
from emend.editors.numerics.architectures import ARCHITECTURES
from emend.editors.numerics.locate import locate
from emend.editors.numerics.low_rank import capture_keys
from emend.editors.numerics.suffix_forward import PromptSplit, SuffixForward
from emend.editors.registry import EDITORS
from emend.memory.errors import BadSettings

LLAMA = ARCHITECTURES["llama"]
METHODS = ("ft", "lora", "rome", "memit", "alphaedit")


def hooks(model):
    modules = model.lm.model.modules()
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in modules)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes in 4 bits"),
        ({"quant_method": "gptq", "bits": 3}, "gptq in 3 bits"),
        ({"quant_method": "fp8"}, "fp8 .quantization_config"),
    ],
)
def test_a_model_stored_quantised_is_refused_with_the_way_out(random_model, monkeypatch, method, told, said):
    model = random_model()
    monkeypatch.setattr(model.lm.model.config, "quantization_config", told, raising=False)
    with pytest.raises(BadSettings, match=rf"'{method}' changes weights.*{said}.*model.dequantize\(.*edit that copy"):
        EDITORS.load(method)(EditorContext(model=model))


def test_integer_weights_are_refused(own_model):
    down = own_model.lm.model.model.layers[1].mlp.down_proj
    down.weight = nn.Parameter(down.weight.to(torch.int8), requires_grad=False)
    with pytest.raises(BadSettings, match="'model.layers.1.mlp.down_proj.weight' is int8. Save a dequantised"):
        EDITORS.load("ft")(EditorContext(model=own_model))


def test_weights_on_several_devices_are_refused(own_model):
    own_model.lm.model.model.layers[1]._hf_hook = SimpleNamespace(execution_device="cuda:0")
    with pytest.raises(BadSettings, match="'rome' changes weights on one device.*over several: set model.device"):
        EDITORS.load("rome")(EditorContext(model=own_model))


def test_a_model_saved_in_four_bits_is_refused_and_dequantised_it_is_edited(random_folder, tmp_path):
    pytest.importorskip("bitsandbytes")
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

    from tests.fakes import read_model

    folder, kept = random_folder(window=96), BitsAndBytesConfig(load_in_4bit=True)
    inner = AutoModelForCausalLM.from_pretrained(folder, quantization_config=kept)
    for name in ("stored", "plain"):
        inner.save_pretrained(tmp_path / name)
        AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / name)
        inner = inner.dequantize(dtype=torch.bfloat16) if name == "stored" else inner
    stored, plain = read_model(tmp_path / "stored", 4), read_model(tmp_path / "plain", 4)
    with pytest.raises(BadSettings, match="quantised: bitsandbytes in 4 bits"):
        EDITORS.load("ft")(EditorContext(model=stored))
    with EDITORS.load("ft")(EditorContext(model=plain, settings={"layers": [0], "num_steps": 2})).edit([CAPITAL]):
        pass
    stored.close(), plain.close()


@pytest.mark.parametrize("lacking", ["down_proj", "layer"])
def test_a_path_that_fails_leaves_no_hook(own_model, lacking):
    lm, layers = own_model.lm, own_model.lm.model.model.layers
    rows = locate(lm, CAPITAL, ("",))
    if lacking == "down_proj":
        del layers[0].mlp.down_proj
    else:
        del layers[1]
    with pytest.raises(AttributeError):
        capture_keys(lm, LLAMA, rows, 0, 1)
    with pytest.raises(AttributeError):
        SuffixForward(lm, LLAMA, [PromptSplit((), rows[0].ids)], 0)
    assert hooks(own_model) == 0
