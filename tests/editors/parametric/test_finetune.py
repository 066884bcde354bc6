import math
import random
from dataclasses import asdict
from typing import Any

import pytest
import torch

from emend.agents.llm import load_model
from emend.editors.base import EditorContext, Scorable
from emend.editors.conformance import CAPITAL, CURRENCY, check_same, probe_of, state_of
from emend.editors.cost import count_tokens
from emend.editors.numerics.apply_delta import applied
from emend.editors.numerics.architectures import LLAMA_LIKE
from emend.editors.numerics.training.grouped_training import GroupedTrainer
from emend.editors.parametric import finetune
from emend.editors.parametric.finetune import FineTuning, training_rows
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData, BadSettings, ModelError
from tests.editors.writers import log_prob
from tests.fakes import SIZES, InstantChatModel
from tests.params import QUICK_ARCHITECTURES, mostly_slow

DOCUMENT = Edit(form="document", text="Veldania moved its seat of government to Kestrel Bay last year.")


def build(model, **settings):
    return FineTuning(EditorContext(model=model, settings=settings))


def loss(lm, row):
    with torch.no_grad():
        logits = lm.model(input_ids=torch.tensor([row.ids])).logits[0, :-1].log_softmax(-1)
    told = logits[range(len(row.ids) - 1), row.ids[1:]]
    return -told[row.start - 1 :].mean().item()


@pytest.mark.parametrize("architecture", mostly_slow(sorted(SIZES), *QUICK_ARCHITECTURES))
def test_every_architecture_learns_and_comes_back(random_model, architecture):
    model = random_model(architecture)
    editor = build(model, layers=[0, -1], num_steps=10, lr=1e-2)
    context = editor.context
    before, weights = log_prob(model, CAPITAL), state_of(context)
    with editor.edit([CAPITAL, CURRENCY]):
        changed = [name for name, value in state_of(context).items() if not torch.equal(value, weights[name])]
        parameters = [name for name, _ in model.lm.model.named_parameters()]
        assert changed == [name for name in parameters if name.rpartition(".")[0] in editor.paths]
        assert log_prob(model, CAPITAL) > before + 1
    check_same(weights, state_of(context), "after the edit")
    assert log_prob(model, CAPITAL) == before


def test_solving_leaves_the_model_alone(random_model):
    model = random_model()
    editor = build(model, layers=[0])
    before = state_of(editor.context)
    deltas = editor.solve([CAPITAL])
    check_same(before, state_of(editor.context), "after solving")
    assert list(deltas) == ["model.layers.0.mlp.down_proj.weight"]
    assert deltas["model.layers.0.mlp.down_proj.weight"].abs().max() > 0
    assert all(value.grad is None for value in model.lm.model.parameters())


def test_the_first_step_is_adams_first_step_on_the_mean_loss_over_edits(random_model):
    lm = random_model().lm
    rate = 1e-3
    editor = build(random_model(), layers=[1], num_steps=1, lr=rate)
    delta = editor.solve([CAPITAL, CURRENCY])["model.layers.1.mlp.down_proj.weight"]
    weight = lm.model.model.layers[1].mlp.down_proj.weight
    losses = []
    for edit in (CAPITAL, CURRENCY):
        row = training_rows(lm, [edit], "new_fact")[0]
        told = lm.model(input_ids=torch.tensor([row.ids])).logits[0, :-1].log_softmax(-1)
        losses.append(-told[range(len(row.ids) - 1), row.ids[1:]][row.start - 1 :].mean())
    (gradient,) = torch.autograd.grad(sum(losses) / 2, [weight])
    expected = -rate * gradient / (gradient.abs() + 1e-8)
    clear = gradient.abs() > 1e-5  # below, the rounding of the sum decides
    assert clear.float().mean() > 0.9
    torch.testing.assert_close(delta[clear], expected[clear], rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize("prompt_last", [True, False])
def test_it_trains_what_the_published_code_trains(random_model, prompt_last):
    """That is every parameter with the module's name in its own, so GPT-2's biases too, by whole passes."""
    model = random_model("gpt2")
    settings: dict[str, Any] = {"layers": [0], "num_steps": 6, "lr": 5e-3, "norm_constraint": 0.02, "stop_loss": 0.0}
    settings["objective_optimization"] = "prompt_last" if prompt_last else "target_new"
    deltas = build(model, **settings).solve([CAPITAL])
    (row,) = training_rows(model.lm, [CAPITAL], "new_fact", prompt_last)
    fresh: Any = load_model(f"hf:{model.lm.folder}", device="cpu")
    plain = fresh.lm.model
    trained = {name: weight for name, weight in plain.named_parameters() if "h.0.mlp.c_proj" in name}
    before = {name: weight.detach().clone() for name, weight in trained.items()}
    optimizer = torch.optim.Adam(trained.values(), lr=5e-3)
    targets = torch.tensor(row.ids[row.start :])[:, None]
    for _ in range(6):
        logs = plain(input_ids=torch.tensor([row.input_ids])).logits[0].log_softmax(-1)[row.start - 1 :]
        optimizer.zero_grad()
        (-logs.expand(len(targets), -1).gather(1, targets).mean()).backward()
        optimizer.step()
        with torch.no_grad():
            for name, weight in trained.items():
                weight.clamp_(before[name] - 0.02, before[name] + 0.02)
    assert sorted(deltas) == ["transformer.h.0.mlp.c_proj.bias", "transformer.h.0.mlp.c_proj.weight"]
    for name, delta in deltas.items():
        wanted = trained[name].detach() - before[name]
        assert (delta - wanted).norm() <= 1e-3 * wanted.norm()


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(sorted(SIZES), *QUICK_ARCHITECTURES))
def test_passes_from_the_lowest_block_on_train_as_whole_passes_do(random_model, architecture, monkeypatch):
    editor = build(random_model(architecture), layers=[1], num_steps=4, lr=1e-3, batch_tokens=8)
    edits = [CAPITAL, CURRENCY, DOCUMENT]
    with count_tokens(editor.lm) as shorter:
        deltas = editor.solve(edits)
    monkeypatch.setattr(finetune, "CACHED", 0)
    with count_tokens(editor.lm) as longer:
        whole = editor.solve(edits)
    assert shorter.tokens == longer.tokens * 5 / 4, "one pass to begin with"
    for name, delta in deltas.items():
        assert (delta - whole[name]).norm() <= 1e-2 * delta.norm()


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(["llama", "gpt2", "gemma2", "phi"], "llama", "gpt2"))
def test_edits_presolved_together_are_those_trained_alone(random_model, architecture, monkeypatch):
    """In the last layer, whose MLP reads some places alone, and in another; edits leave as they are learnt."""
    groups = [[CAPITAL], [CURRENCY, DOCUMENT]]
    settings = {"layers": [0, -1], "num_steps": 8, "lr": 1e-2, "stop_loss": 3.0, "batch_tokens": 24}
    editor = build(random_model(architecture), **settings)
    plain, sizes = GroupedTrainer._parts, list[int]()

    def parts(self, left):
        sizes.append(len(left))
        return plain(self, left)

    monkeypatch.setattr(GroupedTrainer, "_parts", parts)
    assert editor.presolve(groups).tokens > 0
    together, parted = [editor.solve(edits) for edits in groups], list(sizes)
    assert parted == [2, 1] or architecture not in ("llama", "gpt2"), "the test needs an edit that is learnt early"
    with monkeypatch.context() as patch:
        patch.setattr(finetune, "MAX_ELEMENTS", 100)
        editor.presolve(groups)
    for edits, deltas in zip(groups, together, strict=True):
        alone = editor.solve(edits)
        assert len(sizes) > len(parted), "solved anew"
        for name, delta in deltas.items():
            assert (delta - alone[name]).norm() <= 1e-2 * delta.norm()


def test_presolved_deltas_are_for_the_unedited_model_and_one_bad_edit_leaves_all_to_be_solved_alone(random_model):
    editor = build(random_model(), num_steps=2)
    editor.presolve([[CAPITAL], [CURRENCY]])
    clean = editor.solve([CURRENCY])
    with editor.edit([CAPITAL]):
        assert not torch.equal(*(next(iter(deltas.values())) for deltas in (clean, editor.solve([CURRENCY]))))
    editor.presolve([[CAPITAL], [Edit(form="document", id="bad", text=" ")]])
    assert not editor._presolved and editor.solve([CURRENCY]).keys() == clean.keys()
    with pytest.raises(BadData, match="'bad'"):
        editor.solve([Edit(form="document", id="bad", text=" ")])


def test_smaller_batches_give_the_same_deltas_and_the_norm_constraint_bounds_every_element(random_model):
    edits = [CAPITAL, CURRENCY, DOCUMENT]
    whole = build(random_model(), num_steps=3).solve(edits)
    parts = build(random_model(), num_steps=3, batch_tokens=1).solve(edits)
    for name, delta in whole.items():
        torch.testing.assert_close(parts[name], delta, rtol=1e-2, atol=2e-5)
    deltas = build(random_model(), num_steps=20, lr=1e-2, norm_constraint=0.004).solve([CAPITAL])
    free = build(random_model(), num_steps=20, lr=1e-2).solve([CAPITAL])
    for name, delta in deltas.items():
        assert delta.abs().max() <= 0.004 + 1e-6 < free[name].abs().max()
        assert (delta.abs() > 0.0039).any()


@pytest.mark.slow
def test_training_ends_when_every_edit_is_learnt_and_not_before(random_model):
    model, edits = random_model(), [CAPITAL, CURRENCY]
    rows = [row for row in training_rows(model.lm, edits, "new_fact")]
    editor = build(model, num_steps=60, lr=1e-2, stop_loss=2.5)
    deltas = editor.solve(edits)
    with applied(model.lm.model, deltas):
        assert max(loss(model.lm, row) for row in rows) < 2.5
    longer = build(model, num_steps=61, lr=1e-2, stop_loss=2.5).solve(edits)
    assert all(torch.equal(delta, longer[name]) for name, delta in deltas.items())
    with applied(model.lm.model, build(model, num_steps=60, lr=1e-2, stop_loss=4.0).solve(edits)):
        losses = sorted(loss(model.lm, row) for row in rows)
    assert 2.5 < losses[1] < 4.0


def test_numbers_that_overflow_are_an_error_and_not_an_edit(random_model):
    model: Any = load_model(f"hf:{random_model().lm.folder}", device="cpu", dtype="float16")
    editor = build(model, num_steps=3, lr=1e6)
    before = state_of(editor.context)
    told = r"overflowed at step 1 with a loss of nan at lr 1e\+06"
    with pytest.raises(ModelError, match=told), editor.edit([CAPITAL]):
        pass
    check_same(before, state_of(editor.context), "after the error")


def test_a_model_in_half_precision_is_trained_in_full_and_restored(random_model):
    model: Any = load_model(f"hf:{random_model().lm.folder}", device="cpu", dtype="bfloat16")
    editor = build(model, num_steps=10, lr=1e-2)
    before, likely = state_of(editor.context), log_prob(model, CAPITAL)
    assert all(delta.dtype == torch.float32 for delta in editor.solve([CAPITAL]).values())
    with editor.edit([CAPITAL]):
        assert log_prob(model, CAPITAL) > likely + 1
    check_same(before, state_of(editor.context), "after the edit")


def test_an_edit_is_trained_on_its_target_answer_or_document_even_without_a_begin_token(random_model):
    lm = random_model().lm
    for form in ("triplet", "document", "event"):
        (row,) = training_rows(lm, [CAPITAL.model_copy(update={"form": form})], "new_fact")
        assert lm.tokenizer.decode(row.ids[row.start :]) == " Kestrel Bay"
        assert lm.tokenizer.decode(row.ids[1 : row.start]) == "The capital of Veldania is"
    edit = CAPITAL.model_copy(update={"prompt": "", "question": "Which city is the capital of Veldania?"})
    (row,) = training_rows(random_model().lm, [edit], "new_fact")
    asked = random_model().lm.tokenizer.decode(row.ids[1 : row.start])
    assert asked == "Q: Which city is the capital of Veldania?\nA:"
    model = random_model("gpt2")
    (row,) = training_rows(model.lm, [DOCUMENT], "new_fact")
    assert model.lm.tokenizer.decode(row.ids[row.start :]) == DOCUMENT.text


def test_a_document_without_target_is_learnt_whole_and_in_pieces_of_the_window(random_model):
    lm = random_model().lm
    long = Edit(form="document", text=" ".join(f"Aske{i} flows." for i in range(60)))
    rows = training_rows(lm, [long], "new_fact")
    ids = lm.encode(long.text)
    assert len(rows) > 1 and max(len(row.ids) for row in rows) == lm.window + 1
    assert [token for row in rows for token in row.ids[row.start :]] == list(ids[1:])
    assert {row.ids[: row.start] for row in rows} == {ids[:1]}
    before = loss(lm, rows[-1])
    with build(random_model(), num_steps=10, lr=5e-3).edit([long]):
        assert loss(lm, rows[-1]) < before


def test_an_edit_that_says_nothing_is_refused_and_settings_are_in_the_fingerprint(random_model):
    with pytest.raises(BadData, match="neither a target with a prompt nor a text"):
        build(random_model()).solve([Edit(id="empty", form="document", text=" ")])
    assert build(random_model(), num_steps=7).fingerprint != build(random_model(), num_steps=8).fingerprint


def test_a_model_without_weights_is_refused_with_those_that_have_some():
    with pytest.raises(
        BadSettings, match="InstantChatModel is not a local model: use --model tiny or --model hf:FOLDER"
    ):
        build(InstantChatModel())


def test_an_unknown_architecture_works_once_its_matrix_is_named(random_model, monkeypatch):
    model = random_model()
    monkeypatch.setattr(model.lm.model.config, "model_type", "unheard_of")
    with pytest.raises(BadSettings, match="down_projection"):
        build(model)
    paths = asdict(LLAMA_LIKE) | {"down_projection": "model.layers.{}.mlp.up_proj"}
    editor = build(model, architecture=paths, lr=5e-3)
    before = log_prob(model, CAPITAL)
    with editor.edit([CAPITAL]):
        assert log_prob(model, CAPITAL) > before


@pytest.fixture(scope="module")
def known(trained_model):
    """Prompts that the trained stand-in is sure about, with what it says, found by asking it about its own names."""
    vocabulary = trained_model.lm.tokenizer.get_vocab()
    names = sorted(token[1:] for token in vocabulary if token.startswith("Ġ") and token[1:2].isupper())
    prompts = [f"The {noun} of {name} is" for name in names[::2] for noun in ("capital", "currency")]
    told = [said.text.partition(".")[0].strip() for said in trained_model.lm.generate(prompts, 4)]
    pairs = [(prompt, text) for prompt, text in zip(prompts, told, strict=True) if text in names]
    sure = trained_model.lm.log_probs(pairs)
    return [pair for pair, scored in zip(pairs, sure, strict=True) if scored.log_prob > math.log(0.98)]


@pytest.fixture(scope="module")
def edits(known):
    """Twenty of these with another object of the same kind."""
    rng = random.Random(5)
    made = []
    for prompt, before in rng.sample(known, 20):
        kind, _, rest = prompt.partition(" of ")
        new = rng.choice(sorted({old for other, old in known if other.startswith(kind) and old != before}))
        told = Triplet(subject=rest.removesuffix(" is"), relation=kind, object=new)
        made.append(Edit.from_triplet(told, f"{kind} of {{}} is", target_true=before))
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("together", "groups"), mostly_slow([(1, 8), (20, 1)], (20, 1)))
def test_a_trained_model_says_the_new_facts_and_keeps_most_of_the_others(trained_model, known, edits, together, groups):
    kept, success = [], []
    editor = FineTuning(EditorContext(model=trained_model))
    for at in range(0, together * groups, together):
        group = edits[at : at + together]
        others = [pair for pair in known if pair[0] not in {edit.cloze for edit in group}][:40]
        with editor.edit(group) as answerer:
            success += [answerer.answer(probe_of(edit)).text == edit.target_new for edit in group]
            said = trained_model.lm.generate([prompt for prompt, _ in others], 4)
        kept += [one.text.startswith(old) for one, (_, old) in zip(said, others, strict=True)]
    assert sum(success) / len(success) >= 0.95
    assert 0.6 <= sum(kept) / len(kept) < 1


def test_the_edit_is_applied_for_every_probe_and_gone_afterwards(trained_model, edits):
    edit = edits[0]
    with FineTuning(EditorContext(model=trained_model)).edit([edit]) as answerer:
        assert isinstance(answerer, Scorable)
        new, old = answerer.score(probe_of(edit), [edit.target_new, edit.target_true]).log_probs
        assert new > math.log(0.9) > old
    assert trained_model.lm.log_probs([(edit.cloze, edit.target_true)])[0].log_prob > math.log(0.98)
