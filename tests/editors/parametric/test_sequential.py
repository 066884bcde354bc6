"""Sequential edits: each is solved on the model as it is then, and the originals are restored bit for bit."""

import pytest
import torch

from emend.editors.answerers import direct_answerer
from emend.editors.base import EditorContext, Sequential, cost_of
from emend.editors.conformance import CAPITAL, CURRENCY, ask_edit, check_same, state_of
from emend.editors.numerics.apply_delta import DeltaStack, applied
from emend.editors.parametric.finetune import FineTuning
from emend.editors.parametric.sequential import sequential_edits
from emend.memory.edit import Edit
from emend.memory.errors import BadData


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)).bfloat16()


def fine_tuning(model):
    return FineTuning(EditorContext(model=model, settings={"layers": [0], "num_steps": 8, "lr": 1e-2}))


def test_one_copy_of_each_tensor_is_kept_for_any_number_of_deltas(model):
    before = model[0].weight.detach().clone()
    with DeltaStack(model) as stack:
        for _ in range(5):
            stack.add({"0.weight": torch.full((3, 4), 1e3)})
        assert [tuple(kept.shape) for kept in stack._originals.values()] == [(3, 4)]
        stack.add({"1.bias": torch.ones(2)})
        assert not torch.equal(model[0].weight, before)
    assert torch.equal(model[0].weight.view(torch.int16), before.view(torch.int16))


def test_deltas_of_which_one_does_not_fit_are_not_added(model):
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    with DeltaStack(model) as stack:
        for wrong in ({"1.weight": torch.zeros(7, 7)}, {"no.such": torch.zeros(1)}, {"1.bias": torch.ones(4, 2)}):
            with pytest.raises((RuntimeError, KeyError)):
                stack.add({"0.weight": torch.ones(3, 4), **wrong})
        assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())


@pytest.mark.slow
def test_fine_tuning_in_sequence_is_fine_tuning_the_fine_tuned_model(random_model):
    model = random_model()
    editor = fine_tuning(model)
    assert isinstance(fine_tuning(model), Sequential)
    before = state_of(editor.context)
    first = editor.solve([CAPITAL])
    with applied(model.lm.model, first):
        second = editor.solve([CURRENCY])
        with_both = {name: value + second.get(name, 0) for name, value in state_of(editor.context).items()}
    with editor.sequence() as grow:
        grow([CAPITAL])
        answerer = grow([CURRENCY])
        check_same(with_both, state_of(editor.context), "after two edits")
        said = ask_edit(answerer, CURRENCY).log_probs
    check_same(before, state_of(editor.context), "after the sequence")
    together = editor.solve([CAPITAL, CURRENCY])
    assert any(not torch.equal(together[name], first[name] + second[name]) for name in first)
    with editor.edit(()) as plain:
        assert ask_edit(plain, CURRENCY).log_probs[0] < said[0]


@pytest.mark.slow
def test_the_same_sequence_gives_the_same_weights_whatever_came_before(random_model):
    editor = fine_tuning(random_model())
    seen = []
    for before in ([], [CURRENCY], []):
        with editor.edit(before):
            pass
        with editor.sequence() as grow:
            grow(())
            grow([CAPITAL])
            grow([CURRENCY])
            seen.append(state_of(editor.context))
    for later in seen[1:]:
        check_same(seen[0], later, "in the same sequence")


def test_an_edit_that_cannot_be_solved_leaves_those_before(random_model):
    editor = fine_tuning(random_model())
    before = state_of(editor.context)
    with pytest.raises(KeyError, match="mine"), editor.sequence() as grow:
        grow([CAPITAL])
        during = state_of(editor.context)
        with pytest.raises(BadData, match="nothing to train on"):
            grow([Edit(form="document", text=" ")])
        check_same(during, state_of(editor.context), "after the failed edit")
        raise KeyError("mine")
    check_same(before, state_of(editor.context), "after the sequence")


def test_the_cost_of_each_edit_has_its_tokens(random_model):
    model = random_model()
    editor = fine_tuning(model)
    width = len(model.lm.encode_pair(CAPITAL.cloze, CAPITAL.target_new).ids) - 1
    with editor.sequence() as grow:
        answerer = grow([CAPITAL])
        assert cost_of(answerer).tokens == (1 + 8) * width
        nothing = grow(())
        assert cost_of(nothing).tokens == 0
    with editor.edit([CAPITAL]) as alone:
        assert cost_of(alone).tokens == (1 + 8) * width


def test_an_editor_becomes_sequential_by_its_solve_alone(random_model):
    model = random_model()
    name = next(name for name, _ in model.lm.model.named_parameters())
    weight = dict(model.lm.model.named_parameters())[name]
    before = weight.detach().clone()
    solved = []

    def solve(edits):
        solved.append(weight.detach().clone())
        return {name: torch.ones_like(weight)} if edits else {}

    with sequential_edits(model.lm, solve, lambda cost: direct_answerer(model, "new_fact", cost)) as grow:
        grow([CAPITAL])
        grow([CURRENCY])
        assert torch.equal(solved[1], before + 1) and torch.equal(weight, before + 1 + 1)
    assert torch.equal(weight, before)
