"""The value search: its loss, its end, and its independence of batching and padding."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import kl_div

from emend.agents.llm import load_model
from emend.editors.numerics import value_search as values
from emend.editors.numerics.architectures import ARCHITECTURES, Architecture, find_architecture
from emend.editors.numerics.locate import locate, locate_essence
from emend.editors.numerics.value_search import ValueSearchSettings, search_values
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import ModelError
from tests.fakes import SIZES, tiny_random_lm
from tests.params import QUICK_ARCHITECTURES, first_quick, mostly_slow

PLAN = ValueSearchSettings(
    v_num_grad_steps=6, v_lr=0.1, kl_factor=0.5, v_weight_decay=0.3, clamp_norm_factor=50.0, stop_loss=0.0
)
PREFIXES = ("", "So it is. ", "The river is long and it rains. ")
ADA = Edit.from_triplet(Triplet(subject="Ada", relation="city", object="Rome"), "{} lives in")
TWICE = Edit.from_triplet(
    Triplet(subject="Paris", relation="capital", object="New York City"), "Paris or {}: it lies in"
)
LONG = Edit.from_triplet(
    Triplet(subject="Édouard 北京 O'Neil", relation="x", object="12 of 345"), "It {is} said that {} has"
)
EDITS = [ADA, TWICE, LONG]
FALCON = Architecture(
    block="transformer.h.{}",
    down_projection="transformer.h.{}.mlp.dense_4h_to_h",
    query="transformer.h.{}.self_attention.query_key_value",
    value="transformer.h.{}.self_attention.query_key_value",
    norm="transformer.ln_f",
    head="lm_head",
)


@pytest.fixture(
    params=mostly_slow(sorted(set(SIZES) - {"opt"}), *QUICK_ARCHITECTURES)
)  # made with a projection before its head
def lm(request, random_model):
    return random_model(request.param).lm


def change(lm, edits, plan=PLAN, layer=0, at="mlp"):
    return search_values(lm, find_architecture(lm.model), edits, PREFIXES, layer, at, plan)


class Plainly:
    """The published search written out: whole prompts through the whole model, one edit alone."""

    def __init__(self, lm, edit, layer, at):
        paths = find_architecture(lm.model)
        self.lm, self.at = lm, at
        self.module = lm.model.get_submodule(paths.of_layer(layer, "down_projection"))
        self.block = lm.model.get_submodule(paths.of_layer(layer, "block"))
        self.rows = [*locate(lm, edit, PREFIXES), locate_essence(lm, edit)]
        self.delta = torch.zeros(lm.model.config.get_text_config().hidden_size, requires_grad=True)
        self.seen: dict[str, torch.Tensor] = {}
        with torch.no_grad():
            self.run(self.rows[0])
            self.kept = self.run(self.rows[-1])[self.rows[-1].subject]
        self.value = self.seen[at]

    def run(self, row):
        """Log-probabilities at every place of one prompt, with the change added at the subject."""

        def add(_, __, output):
            flat = output.clone().view(len(row.ids), -1)
            self.seen.setdefault("mlp", flat[row.subject].detach().clone())
            flat[row.subject] += self.delta
            return flat.view(output.shape)

        def left(_, __, output):
            state = output[0] if isinstance(output, tuple) else output
            self.seen.setdefault("block", state[0, row.subject].detach().clone())

        handles = [self.module.register_forward_hook(add), self.block.register_forward_hook(left)]
        try:
            return self.lm.model(input_ids=torch.tensor([row.ids])).logits[0].float().log_softmax(-1)
        finally:
            for handle in handles:
                handle.remove()

    def loss(self, plan):
        losses = []
        for row in self.rows[:-1]:
            logs = self.run(row)
            told = [logs[n - 1, row.ids[n]] for n in range(row.target, len(row.ids))]
            losses.append(-sum(told) / len(told))
        essence = self.run(self.rows[-1])[self.rows[-1].subject]
        drift = kl_div(self.kept, essence, log_target=True, reduction="sum")
        decay = self.delta.norm() / self.value.norm() ** 2
        return sum(losses) / len(losses) + plan.kl_factor * drift + plan.v_weight_decay * decay


def plainly(lm, edit, plan, layer, at):
    """Change, original value, steps and last loss."""
    search = Plainly(lm, edit, layer, at)
    optimizer = torch.optim.Adam([search.delta], lr=plan.v_lr)
    for step in range(plan.v_num_grad_steps):
        loss = search.loss(plan)
        if step == plan.v_num_grad_steps - 1 or loss.item() < plan.stop_loss:
            break
        optimizer.zero_grad()
        loss.backward(inputs=[search.delta])
        optimizer.step()
        with torch.no_grad():
            search.delta.mul_((plan.clamp_norm_factor * search.value.norm() / search.delta.norm()).clamp(max=1.0))
    return search.delta.detach(), search.value, step, loss.item()


@pytest.mark.slow
def test_it_finds_what_the_plain_search_finds(lm):
    delta, value, steps, loss = plainly(lm, ADA, PLAN, 0, "mlp")
    found = change(lm, [ADA])
    assert torch.allclose(found.value[0], value.float(), rtol=1e-4, atol=1e-5)
    assert (found.change[0] - delta).norm() <= 1e-3 * delta.norm()
    assert found.steps == (steps,) and found.loss[0] == pytest.approx(loss, rel=1e-4)


@pytest.mark.slow
def test_a_block_that_adds_to_the_mlp_s_output_in_place_is_read_before_it_does(tmp_path, monkeypatch):
    monkeypatch.setitem(SIZES, "falcon", {"parallel_attn": True, "new_decoder_architecture": False, "alibi": False})
    monkeypatch.setitem(ARCHITECTURES, "falcon", FALCON)
    model: Any = load_model(f"hf:{tiny_random_lm('falcon', tmp_path, window=96)}", device="cpu")
    delta, value, _, _ = plainly(model.lm, ADA, PLAN, 0, "mlp")
    found = change(model.lm, [ADA])
    assert torch.allclose(found.value[0], value.float(), rtol=1e-4, atol=1e-5)
    assert (found.change[0] - delta).norm() <= 1e-3 * delta.norm()
    test_it_finds_what_the_plain_search_finds(model.lm)
    model.close()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", first_quick(["bfloat16", "float16"]))
@pytest.mark.parametrize("architecture", first_quick(["llama", "gemma2"]))
def test_in_half_precision_it_finds_what_the_plain_search_finds(architecture, dtype, random_model):
    """The changes are many of the format's smallest steps apart from none, and few from each other."""
    model: Any = load_model(f"hf:{random_model(architecture).lm.folder}", device="cpu", dtype=dtype)
    delta, value, _, loss = plainly(model.lm, ADA, PLAN, 0, "mlp")
    found = change(model.lm, [ADA])
    assert (found.value[0] - value).norm() <= 0.02 * value.norm()
    assert (found.change[0] - delta).norm() <= 0.05 * delta.norm() and found.loss[0] == pytest.approx(loss, rel=0.02)
    model.close()


@pytest.mark.slow
def test_batching_and_padding_change_nothing(lm):
    together = change(lm, EDITS)
    for n, edit in enumerate(EDITS):
        alone = change(lm, [edit])
        assert (together.change[n] - alone.change[0]).norm() <= 1e-4 * alone.change[0].norm()
        assert torch.allclose(together.value[n], alone.value[0], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_tokenizer_s_padding_side_changes_nothing(lm, monkeypatch):
    right = change(lm, EDITS)
    monkeypatch.setattr(lm.tokenizer, "padding_side", "left")
    left = change(lm, EDITS)
    assert torch.equal(left.change, right.change) and torch.equal(left.value, right.value)


@pytest.mark.slow
def test_those_that_are_done_early_leave_and_the_others_go_on_as_before(random_model):
    lm = random_model().lm
    free = change(lm, EDITS, replace(PLAN, v_lr=0.5, v_num_grad_steps=12, v_weight_decay=0.0))
    middle = sorted(free.loss)[1] + 0.5
    plan = replace(PLAN, v_lr=0.5, v_num_grad_steps=12, v_weight_decay=0.0, stop_loss=middle)
    together = change(lm, EDITS, plan)
    alone = [change(lm, [edit], plan) for edit in EDITS]
    assert together.steps == tuple(one.steps[0] for one in alone)
    assert len(set(together.steps)) > 1, "the test needs edits that end at different steps"
    for n, one in enumerate(alone):
        assert (together.change[n] - one.change[0]).norm() <= 1e-4 * one.change[0].norm()


@pytest.mark.slow
def test_at_the_block_only_the_original_value_differs(random_model):
    lm = random_model().lm
    plan = replace(PLAN, v_weight_decay=0.0)
    assert torch.equal(change(lm, [ADA], plan).change, change(lm, [ADA], plan, at="block").change)
    _, value, _, _ = plainly(lm, ADA, plan, 0, "block")
    assert torch.allclose(change(lm, [ADA], plan, at="block").value[0], value.float(), rtol=1e-4, atol=1e-5)


def test_the_change_is_clamped_to_the_original_value_s_length(random_model):
    found = change(random_model().lm, EDITS, replace(PLAN, clamp_norm_factor=0.5, v_lr=5.0))
    lengths = found.change.norm(dim=1) / found.value.norm(dim=1)
    assert torch.allclose(lengths, torch.full((3,), 0.5), rtol=1e-4)


def test_one_step_only_looks(random_model):
    found = change(random_model().lm, [ADA], replace(PLAN, v_num_grad_steps=1))
    assert not found.change.any() and found.steps == (0,)


def test_the_decay_is_on_the_length_and_not_on_its_square(random_model):
    lm = random_model().lm
    plan = replace(PLAN, kl_factor=0.0, v_weight_decay=1e-9, v_num_grad_steps=4)
    heavy = replace(plan, v_weight_decay=1e-9 + 7.0)
    delta, value, _, loss = plainly(lm, ADA, heavy, 0, "mlp")
    found = change(lm, [ADA], heavy)
    assert found.loss[0] == pytest.approx(loss, rel=1e-4)
    assert not torch.allclose(change(lm, [ADA], plan).change, found.change, rtol=1e-2)


def test_the_divergence_is_that_of_the_edited_distribution_from_the_original(random_model):
    lm = random_model().lm
    plan = replace(PLAN, kl_factor=0.2, v_weight_decay=0.0, v_lr=2.0, v_num_grad_steps=12, clamp_norm_factor=500.0)
    found = change(lm, [ADA], plan)
    search = Plainly(lm, ADA, 0, "mlp")
    with torch.no_grad():
        search.delta.copy_(found.change[0])
        edited = search.run(search.rows[-1])[search.rows[-1].subject]
        targets = search.loss(replace(plan, kl_factor=0.0)).item()
    there = (edited.exp() * (edited - search.kept)).sum().item()
    back = (search.kept.exp() * (search.kept - edited)).sum().item()
    off, off_the_other_way = (abs(found.loss[0] - (targets + 0.2 * drift)) for drift in (there, back))
    assert off < 1e-4 and off < 0.1 * off_the_other_way


def test_a_non_finite_loss_is_an_error_with_step_and_loss(random_model):
    with pytest.raises(ModelError, match="step 1, got losses .*nan.*smaller v_lr"):
        change(random_model().lm, [ADA], replace(PLAN, v_lr=float("inf")))


def test_of_several_edits_those_that_failed_are_named_and_no_others(random_model, monkeypatch):
    plain = values.ValueOptimizer._loss

    def loss(self):
        lost = torch.tensor([job.edit in (TWICE, LONG) for job in self.batch.jobs])
        return plain(self).masked_fill(lost, torch.nan)

    monkeypatch.setattr(values.ValueOptimizer, "_loss", loss)
    with pytest.raises(ModelError, match=r"step 0, got losses \[nan, nan\] of edits") as raised:
        change(random_model().lm, EDITS)
    said = str(raised.value)
    assert all(f"'{edit.id}' ({edit.cloze!r})" in said for edit in (TWICE, LONG)) and ADA.id not in said
    with pytest.raises(ModelError, match=f"of edit '{TWICE.id}'"):
        change(random_model().lm, [ADA, TWICE])


@pytest.mark.parametrize("rate", [1e19, 1e30, 1e38])
def test_a_change_whose_length_overflows_is_an_error_and_not_an_edit_of_nothing(random_model, rate):
    with pytest.raises(ModelError, match=f"step 1, got losses .nan. of edit '{ADA.id}'.*smaller v_lr"):
        change(random_model().lm, [ADA], replace(PLAN, v_lr=rate))


def test_white_space_behind_a_subject_does_not_move_its_last_token(random_model):
    lm = random_model().lm
    plain = Edit.from_triplet(Triplet(subject="Vouna", relation="capital", object="Rome"), "The capital of {} is")
    spaced = plain.model_copy(update={"subject": "Vouna "})
    assert locate_essence(lm, spaced) == locate_essence(lm, plain)
