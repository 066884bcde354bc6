"""Training: parameters, rows, order and end."""

import pytest
import torch
from torch.nn.functional import log_softmax
from transformers.modeling_outputs import CausalLMOutput

from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY, check_same, state_of
from emend.editors.hyperparameters import shipped_tables
from emend.editors.numerics.apply_delta import applied
from emend.editors.numerics.training.training_loop import TrainingRow, TrainingSettings, train_loop
from emend.editors.parametric.finetune import FineTuning, training_rows
from emend.memory.edit import Edit
from emend.memory.errors import BadData
from tests.editors.writers import log_prob

DOCUMENTS = [
    Edit(form="document", text=text)
    for text in (
        "Veldania moved its seat of government to Kestrel Bay last year.",
        "The florin became the currency of Veldania.",
        "Mira Tolvane wrote The Silent River in Port Lunden.",
    )
]


def build(model, seed=0, **settings):
    return FineTuning(EditorContext(model=model, settings=settings, seed=seed))


def test_ft_l_scores_every_token_of_a_target_where_the_prompt_ends(random_model):
    model = random_model()
    (row,) = training_rows(model.lm, [CAPITAL], "new_fact", at_prompt_end=True)
    assert len(row.ids) - row.start > 1 and row.input_ids == row.ids[: row.start]
    editor = build(model, layers=[1], num_steps=1, objective_optimization="prompt_last", lr=1e-3)
    delta = editor.solve([CAPITAL])["model.layers.1.mlp.down_proj.weight"]
    weight = model.lm.model.model.layers[1].mlp.down_proj.weight
    last = log_softmax(model.lm.model(input_ids=torch.tensor([row.input_ids])).logits[0, -1], dim=-1)
    (gradient,) = torch.autograd.grad(-last[list(row.ids[row.start :])].mean(), [weight])
    clear = gradient.abs() > 1e-5
    torch.testing.assert_close(delta[clear], (-1e-3 * gradient.sign())[clear], rtol=1e-2, atol=1e-6)
    other = build(model, layers=[1], num_steps=1, lr=1e-3).solve([CAPITAL])
    assert not torch.allclose(other["model.layers.1.mlp.down_proj.weight"], delta)


def test_documents_are_learnt_token_by_token_whatever_the_loss(random_model):
    model = random_model()
    one, other = (
        build(model, num_steps=2, objective_optimization=loss).solve(DOCUMENTS)
        for loss in ("target_new", "prompt_last")
    )
    assert all(torch.equal(delta, other[name]) for name, delta in one.items())


def test_the_whole_model_is_trained_on_documents_and_comes_back(random_model):
    """As DocTER and ELKEN do it: all parameters, plain language modelling, a few rows a step."""
    model = random_model()
    editor = build(model, parameters="all", num_steps=3, lr=3e-3, batch_size=2)
    weights = state_of(editor.context)
    before = [scored.log_prob for scored in model.lm.log_probs([("", edit.text) for edit in DOCUMENTS])]
    with editor.edit(DOCUMENTS):
        changed = {name for name, value in state_of(editor.context).items() if not torch.equal(value, weights[name])}
        after = [scored.log_prob for scored in model.lm.log_probs([("", edit.text) for edit in DOCUMENTS])]
    assert changed == {name for name, _ in model.lm.model.named_parameters()}
    assert all(now > then + 1 for now, then in zip(after, before, strict=True))
    check_same(weights, state_of(editor.context), "after the edit")
    assert editor.fingerprint["matrices"] == "all"


def test_rows_of_a_step_are_drawn_by_the_seed_and_the_edits(random_model):
    model = random_model()
    plan = {"num_steps": 2, "batch_size": 1, "lr": 1e-3}
    first, again, other = (build(model, seed=seed, **plan).solve(DOCUMENTS) for seed in (0, 0, 1))
    for name, delta in first.items():
        assert torch.equal(delta, again[name]) and not torch.equal(delta, other[name])


def test_a_pass_in_steps_of_some_rows_sees_each_row_once(random_model):
    lm, seen = random_model().lm, []
    rows = training_rows(lm, [CAPITAL, CURRENCY, *DOCUMENTS], "new_fact")
    leaf = torch.zeros(1, requires_grad=True)

    def call(**fed):
        seen.append(tuple(fed["input_ids"][0, : int(fed["attention_mask"][0].sum())].tolist()))
        return CausalLMOutput(logits=lm.model(**fed).logits * (1 + leaf))

    plan = TrainingSettings(lr=1e-6, num_steps=2, stop_loss=0.0, batch_tokens=4096, batch_size=1)
    train_loop(lm, call, [leaf], rows, plan, seed=3)
    fed = [row.input_ids for row in rows]
    assert sorted(seen[:5]) == sorted(fed) == sorted(seen[5:]) and seen[:5] != seen[5:]


def test_a_step_whose_rows_are_known_is_left_out(random_model):
    lm = random_model().lm
    rows = training_rows(lm, [CAPITAL, CURRENCY], "new_fact")
    leaf = torch.zeros(1, requires_grad=True)
    calls = []

    def call(**fed):
        calls.append(1)
        return CausalLMOutput(logits=lm.model(**fed).logits * (1 + leaf))

    train_loop(lm, call, [leaf], rows, TrainingSettings(lr=1.0, num_steps=9, stop_loss=1e9, batch_tokens=4096))
    assert not leaf.any() and len(calls) == 1


def test_the_constraint_holds_in_steps_of_some_rows_too(random_model):
    editor = build(random_model(), num_steps=4, lr=1e-2, norm_constraint=3e-3, batch_size=1)
    for delta in editor.solve([CAPITAL, CURRENCY]).values():
        assert 0.0029 < delta.abs().max() <= 3e-3 + 1e-6


def test_the_published_tables_of_ft_l_name_its_loss():
    for family, bound in (("gpt2-1600", 5e-4), ("gptj-4096", 5e-5)):
        values = shipped_tables("ft")["default"] | shipped_tables("ft")[family]
        assert (values["objective_optimization"], values["norm_constraint"], values["layers"]) == (
            "prompt_last",
            bound,
            [0],
        )
        assert (values["num_steps"], values["lr"], values["stop_loss"]) == (25, 5e-4, 1e-2)


def test_a_text_that_becomes_no_token_is_refused(random_model, monkeypatch):
    lm = random_model().lm
    monkeypatch.setattr(lm, "encode", lambda text: (0,))
    with pytest.raises(BadData, match="has no tokens: there is nothing to learn"):
        training_rows(lm, [DOCUMENTS[0]], "new_fact")


def test_an_edit_of_fine_tuning_is_the_delta_that_was_solved(random_model):
    model = random_model()
    deltas = build(model, num_steps=5, lr=1e-2).solve([CAPITAL])
    before = log_prob(model, CAPITAL)
    with applied(model.lm.model, deltas):
        direct = log_prob(model, CAPITAL)
    with build(model, num_steps=5, lr=1e-2).edit([CAPITAL]):
        assert log_prob(model, CAPITAL) == direct > before


def test_a_row_scored_at_once_feeds_its_prompt_alone():
    assert TrainingRow((1, 2, 3, 4), 2).input_ids == (1, 2, 3) and TrainingRow(
        (1, 2, 3, 4), 2, at_prompt_end=True
    ).input_ids == (1, 2)
