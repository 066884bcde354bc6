"""Training of a whole model in its own weights."""

import logging
from typing import Any

import pytest
import torch

from emend.agents.llm import load_model
from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY, check_same, state_of
from emend.editors.numerics.training import compact_adam, memory_estimate
from emend.editors.numerics.training.compact_adam import CompactAdam
from emend.editors.numerics.training.in_place import Originals
from emend.editors.parametric import finetune
from emend.editors.parametric.finetune import FineTuning
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings, MissingExtra, ModelError
from tests.params import mostly_slow

DOCUMENT = Edit(form="document", text="Veldania moved its seat of government to Kestrel Bay last year.")
ALL: dict[str, Any] = {"parameters": "all", "num_steps": 4, "lr": 1e-3, "batch_tokens": 16, "stop_loss": 0.0}


@pytest.fixture
def half_model(random_model):
    """A random model of an architecture, its weights in bfloat16 or another format."""

    def load(architecture="llama", dtype="bfloat16"):
        model: Any = load_model(f"hf:{random_model(architecture).lm.folder}", device="cpu", dtype=dtype)
        return model

    return load


def build(model, **settings):
    return FineTuning(EditorContext(model=model, settings=ALL | settings))


def test_small_steps_in_bfloat16_add_up_to_adams_in_float32():
    torch.manual_seed(0)
    wide = torch.nn.Parameter((torch.randn(9, 700) * 0.02).bfloat16().float())
    narrow = torch.nn.Parameter(wide.detach().bfloat16())
    start, usual, compact = wide.detach().clone(), torch.optim.Adam([wide], lr=1e-5), CompactAdam(1e-5)
    mean = torch.randn(9, 700) * 1e-3
    for _ in range(40):
        gradient = (mean + torch.randn(9, 700) * 1e-3 * torch.rand(9, 1)).bfloat16()
        wide.grad = gradient.float()
        usual.step()
        compact.step(narrow, gradient)
    moved = wide.detach() - start
    assert moved.abs().max() < 40 * 1.1e-5, "each step is below half a place of a bfloat16 of that size"
    whole = compact_adam._joined(narrow.detach().view(-1), compact._states[narrow].low).view(9, 700)
    assert (whole - start - moved).norm() < 0.05 * moved.norm()
    assert (narrow == whole.bfloat16()).float().mean() > 0.99, "but for ties"


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(["llama", "gpt2", "gpt_neox", "gemma2"], "gpt2"))
def test_all_weights_in_place_move_as_copies_in_float32_do_and_come_back(half_model, architecture):
    """With several batches a step, tied weights and biases; on the same bfloat16 gradients."""
    model = half_model(architecture)
    edits, context = [CAPITAL, CURRENCY, DOCUMENT], EditorContext(model=model)
    before = state_of(context)
    usual, in_place = build(model, optimizer="adam"), build(model)
    assert in_place.in_place and not usual.in_place
    expected, deltas = usual.solve(edits), in_place.solve(edits)
    check_same(before, state_of(context), "after solving")
    assert deltas.keys() == expected.keys() == {name for name, _ in model.lm.model.named_parameters()}
    one, other = (torch.cat([delta.flatten() for delta in each.values()]) for each in (deltas, expected))
    assert (one - other).norm() < 0.35 * other.norm() and one.dtype == torch.float32
    with in_place.edit(edits):
        assert all(
            torch.equal(weight.float(), before[name].float() + deltas[name])
            for name, weight in model.lm.model.named_parameters()
        )
    check_same(before, state_of(context), "after the edit")
    assert all(weight.requires_grad and weight.grad is None for weight in model.lm.model.parameters())


@pytest.mark.slow
def test_training_in_place_lowers_the_loss_as_adam_does_and_keeps_to_its_bound(half_model):
    model = half_model()

    def loss_after(**settings):
        with build(model, num_steps=12, **settings).edit([DOCUMENT]):
            return -model.lm.log_probs([("", DOCUMENT.text)])[0].log_prob

    before = -model.lm.log_probs([("", DOCUMENT.text)])[0].log_prob
    usual, in_place = loss_after(optimizer="adam"), loss_after()
    assert in_place < 0.8 * before and in_place == pytest.approx(usual, rel=0.05)
    bounded = build(model, norm_constraint=2e-3, lr=1e-2).solve([DOCUMENT])
    rounding = {name: weight.abs().float() * 2**-8 for name, weight in model.lm.model.named_parameters()}
    assert all(bool((delta.abs() <= 2.1e-3 + 1.01 * rounding[name]).all()) for name, delta in bounded.items())
    assert build(model, stop_loss=1e3).solve([DOCUMENT])["model.norm.weight"].abs().max() == 0, "learnt before"


@pytest.mark.parametrize("whole_folder", [True, False])
def test_originals_are_read_from_the_folder_where_that_holds_them(half_model, tmp_path, whole_folder):
    lm = half_model().lm
    weights = dict(lm.model.named_parameters())
    lm.model.save_pretrained(tmp_path if whole_folder else tmp_path / "elsewhere")
    with torch.no_grad():
        lm.model.model.norm.weight[0] = -0.0
        lm.model.model.norm.weight[1] = torch.nan
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    with Originals(tmp_path, weights) as originals, torch.no_grad():
        assert set(originals._copies) == ({"model.norm.weight"} if whole_folder else set(weights))
        for weight in weights.values():
            weight.add_(1)
        originals.restore("model.norm.weight")
    assert all(
        torch.equal(weight.view(torch.int16), before[name].view(torch.int16)) for name, weight in weights.items()
    )


def test_a_failed_training_leaves_the_weights_as_they_were(half_model, monkeypatch):
    model = half_model()
    before, steps = state_of(EditorContext(model=model)), []
    plain = CompactAdam.step

    def failing(self, *arguments):
        steps.append(arguments)
        if len(steps) == 20:
            raise KeyboardInterrupt
        plain(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(CompactAdam, "step", failing)
        with pytest.raises(KeyboardInterrupt):
            build(model).solve([CAPITAL])
    check_same(before, state_of(EditorContext(model=model)), "after an interruption")
    for lr in (1e30, 1e300):
        with pytest.raises(ModelError, match="training overflowed"):
            build(model, lr=lr).solve([CAPITAL])
        check_same(before, state_of(EditorContext(model=model)), "after an overflow")
    assert not any("forward" in vars(module) for module in model.lm.model.modules())


@pytest.mark.slow
def test_the_optimizer_follows_the_number_format_and_can_be_set(half_model, monkeypatch):
    single = half_model(dtype="float32")
    assert not build(single).in_place and not build(half_model(), parameters="down_projection").in_place
    expected, deltas = (build(single, optimizer=name).solve([CAPITAL]) for name in ("adam", "adam_8bit"))
    one, other = (torch.cat([delta.flatten() for delta in each.values()]) for each in (deltas, expected))
    assert (one - other).norm() < 0.35 * other.norm()
    with pytest.raises(BadSettings, match=r"gradients in float16 vanish: .* --set model.dtype=bfloat16"):
        build(half_model(dtype="float16"), optimizer="adam_8bit")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'emend-eval\[qlora\]'; or .* --set ft.optimizer=adam"):
        build(half_model())


@pytest.mark.parametrize(
    ("dtype", "optimizer", "remedy"),
    [
        ("float32", "adam", "--set model.dtype=bfloat16"),
        ("float16", "adam", "--set model.dtype=bfloat16, and train with --set ft.optimizer=adam_8bit"),
        ("bfloat16", "auto", "--set ft.batch_tokens=1024"),
    ],
)
def test_memory_is_foreseen_and_refused_with_a_remedy(half_model, monkeypatch, caplog, dtype, optimizer, remedy):
    monkeypatch.setattr(memory_estimate, "WORTH_SAYING", 1)
    with caplog.at_level(logging.WARNING):
        editor = build(half_model(dtype=dtype), optimizer=optimizer)
    count = sum(weight.numel() for weight in editor.lm.model.parameters())
    (needed,) = memory_estimate.needed_bytes(editor.lm, editor._names(), editor.in_place, 0).values()
    assert needed / count == pytest.approx({"float32": 20, "float16": 22, "bfloat16": 7}[dtype], abs=1)
    assert "GB of main memory beside the model, of which" in caplog.text
    monkeypatch.setattr(memory_estimate, "free_host_bytes", lambda: needed / 2)
    with pytest.raises(BadSettings, match=remedy):
        build(editor.context.model, optimizer=optimizer)


def test_memory_grows_with_the_tokens_of_the_edits_and_not_with_the_largest_batch(half_model, monkeypatch):
    editor = build(half_model(dtype="float32"), batch_tokens=4096)
    tokens = []
    monkeypatch.setattr(finetune, "check_memory", lambda lm, names, in_place, batch, editor: tokens.append(batch))
    rows = editor.rows([CAPITAL, CURRENCY])
    editor.train(rows, 0)
    assert tokens == [sum(len(row.input_ids) for row in rows)]
