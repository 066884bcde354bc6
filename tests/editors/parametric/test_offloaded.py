"""Edits of a model whose weights are kept on disk between passes: the same deltas, and the same model after them."""

import importlib.util
from typing import Any

import pytest
import torch

from emend.agents.llm import load_model
from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY
from emend.editors.parametric.alphaedit import AlphaEdit
from emend.editors.parametric.documents.anyedit import AnyEdit
from emend.editors.parametric.documents.unke import Unke
from emend.editors.parametric.finetune import FineTuning
from emend.editors.parametric.lifelong.grace import Grace
from emend.editors.parametric.lifelong.wise import Wise
from emend.editors.parametric.lora import Lora, QLora
from emend.editors.parametric.memit import Memit
from emend.editors.parametric.rome import Rome
from emend.memory.errors import BadSettings
from tests.editors.writers import editor, log_prob, solve

pytest.importorskip("accelerate")
TRAINED = {"num_steps": 3}
BLOCK = {"layers": [0], "v_num_grad_steps": 3, "optim_num_step": 3, "ex_data_num": 2}
METHODS: list[Any] = [
    pytest.param(Rome, {"v_num_grad_steps": 3}, id="rome"),
    pytest.param(Memit, {"layers": [0, 1], "v_num_grad_steps": 3}, id="memit", marks=pytest.mark.slow),
    pytest.param(AlphaEdit, {"nullspace_threshold": 10.0}, id="alphaedit", marks=pytest.mark.slow),
    pytest.param(FineTuning, TRAINED | {"layers": [0]}, id="ft"),
    pytest.param(FineTuning, TRAINED | {"layers": [0], "batch_size": 1}, id="ft-batches", marks=pytest.mark.slow),
    pytest.param(Unke, BLOCK, id="unke", marks=pytest.mark.slow),
    pytest.param(AnyEdit, BLOCK | {"window_size": 9}, id="anyedit", marks=pytest.mark.slow),
    pytest.param(Lora, TRAINED | {"lora_dropout": 0.1}, id="lora"),
    pytest.param(QLora, TRAINED, id="qlora"),
]

MEMORIES: list[Any] = [
    pytest.param(Grace, {"layers": [0], "n_iter": 5}, id="grace"),
    pytest.param(
        Wise,
        {"layers": [0], "n_iter": 5, "edit_lr": 0.05, "act_ratio": 1e-3, "context_template_length_params": [[3, 1]]},
        id="wise",
    ),
]


def build(method: Any, model: Any, settings: dict[str, Any]) -> Any:
    if issubclass(method, (Lora, FineTuning, Unke)):
        return method(EditorContext(model=model, settings=settings))
    return editor(method, model, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_an_edit_is_that_of_the_loaded_model_and_leaves_no_trace(random_folder, method, settings):
    if method is QLora and importlib.util.find_spec("bitsandbytes") is None:
        pytest.skip("bitsandbytes is not installed: pip install 'emend-eval[qlora]'")
    folder = random_folder(window=96, intermediate_size=128)
    loaded = load_model(f"hf:{folder}", device="cpu", max_new_tokens=4)
    offloaded: Any = load_model(f"hf:{folder}", device_map={"": "disk"}, max_new_tokens=4)
    before = log_prob(offloaded)
    assert before == log_prob(loaded)
    one, other = (build(method, model, settings) for model in (loaded, offloaded))
    deltas, others = (solve(made, [CAPITAL, CURRENCY]) for made in (one, other))
    assert deltas.keys() == others.keys()
    assert all(torch.equal(delta, others[name]) for name, delta in deltas.items())
    with one.edit([CAPITAL]), other.edit([CAPITAL]):
        assert log_prob(offloaded) == log_prob(loaded) != before
    assert log_prob(offloaded) == before
    assert sum(not weight.is_meta for weight in offloaded.lm.model.parameters()) == len(deltas)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "settings"), MEMORIES)
def test_a_memory_beside_an_offloaded_layer_is_that_of_the_loaded_model(random_folder, method, settings):
    folder = random_folder(window=96, intermediate_size=128)
    loaded = load_model(f"hf:{folder}", device="cpu", max_new_tokens=4)
    offloaded: Any = load_model(f"hf:{folder}", device_map={"": "disk"}, max_new_tokens=4)
    before = log_prob(offloaded)
    one, other = (method(EditorContext(model, settings=settings)) for model in (loaded, offloaded))
    with one.edit([CAPITAL]), other.edit([CAPITAL]):
        assert log_prob(offloaded) == log_prob(loaded) > before
    assert log_prob(offloaded) == before


def test_training_every_offloaded_weight_is_refused(random_folder):
    model = load_model(f"hf:{random_folder(window=96)}", device_map={"": "disk"})
    with pytest.raises(BadSettings, match=r"offloaded: use --set ft.parameters=down_projection"):
        FineTuning(EditorContext(model=model, settings={"parameters": "all"}))
