"""ROME, R-ROME, MEMIT and AlphaEdit: batches, sequences, refusals and contexts."""

import gc
from typing import Any
from weakref import ref

import pytest
import torch

from emend.agents.llm import load_model
from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY, check_same, state_of
from emend.editors.hyperparameters import read_settings
from emend.editors.numerics.apply_delta import DeltaStack
from emend.editors.numerics.architectures import ARCHITECTURES as ARCHITECTURE_TABLE
from emend.editors.numerics.architectures import NAMES, find_architecture
from emend.editors.numerics.contexts import OPENERS, context_prefixes
from emend.editors.numerics.suffix_forward import _check_adds
from emend.editors.parametric.alphaedit import AlphaEdit
from emend.editors.parametric.memit import Memit
from emend.editors.parametric.rome import Rome, RRome
from emend.memory.errors import BadData, BadSettings
from tests.editors.writers import ARCHITECTURES, SAME_SUBJECT, editor, keys_at, solve
from tests.fakes import tiny_random_lm
from tests.params import first_quick


@pytest.mark.slow
def test_alphaedit_holds_protected_keys_within_a_sequence_and_forgets_them_after(random_model):
    alpha = editor(AlphaEdit, random_model(), nullspace_threshold=10.0, L2=1.0)
    alone = solve(alpha, [CURRENCY])
    with alpha.sequence() as grow:
        grow([CAPITAL])
        assert alpha._earlier[0].shape[0] == 1
        inside = solve(alpha, [CURRENCY])
    assert not alpha._earlier
    again = solve(alpha, [CURRENCY])
    (name,) = alone
    assert torch.equal(again[name], alone[name])
    assert not torch.allclose(inside[name], alone[name])


@pytest.mark.parametrize("method", [Rome, RRome, Memit, AlphaEdit])
@pytest.mark.parametrize("architecture", first_quick(["llama", "gpt2", "gemma2"]))
def test_two_edits_of_one_subject_are_solved_and_the_model_stays_as_it_was(method, architecture, random_model):
    model = random_model(architecture)
    made = editor(method, model, **({"nullspace_threshold": 10.0} if method is AlphaEdit else {}))
    before = state_of(made.context)
    deltas = solve(made, [CAPITAL, SAME_SUBJECT])
    check_same(before, state_of(made.context), "after solving")
    assert all(delta.isfinite().all() and delta.any() for delta in deltas.values())


@pytest.mark.parametrize("method", [Memit, AlphaEdit])
def test_values_are_not_spread_over_layers_with_a_norm_behind_the_mlp(method, random_model):
    with pytest.raises(BadSettings, match=rf"the norm between MLP.*--set {method.name}.layers=\[1\]"):
        editor(method, random_model("gemma2"), layers=[0, 1])


@pytest.mark.parametrize("method", [Rome, Memit])
def test_presolving_no_edits_costs_nothing(method, random_model):
    made = editor(method, random_model())
    assert made.presolve([(), ()]).tokens == 0
    assert solve(made, []) == {}


@pytest.mark.slow
@pytest.mark.parametrize("method", [Rome, Memit])
def test_a_presolved_edit_equals_one_solved_alone_and_one_that_cannot_be_solved_fails_alone(method, random_model):
    made, alone = editor(method, random_model()), editor(method, random_model())
    bad = CAPITAL.model_copy(update={"id": "bad", "prompt": "The capital is"})
    for sets, foreseen in (([[CAPITAL], [SAME_SUBJECT, CURRENCY]], 2), ([[CAPITAL], [bad], [CURRENCY]], 0)):
        made.presolve(sets)
        assert len(made._presolved) == foreseen
        for edits in sets:
            if edits == [bad]:
                with pytest.raises(BadData, match="edit 'bad' cannot be written at its subject"):
                    solve(made, edits)
                continue
            for name, delta in solve(alone, edits).items():
                assert (solve(made, edits)[name] - delta).norm() <= 1e-4 * delta.norm()


def test_presolved_values_are_not_used_in_a_sequence(random_model):
    memit = editor(Memit, random_model())
    memit.presolve([[CURRENCY]])
    clean = memit.search([CURRENCY])
    with memit.sequence() as grow:
        grow([CAPITAL])
        inside = memit.search([CURRENCY])
    assert not torch.equal(inside.value, clean.value)


def test_a_model_that_does_more_to_its_logits_is_refused_and_prefixes_end_in_white_space(random_model):
    with pytest.raises(BadSettings, match="logits of model type 'opt' are not the output of"):
        editor(Rome, random_model("opt"))
    assert editor(Rome, random_model(), prefixes=["It rained.", "So. "]).prefixes == ("", "It rained. ", "So. ")


@pytest.mark.slow
@pytest.mark.parametrize("method", [Rome, Memit])
def test_an_unknown_architecture_works_once_its_six_names_are_read_from_a_file(
    method, random_model, monkeypatch, tmp_path
):
    model = random_model("gptj")  # without a table of settings of its own, so that they are the same
    wanted = solve(editor(method, model), [CAPITAL])
    monkeypatch.setattr(model.lm.model.config, "model_type", "unheard_of")
    with pytest.raises(BadSettings, match=r"'unheard_of' is not known.*\[architecture\]"):
        editor(method, model)
    lines = [f'{name} = "{getattr(ARCHITECTURE_TABLE["gptj"], name)}"' for name in NAMES]
    (tmp_path / "mine.toml").write_text("\n".join(["[architecture]", *lines]), encoding="utf-8")
    for name, delta in solve(editor(method, model, **read_settings(tmp_path / "mine.toml")), [CAPITAL]).items():
        assert (delta - wanted[name]).norm() <= 1e-5 * wanted[name].norm()


def test_contexts_have_the_requested_length_including_their_openers(random_model, monkeypatch):
    lm, lengths = random_model().lm, []
    generate = lm.model.generate

    def heard(**asked):
        assert asked["do_sample"] and asked["top_k"] == 5  # as ROME's own code samples
        said = generate(**asked)
        lengths.append((asked["input_ids"].shape[1], said.shape[1]))
        return said

    monkeypatch.setattr(lm.model, "generate", heard)
    context_prefixes(lm, [(12, 5), (1, 1)])
    openers, whole = zip(*lengths, strict=True)
    assert whole[:5] == (12,) * 5 and whole[5] == openers[5] + 1  # of an opener that is longer, one token more


@pytest.mark.slow
def test_contexts_of_rome_s_own_code_begin_with_the_begin_token_alone(random_model, monkeypatch):
    """Twenty texts of five and ten tokens, the begin token among them."""
    model, asked = random_model(), []
    generate = model.lm.model.generate

    def heard(**given):
        asked.append(tuple(given["input_ids"][0].tolist()) + (generate(**given).shape[1],))
        return generate(**given)

    monkeypatch.setattr(model.lm.model, "generate", heard)
    settings = {"prefixes": [], "context_template_length_params": [[5, 10], [10, 10]]}
    own, five = (editor(Rome, model, **settings, context_openers=openers) for openers in ([""], OPENERS))
    assert len(own.prefixes) == 21 and own.prefixes[0] == "" and all(text.endswith(". ") for text in own.prefixes[1:])
    (begin,) = model.lm.encode("")
    assert asked == [(begin, 5)] * 10 + [(begin, 10)] * 10
    assert own.prefixes != five.prefixes and own.fingerprint != five.fingerprint


def test_what_was_sampled_for_a_model_goes_with_it(tmp_path):
    made: Any = load_model(f"hf:{tiny_random_lm('llama', tmp_path, window=96)}", device="cpu")
    assert len(context_prefixes(made.lm, [(4, 2)])) == 3
    gone = ref(made.lm)
    made.close()
    del made
    gc.collect()
    assert gone() is None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", first_quick(["bfloat16", "float16"]))
@pytest.mark.parametrize("architecture", first_quick(["llama", "gemma2"]))
def test_models_in_half_precision_take_edits(architecture, dtype, random_model):
    model: Any = load_model(f"hf:{random_model(architecture).lm.folder}", device="cpu", dtype=dtype)
    before = state_of(EditorContext(model))
    for method in (Rome, RRome, Memit, AlphaEdit):
        made = editor(method, model, **({"nullspace_threshold": 10.0} if method is AlphaEdit else {}))
        with made.edit([CAPITAL]):
            now = state_of(made.context)
            assert any(not torch.equal(value, now[name]) for name, value in before.items())
        check_same(before, state_of(made.context), "after the edit")
    model.close()


@pytest.mark.slow
@pytest.mark.parametrize("method", [Rome, Memit])
def test_an_unknown_architecture_with_a_norm_behind_its_mlp_is_told_to_set_adds(method, random_model, monkeypatch):
    model = random_model("gemma2")
    wanted = solve(editor(method, model), [CAPITAL])
    monkeypatch.setattr(model.lm.model.config, "model_type", "unheard_of")
    given = {name: getattr(ARCHITECTURE_TABLE["gemma2"], name) for name in NAMES}
    with pytest.raises(BadSettings, match=r"down_proj' does not reach.*'unheard_of'. Add adds = false"):
        editor(method, model, architecture=given)
    found = solve(editor(method, model, architecture=given | {"adds": "false"}), [CAPITAL])
    assert all((delta - wanted[name]).norm() <= 1e-5 * wanted[name].norm() for name, delta in found.items())


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "opt"])
def test_the_table_says_of_each_architecture_whether_its_blocks_add_what_the_mlp_gives(architecture, random_model):
    lm = random_model(architecture).lm
    paths = find_architecture(lm.model)
    if paths.adds:
        _check_adds(lm, paths)
        return
    with pytest.raises(BadSettings, match="Add adds = false"):
        _check_adds(lm, paths)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_alphaedit_protects_the_edited_models_keys_and_runs_no_pass_after_applying(
    architecture, random_model, monkeypatch
):
    """So that no call fails whose edit stands."""
    model = random_model(architecture)
    alpha = editor(AlphaEdit, model, layers=[0, 1], nullspace_threshold=10.0, L2=1.0)
    plain, handles = DeltaStack.add, []

    def add(self, deltas):
        plain(self, deltas)
        handles.append(model.lm.model.base_model.register_forward_pre_hook(lambda *_: pytest.fail("a pass")))

    monkeypatch.setattr(DeltaStack, "add", add)
    with alpha.sequence() as grow:
        for edits in ([CAPITAL], [CURRENCY, SAME_SUBJECT]):
            grow(edits)
            handles.pop().remove()
            for layer in (0, 1):
                now = keys_at(alpha, edits, layer).double()
                assert torch.equal(alpha._earlier[layer][-len(edits) :], now)
        assert [len(keys) for keys in alpha._earlier.values()] == [3, 3]
        monkeypatch.setattr(DeltaStack, "add", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            grow([CAPITAL])
        assert [len(keys) for keys in alpha._earlier.values()] == [3, 3]
