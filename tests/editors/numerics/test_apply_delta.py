import pytest
import torch
from transformers.pytorch_utils import Conv1D

from emend.editors.numerics import apply_delta as module
from emend.editors.numerics import low_rank
from emend.editors.numerics.apply_delta import DeltaStack, applied
from emend.editors.numerics.low_rank import LowRankDelta
from emend.memory.errors import BadSettings


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)).bfloat16()


def weights(model):
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def same(one, other):
    return all(torch.equal(one[name].view(torch.int16), other[name].view(torch.int16)) for name in one)


def delta(model, size=0.1):
    return {"0.weight": torch.full_like(model[0].weight, size, dtype=torch.float32)}


def test_the_delta_is_added_once_and_rounded_once(model):
    before = weights(model)
    with applied(model, delta(model)):
        expected = (before["0.weight"].float() + 0.1).bfloat16()
        assert torch.equal(model[0].weight, expected)
        assert same({"1.weight": before["1.weight"]}, weights(model))


def test_a_device_without_float64_gets_the_same_sum_rounded_elsewhere(model, monkeypatch):
    deltas = {"0.weight": torch.randn(3, 4, dtype=torch.float64)}
    with applied(model, deltas):
        wanted = weights(model)
    monkeypatch.setattr(module, "WITHOUT_DOUBLES", ("cpu",))
    assert module.summed(model[0].weight, deltas["0.weight"]).dtype == torch.bfloat16
    with applied(model, deltas):
        assert same(wanted, weights(model))


@pytest.mark.parametrize("doubles", [True, False])
@pytest.mark.parametrize("input_first", [True, False])
def test_a_product_of_thin_matrices_is_added_in_pieces_as_the_whole_product_is(monkeypatch, input_first, doubles):
    torch.manual_seed(0)
    linear = Conv1D(6, 11) if input_first else torch.nn.Linear(11, 6)  # 11 inputs, 6 outputs
    model, product = torch.nn.Sequential(linear).bfloat16(), LowRankDelta(torch.randn(6, 2), torch.randn(2, 11))
    before, whole = weights(model), product.left.double() @ product.right.double()
    monkeypatch.setattr(low_rank, "CHUNK_ELEMENTS", 25)
    monkeypatch.setattr(low_rank, "WITHOUT_DOUBLES", () if doubles else ("cpu",))
    with applied(model, {"0.weight": product}):
        expected = before["0.weight"].double() + (whole.T if input_first else whole)
        assert torch.equal(weights(model)["0.weight"], expected.bfloat16())
    assert same(before, weights(model))
    with (
        pytest.raises(RuntimeError, match="delta of '0.weight'"),
        applied(model, {"0.weight": LowRankDelta(product.right.T, product.left.T)}),
    ):
        pass
    assert same(before, weights(model))


def test_the_originals_come_back_bit_for_bit_where_subtracting_would_not_do(model):
    before = weights(model)
    subtracted = (before["0.weight"] + 1e3) - 1e3
    assert not torch.equal(subtracted, before["0.weight"])
    with applied(model, delta(model, 1e3)):
        pass
    assert same(before, weights(model))


def test_a_body_that_raises_finds_the_originals_back(model):
    before = weights(model)
    with pytest.raises(KeyError, match="mine"), applied(model, delta(model)):
        raise KeyError("mine")
    assert same(before, weights(model))


@pytest.mark.parametrize("wrong", [{"0.weight": torch.zeros(7, 7)}, {"no.such": torch.zeros(1)}])
def test_a_delta_that_does_not_fit_leaves_the_model_whole_and_free(model, wrong):
    before = weights(model)
    with pytest.raises((RuntimeError, KeyError)), applied(model, {**delta(model), **wrong}):
        pass
    assert same(before, weights(model))
    with applied(model, delta(model)):
        pass


def test_no_deltas_are_no_edit(model):
    before = weights(model)
    with applied(model, {}):
        assert same(before, weights(model))
        with applied(model, delta(model)):
            assert not same(before, weights(model))


def test_a_second_edit_on_the_same_weights_is_refused_and_the_first_stays(model):
    before = weights(model)
    with applied(model, delta(model)):
        during = weights(model)
        with pytest.raises(BadSettings, match="another edit is applied to this model"), applied(model, delta(model)):
            pass
        assert same(during, weights(model))
    assert same(before, weights(model))
    with applied(model, delta(model)):
        pass


def test_no_gradient_is_left_behind(model):
    with applied(model, delta(model)):
        pass
    assert all(value.grad is None and value.requires_grad for value in model.parameters())


def test_the_lock_is_held_only_while_weights_are_written(model):
    held = []

    class Watched:
        def __enter__(self):
            held.append("taken")

        def __exit__(self, *_):
            held.append("left")

    with applied(model, delta(model), Watched()):
        assert held == ["taken", "left"]
    assert held == ["taken", "left"] * 2


@pytest.mark.parametrize("earlier", [False, True])
def test_when_memory_runs_out_between_two_deltas_neither_is_added(model, monkeypatch, earlier):
    deltas = delta(model) | {"1.weight": torch.ones_like(model[1].weight, dtype=torch.float32)}
    adding = torch.Tensor.__add__

    def short(one, other):
        if one.shape == model[1].weight.shape:
            raise torch.OutOfMemoryError("none left")
        return adding(one, other)

    with DeltaStack(model) as stack:
        if earlier:
            stack.add(delta(model))
        before = weights(model)
        monkeypatch.setattr(torch.Tensor, "__add__", short)
        with pytest.raises(torch.OutOfMemoryError):
            stack.add(deltas)
        assert same(before, weights(model))
