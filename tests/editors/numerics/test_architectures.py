import pytest

from emend.editors.numerics.architectures import (
    ARCHITECTURES,
    NAMES,
    check_width,
    down_projection,
    find_architecture,
    input_first,
    layers_with,
    linear_paths,
)
from emend.memory.errors import BadSettings
from tests.params import first_quick


@pytest.mark.parametrize("kind", first_quick(sorted(set(ARCHITECTURES) - {"gemma3"}), 4))
def test_the_table_leads_to_the_matrix_that_ends_the_mlp(kind):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind))
    text = model.config.get_text_config()
    find_architecture(model)
    module = model.get_submodule(down_projection(model, -1))
    inputs, outputs = module.weight.shape if input_first(module) else module.weight.shape[::-1]
    assert (outputs, inputs > outputs) == (text.hidden_size, True)
    assert input_first(module) == (kind == "gpt2")
    assert f".{text.num_hidden_layers - 1}." in down_projection(model, -1)


def test_a_gemma3_with_eyes_keeps_its_text_layers_further_down():
    import torch
    from transformers import AutoModelForCausalLM, Gemma3Config

    small = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
    config = Gemma3Config(text_config=small | {"num_key_value_heads": 2, "vocab_size": 300}, vision_config=small)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert model.get_submodule(down_projection(model, 0)).out_features == 32


def test_layers_count_from_either_end(random_model):
    model = random_model().lm.model
    assert down_projection(model, -1) == down_projection(model, 1) == "model.layers.1.mlp.down_proj"


@pytest.mark.parametrize("layer", [2, -3])
def test_a_layer_that_is_not_there_is_refused_with_those_that_are(random_model, layer):
    with pytest.raises(BadSettings, match=f"layer {layer} does not exist in a model of 2 layers: choose -2 to 1"):
        down_projection(random_model().lm.model, layer)


def test_an_unknown_architecture_is_refused_with_the_names_to_choose_from(random_model, monkeypatch):
    model = random_model("gpt2").lm.model
    monkeypatch.setattr(model.config, "model_type", "unheard_of")
    with pytest.raises(BadSettings, match=r"'unheard_of' is not known.*\[architecture\].*transformer.h.{}.mlp.c_proj"):
        down_projection(model, 0)
    with pytest.raises(BadSettings, match="norm, head; and adds = false where a norm or a factor follows"):
        find_architecture(model)
    given = {name: getattr(ARCHITECTURES["gpt2"], name) for name in NAMES}
    assert down_projection(model, 1, given) == "transformer.h.1.mlp.c_proj"


def test_only_the_paths_that_are_used_need_a_name(random_model, monkeypatch):
    model = random_model("gpt2").lm.model
    monkeypatch.setattr(model.config, "model_type", "unheard_of")
    assert down_projection(model, 1, {"down_projection": "transformer.h.{}.mlp.c_proj"}) == "transformer.h.1.mlp.c_proj"
    given = {"query": "transformer.h.{}.attn.c_attn"}
    assert find_architecture(model, given, ("query",)).of_layer(0, "query") == "transformer.h.0.attn.c_attn"
    with pytest.raises(BadSettings, match="lacks: value"):
        find_architecture(model, given, ("query", "value"))


@pytest.mark.parametrize("path", ["model.layers.{}.mlp.down", "model.layer.{}.mlp.down_proj"])
def test_a_path_that_leads_nowhere_is_refused_with_those_that_lead_somewhere(random_model, path):
    with pytest.raises(BadSettings, match="model.layers.{}.mlp.down_proj"):
        down_projection(random_model().lm.model, 0, {"down_projection": path})


@pytest.mark.parametrize(
    ("kind", "named"),
    [("mixtral", "num_local_experts"), ("qwen3_moe", "num_experts"), ("deepseek_v3", "n_routed_experts")],
)
def test_a_mixture_of_experts_is_refused_with_the_editors_that_work(kind, named):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    small = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 48, "vocab_size": 300, named: 4}
    config = AutoConfig.for_model(kind, **small, moe_intermediate_size=16, first_k_dense_replace=0, head_dim=16)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    said = "MLPs are 4 experts each, to which ft .*, rome, r_rome, memit and alphaedit cannot write: use lora"
    for given in ({}, {"down_projection": "model.layers.{}.mlp.experts"}):
        with pytest.raises(BadSettings, match=said):
            down_projection(model, 0, given)
    with pytest.raises(BadSettings) as raised:
        find_architecture(model, {}, ("query", "value"))
    assert "experts each" not in str(raised.value)


def test_linear_paths_name_each_kind_of_matrix_once(random_model):
    paths = linear_paths(random_model("gpt2").lm.model)
    assert "transformer.h.{}.mlp.c_proj" in paths and len(paths) == len(set(paths))


def test_paths_are_looked_at_in_the_layers_that_are_named_else_in_any(own_model):
    inner = own_model.lm.model
    inner.model.layers[0].self_attn.q_proj = None
    assert layers_with(inner, "query", ARCHITECTURES["llama"].query) == [1]
    for layers in ((1,), None):
        assert find_architecture(inner, layers=layers) == ARCHITECTURES["llama"]
    with pytest.raises(BadSettings, match=r"no such module in layer 0. Choose among the layers that have it \(1\)"):
        find_architecture(inner, layers=(1, 0))
    assert find_architecture(inner, needed=("norm", "value"), layers=(0, 1)) == ARCHITECTURES["llama"]


def test_the_width_is_looked_at_in_the_layers_that_are_written(own_model):
    import torch

    inner = own_model.lm.model
    inner.model.layers[1].mlp.down_proj = torch.nn.Linear(64, 48)
    check_width(inner, ARCHITECTURES["llama"], [0])
    with pytest.raises(BadSettings, match="'model.layers.1.mlp.down_proj' as 'down_projection' gives 48 numbers"):
        check_width(inner, ARCHITECTURES["llama"], [0, 1])
