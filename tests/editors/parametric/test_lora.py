"""Adapters: trained, converted to a delta, and removed completely."""

import importlib.util
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pytest
import torch

from emend.agents.llm import load_model
from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY, check_same, state_of
from emend.editors.numerics.apply_delta import applied
from emend.editors.parametric import quantised
from emend.editors.parametric.lora import Lora, QLora, adapters
from emend.editors.parametric.quantised import in_four_bit
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings, MissingExtra, ModelError
from tests.editors.writers import log_prob, solve
from tests.fakes import SIZES, read_model, tiny_random_lm
from tests.params import QUICK_ARCHITECTURES, mostly_slow

WIDER: dict[str, dict[str, Any]] = {"llama": {"intermediate_size": 128}, "gpt2": {}}

four_bit = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None,
    reason="bitsandbytes is not installed: pip install 'emend-eval[qlora]'",
)


QUICK = {"num_steps": 10, "lr": 5e-3, "stop_loss": 0.0}


def build(model, method: Any = Lora, **settings):
    return method(EditorContext(model=model, settings=QUICK | settings))


def traces(model) -> tuple[Any, ...]:
    """All of a model that an adapter could leave something in."""
    inner = model.lm.model
    modules = [(name, id(module), module.training) for name, module in inner.named_modules()]
    parameters = [(name, id(value), value.requires_grad, value.grad) for name, value in inner.named_parameters()]
    return modules, parameters, set(vars(inner)), list(inner.config.to_dict().items())


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(sorted(SIZES), *QUICK_ARCHITECTURES))
def test_every_architecture_learns_and_comes_back_without_a_trace(random_model, architecture):
    model = random_model(architecture)
    editor = build(model)
    before, weights, found = log_prob(model, CAPITAL), state_of(editor.context), traces(model)
    with editor.edit([CAPITAL, CURRENCY]):
        assert traces(model) == found, "the adapter is still there"
        changed = [name for name, value in state_of(editor.context).items() if not torch.equal(value, weights[name])]
        assert sorted(changed) == sorted(f"{path}.weight" for path in editor.paths)
        assert log_prob(model, CAPITAL) > before + 1
    check_same(weights, state_of(editor.context), "after the edit")
    assert traces(model) == found and log_prob(model, CAPITAL) == before


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "gpt_neox"])
def test_the_delta_is_what_the_adapter_computed(random_model, architecture):
    """The same logits from the model with trained adapters on, dropout off, as from the weights with the delta."""
    model = random_model(architecture)
    editor = build(model, num_steps=1)
    inner, ids = model.lm.model, torch.tensor([model.lm.encode(CAPITAL.cloze)])
    with torch.no_grad(), adapters(inner, editor.paths, editor.settings) as added:
        torch.manual_seed(1)
        for inward, outward in added.values():
            inward.normal_(), outward.normal_(std=0.1)
        inner.eval()
        adapted = inner(input_ids=ids).logits
        scale = editor.settings.lora_alpha / editor.settings.rank
        products = {path: (outward @ inward) * scale for path, (inward, outward) in added.items()}
    turned = {f"{path}.weight": product.T if architecture == "gpt2" else product for path, product in products.items()}
    with torch.no_grad(), applied(inner, turned):
        assert torch.allclose(inner(input_ids=ids).logits, adapted, rtol=1e-3, atol=1e-3)


def test_adapters_are_gone_when_training_raises(random_model):
    model = random_model()
    weights, found = state_of(EditorContext(model)), traces(model)
    with pytest.raises(ModelError, match="training overflowed at step [12] with a loss of nan"):
        solve(build(model, lr=1e37, lora_alpha=1e9), [CAPITAL])
    check_same(weights, state_of(EditorContext(model)), "after the error")
    assert traces(model) == found


@pytest.mark.slow
def test_dropout_is_on_in_training_and_draws_are_seeded_by_the_edits_alone(random_model):
    model = random_model()
    without, first = solve(build(model, lora_dropout=0.0), [CAPITAL]), solve(build(model), [CAPITAL])
    torch.manual_seed(123)
    state = torch.random.get_rng_state()
    solve(build(model), [CURRENCY])
    assert torch.equal(torch.random.get_rng_state(), state)
    again = solve(build(model), [CAPITAL])
    other = solve(Lora(EditorContext(model=model, settings=QUICK, seed=1)), [CAPITAL])
    for name, delta in first.items():
        assert torch.equal(again[name], delta)
        assert not torch.equal(without[name], delta) and not torch.equal(other[name], delta)


def test_the_shipped_settings_are_the_published_ones_but_for_the_rate_and_layers_and_matrices_can_be_chosen(
    random_model,
):
    settings = Lora(EditorContext(model=random_model())).settings
    assert (settings.rank, settings.lora_alpha, settings.lora_dropout) == (8, 32.0, 0.1)
    assert (settings.lr, settings.num_steps, settings.target_modules) == (1e-3, 70, ("query", "value"))
    editor = build(random_model(), layers=[-1], target_modules=["down_projection", "query"])
    assert editor.paths == ["model.layers.1.mlp.down_proj", "model.layers.1.self_attn.q_proj"]
    with pytest.raises(BadSettings, match="layer 9"):
        build(random_model(), layers=[9])


@pytest.mark.slow
def test_a_document_is_learnt_by_adapters_in_single_precision_too(random_model):
    model, told = random_model(), Edit(form="document", text="Veldania moved its seat of government to Kestrel Bay.")
    before = model.lm.log_probs([("", told.text)])[0].log_prob
    with build(model).edit([told]):
        assert model.lm.log_probs([("", told.text)])[0].log_prob > before + 1
    half: Any = load_model(f"hf:{random_model().lm.folder}", device="cpu", dtype="bfloat16")
    before, weights = log_prob(half, CAPITAL), state_of(EditorContext(half))
    with adapters(half.lm.model, build(half).paths, build(half).settings) as added:
        assert {weight.dtype for pair in added.values() for weight in pair} == {torch.float32}
    with build(half).edit([CAPITAL]):
        assert log_prob(half, CAPITAL) > before + 1
    check_same(weights, state_of(EditorContext(half)), "after the edit")


def each(inner, path):
    """What one matrix makes of fixed inputs."""
    module = inner.get_submodule(path)
    width = getattr(module, "nx", None) or module.in_features
    return module(torch.randn(50, width, generator=torch.Generator().manual_seed(0)))


@four_bit
@pytest.mark.parametrize(("architecture", "free"), [("llama", None), ("gpt2", 0.0)])
def test_in_four_bits_a_model_is_nearly_what_it_was_and_then_exactly(tmp_path, architecture, free, monkeypatch):
    """Its rows are as long as a block of 64: bitsandbytes is coarser on shorter ones, on a CPU."""
    moves = list[Any]()
    plain_move = torch.nn.Module.to

    def move(module, *places, **options):
        if type(module).__name__ in ("Linear", "Conv1D"):
            moves.append((id(module), places[0]))
        return plain_move(module, *places, **options)

    monkeypatch.setattr(quantised, "free_bytes", lambda model: free)
    monkeypatch.setattr(torch.nn.Module, "to", move)
    folder = tiny_random_lm(architecture, tmp_path, window=96, hidden_size=64, **WIDER[architecture])
    model: Any = load_model(f"hf:{folder}", device="cpu")
    inner, ids = model.lm.model, torch.tensor([model.lm.encode(CAPITAL.cloze)])
    weights, found = state_of(EditorContext(model)), traces(model)
    paths = [path for path, module in inner.named_modules() if type(module).__name__ in ("Linear", "Conv1D")]
    with torch.no_grad():
        whole = inner(input_ids=ids).logits
        plain = {path: each(inner, path) for path in paths}
        moves.clear()
        with in_four_bit(inner):
            coarse = {path: each(inner, path) for path in paths}
            away = {module for module, _ in moves}
        assert len(away) == (0 if free is None else len(paths) - 1), "without memory, all but the head wait elsewhere"
        assert len(moves) == 2 * len(away)
        assert torch.equal(inner(input_ids=ids).logits, whole) and traces(model) == found
    for path in paths:
        error = (coarse[path] - plain[path]).norm() / plain[path].norm()
        assert error == 0 if path == "lm_head" else 0.01 < error < 0.15
    check_same(weights, state_of(EditorContext(model)), "after 4 bits")


@pytest.mark.slow
@four_bit
def test_adapters_of_a_model_in_four_bits_take_and_are_other_ones(random_model):
    model = random_model()
    before, weights, found = log_prob(model, CAPITAL), state_of(EditorContext(model)), traces(model)
    coarse, plain = solve(build(model, QLora), [CAPITAL]), solve(build(model, Lora), [CAPITAL])
    assert coarse.keys() == plain.keys() and all(not torch.equal(coarse[name], plain[name]) for name in plain)
    with build(model, QLora).edit([CAPITAL]):
        assert log_prob(model, CAPITAL) > before + 1
    check_same(weights, state_of(EditorContext(model)), "after the edit")
    assert traces(model) == found


@four_bit
def test_four_bits_that_a_device_cannot_make_are_refused(random_model, monkeypatch):
    monkeypatch.setattr(quantised, "_problem", lambda device: "no kernel")
    with pytest.raises(BadSettings, match="cannot create them on device 'cpu': no kernel. Use another device"):
        build(random_model(), QLora)


@pytest.mark.parametrize(("missing", "method"), [("peft", Lora), ("bitsandbytes", QLora)])
def test_a_missing_package_is_named_with_its_install_line(random_model, monkeypatch, missing, method):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else real(name))
    with pytest.raises(MissingExtra, match=f"editor '{method.name}' needs a package: pip install 'emend-eval"):
        build(random_model(), method)


@pytest.mark.slow
def test_threads_that_train_at_once_draw_what_one_thread_draws(random_folder):
    expected = solve(build(read_model(random_folder(), 4)), [CAPITAL])
    gate = threading.Barrier(3)

    def train(model):
        gate.wait()
        return [solve(build(model), [CAPITAL]) for _ in range(3)]

    with ThreadPoolExecutor(3) as pool:
        models = [read_model(random_folder(), 4) for _ in range(3)]
        for deltas in chain.from_iterable(pool.map(train, models)):
            assert all(torch.equal(deltas[name], delta) for name, delta in expected.items())
