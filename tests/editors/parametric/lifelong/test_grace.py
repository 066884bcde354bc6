"""GRACE: its codebook is that of the published loop, and answers where a prompt ends near a key."""

from typing import Any

import pytest
import torch

from emend.agents.llm import load_model
from emend.agents.local.causal_lm import CausalLM
from emend.editors.base import EditorContext
from emend.editors.checkpoint.deltas import check_weight_editor
from emend.editors.conformance import CAPITAL, CURRENCY, ask_edit, check_same, state_of
from emend.editors.numerics.seeded_draws import seeded_draws
from emend.editors.parametric.lifelong.grace import APART, Codebook, Grace
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData, BadSettings
from tests.editors.writers import ARCHITECTURES, log_prob
from tests.fakes import read_model, with_template
from tests.params import QUICK_ARCHITECTURES, mostly_slow

TOWN, COIN = (
    edit.model_copy(update={"target_new": target}) for edit, target in ((CAPITAL, "Paris"), (CURRENCY, "capital"))
)
"""Their targets are one token, which a value at the prompt's last token can give a model of two layers."""
FAR = Edit.from_triplet(Triplet(subject="Orland", relation="river", object="Aske"), "The river of {} is")
SAME_TARGET = Edit.from_triplet(
    Triplet(subject="Veldanias", relation="capital", object="Kestrel Bay"), "Capital of {} is"
)


def grace(model, **settings):
    return Grace(EditorContext(model, settings={"layers": [0], "n_iter": 100, **settings}))


def published_codebook(editor, edits):
    """The published loop over whole passes: choose the entry, then train its value where the prompt ends."""
    lm, settings = editor.lm, editor.settings
    module = lm.model.get_submodule(editor.module)
    keys: list[torch.Tensor] = []
    values: list[torch.Tensor] = []
    radii: list[torch.Tensor] = []
    labels: list[tuple[int, ...]] = []
    for edit in edits:
        row = editor.row(edit)
        ids, place, label = torch.tensor([row.ids[:-1]]), row.start - 1, row.ids[row.start :]
        seen: list[tuple[torch.Tensor, torch.Tensor]] = []
        with module.register_forward_hook(lambda _, x, y, seen=seen: seen.append((x[0], y))), torch.no_grad():
            lm.model(input_ids=ids)
        query, output = (tensor.reshape(len(row.ids) - 1, -1)[place] for tensor in seen[0])
        with seeded_draws(lm.device, editor.seed(edit.id)):
            value = torch.rand(len(output))
        distances = torch.stack([(key - query).norm() for key in keys]) if keys else torch.tensor([torch.inf])
        distance, nearest = distances.min(0)
        near = bool(keys) and distance <= settings.eps + radii[nearest]
        if near and labels[nearest] == label:
            radii[nearest] = torch.maximum(distance, radii[nearest])
        else:
            keys.append(query)
            values.append(value)
            labels.append(label)
            radii.append(distance / 2 if near else torch.tensor(settings.eps))
            if near:
                radii[nearest] = distance / 2 - 1e-5
        number = torch.stack([(key - query).norm() for key in keys]).argmin()
        leaf = values[number].clone().requires_grad_()
        optimizer = torch.optim.Adam([leaf], settings.edit_lr)

        def replace(_, __, out, leaf=leaf, place=place):
            rows = out.reshape(1, -1, out.shape[-1]).clone()
            rows[:, place] = leaf
            return rows.reshape(out.shape)

        for _ in range(settings.n_iter):
            with module.register_forward_hook(replace):
                logits = lm.model(input_ids=ids).logits[0, place:]
            loss = torch.nn.functional.cross_entropy(logits.float(), torch.tensor(label))
            optimizer.zero_grad()
            loss.backward(inputs=[leaf])
            optimizer.step()
        values[number] = leaf.detach()
    return Codebook(torch.stack(keys), torch.stack(values), torch.stack(radii), tuple(labels))


@pytest.mark.slow
@pytest.mark.parametrize("eps", [0.5, 1e3], ids=["apart", "in conflict"])
@pytest.mark.parametrize("architecture", mostly_slow(ARCHITECTURES, *QUICK_ARCHITECTURES))
def test_the_codebook_is_that_of_the_published_loop(architecture, eps, random_model):
    editor = grace(random_model(architecture), layers=[1], eps=eps, edit_lr=0.05, n_iter=6)
    edits = [CAPITAL, CURRENCY, SAME_TARGET, CAPITAL]
    ours = editor._learn_all(None, edits)
    published = published_codebook(editor, edits)
    assert ours.labels == published.labels
    for name in ("keys", "values", "radii"):
        assert torch.allclose(getattr(ours, name), getattr(published, name), rtol=1e-4, atol=1e-4), name


def codebook(*radii, labels=((1,), (2,))):
    """Two keys at 0 and 10 of a line."""
    return Codebook(torch.tensor([[0.0], [10.0]]), torch.zeros(2, 1), torch.tensor(radii), labels)


ONE = torch.ones(1)
RULES = {
    "far from all keys": (5.0, (1,), (1.0, 1.0, 1.0), 2),
    "inside its label's radius": (0.5, (1,), (1.0, 1.0), 0),
    "near its label's radius": (1.5, (1,), (1.5, 1.0), 0),
    "near another label's key": (1.5, (2,), (0.75 - APART, 1.0, 0.75), 2),
    "equal to another label's key": (0.0, (2,), (1.0, 1.0), 0),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_nearest_key_decides_what_a_new_one_becomes(rule):
    place, label, radii, number = RULES[rule]
    changed, entry = codebook(1.0, 1.0).assign(torch.tensor([place]), ONE, label, 1.0)
    assert torch.allclose(changed.radii, torch.tensor(radii)) and entry == number
    assert changed.labels[entry] == label


def test_a_codebook_is_never_changed_in_place():
    before = codebook(1.0, 1.0)
    for place in (0.0, 0.5, 1.5, 5.0):
        before.assign(torch.tensor([place]), ONE, (2,), 1.0)[0].with_value(0, ONE)
    assert torch.equal(before.radii, torch.ones(2)) and not before.values.any() and before.labels == ((1,), (2,))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(["llama", *QUICK_ARCHITECTURES], "gpt2"))
def test_targets_are_generated_and_scored_alike_in_any_batch(architecture, random_model):
    model = random_model(architecture)
    editor = grace(model, eps=1e-3)
    with editor.edit([TOWN, COIN]):
        pairs = [(edit.cloze, edit.target_new) for edit in (TOWN, COIN)] + [("A river", "in Orland by the sea")]
        alone = [model.lm.log_probs([pair])[0].log_prob for pair in pairs]
        together = [scored.log_prob for scored in model.lm.log_probs(pairs)]
        assert together == pytest.approx(alone, abs=1e-3)
        assert [scored.log_prob for scored in model.lm.log_probs(pairs, padding="left")] == pytest.approx(
            alone, abs=1e-3
        )
        texts = [reply.text for reply in model.lm.generate([prompt for prompt, _ in pairs], 16, stop=())]
        assert texts == [model.lm.generate([prompt], 16, stop=())[0].text for prompt, _ in pairs]
    if architecture != "gemma2":  # the norm behind its MLP bounds what a value can do
        assert min(together[:2]) > -0.5
        assert all(text.strip().startswith(edit.target_new) for edit, text in zip((TOWN, COIN), texts, strict=False))


@pytest.mark.slow
def test_prompts_out_of_the_radius_are_answered_as_by_the_unedited_model(random_model):
    model = random_model()
    editor = grace(model, eps=1e-3)
    before = log_prob(model, FAR)
    with editor.edit([TOWN]):
        assert log_prob(model, FAR) == pytest.approx(before, abs=1e-4)
        assert log_prob(model, TOWN) > -0.5
    wide = grace(model, eps=1e3)
    with wide.edit([TOWN]):
        assert log_prob(model, FAR) != pytest.approx(before, abs=1e-2)


@pytest.mark.slow
def test_a_fact_that_is_edited_again_has_its_last_target(random_model):
    model = random_model()
    again = TOWN.model_copy(update={"target_new": "of", "id": "again"})
    with grace(model).edit([TOWN, again]):
        assert log_prob(model, again) > -0.5 > log_prob(model, TOWN)


@pytest.mark.slow
def test_the_codebook_grows_over_a_sequence_and_a_failed_call_leaves_it_as_it_was(random_model):
    model = random_model()
    editor = grace(model)
    before, unedited = state_of(editor.context), log_prob(model, TOWN)
    with editor.sequence() as apply_more:
        apply_more([TOWN])
        first = log_prob(model, TOWN)
        with pytest.raises(BadData, match="grace"):
            apply_more([COIN, Edit(form="document", text="The river of Orland is Aske.")])
        assert log_prob(model, TOWN) == first > unedited
        answerer = apply_more([COIN])
        assert log_prob(model, TOWN) == first and ask_edit(answerer, COIN).log_probs[0] > -0.5
        with pytest.raises(BadSettings, match="another edit"), editor.edit([COIN]):
            pass
        assert log_prob(model, TOWN) == first
    check_same(before, state_of(editor.context), "after the sequence")
    assert log_prob(model, TOWN) == unedited and not model.lm.likelihood.hooked


@pytest.mark.slow
def test_behind_a_chat_template_edits_are_learnt_in_that_form(random_folder, tmp_path):
    folder = random_folder(window=96)
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    model = read_model(with_template(CausalLM(folder, device="cpu").tokenizer, tmp_path), 4)
    try:
        scores = {}
        for template in (False, True):
            with grace(model, eps=1e-3, use_chat_template=template).edit([TOWN]):
                asked = (model, model.plain())
                scores[template] = [each.score(TOWN.cloze, [TOWN.target_new]).log_probs[0] for each in asked]
        assert scores[True][0] > -0.5 > scores[True][1]
        assert scores[False][1] > -0.5 > scores[False][0]
    finally:
        model.close()


def test_a_template_that_the_tokenizer_lacks_is_refused(random_model):
    with pytest.raises(BadSettings, match="grace.use_chat_template"):
        grace(random_model(), use_chat_template=True)


@pytest.mark.slow
def test_half_precision_finds_its_keys_again(random_folder):
    model: Any = load_model(f"hf:{random_folder(window=96)}", device="cpu", dtype="bfloat16")
    try:
        with grace(model, eps=1e-2).edit([TOWN]):
            assert log_prob(model, TOWN) > -0.5
    finally:
        model.close()


def test_there_is_no_delta_to_save():
    with pytest.raises(BadSettings, match="'grace' changes no weights"):
        check_weight_editor(Grace, "grace")
