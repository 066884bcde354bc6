"""ROME, R-ROME, MEMIT and AlphaEdit: that what is written is what the papers' equations say."""

import gc
from typing import Any
from weakref import ref

import pytest
import torch

from emend.agents.llm import load_model
from emend.agents.tiny import model_folder
from emend.editors.alphaedit import AlphaEdit
from emend.editors.architectures import ARCHITECTURES as ARCHITECTURE_TABLE
from emend.editors.architectures import NAMES
from emend.editors.base import Materials
from emend.editors.conformance import CAPITAL, CURRENCY, check_same, state_of
from emend.editors.contexts import prefixes_of
from emend.editors.hyperparameters import read_settings
from emend.editors.locate import locate
from emend.editors.memit import Memit
from emend.editors.moments import Moments
from emend.editors.rome import Rome, RRome, matrix_of
from emend.editors.weights import applied
from emend.editors.writing import Factors, passing
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData, BadSettings
from tests.fakes import tiny_random_lm

ARCHITECTURES = ["gpt2", "llama", "gptj", "gpt_neox", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi"]
SETTINGS = {
    "layers": [0],
    "steps": 8,
    "rate": 0.3,
    "clamp": 20.0,
    "prefixes": ["So it is. ", "The river is long. "],
    "statistics": "identity",
}
SAME_SUBJECT = Edit.from_triplet(
    Triplet(subject=CAPITAL.subject, relation="neighbour", object="Old Sorn"), "The neighbour of {} is"
)


def editor(method, model, **settings):
    return method(Materials(model=model, settings=SETTINGS | settings))


def moment(size, seed=0):
    torch.manual_seed(seed)
    keys = torch.randn(4 * size, size, dtype=torch.float64)
    return keys.T @ keys / len(keys)


def with_moments(made):
    """The editor with statistics that are not the identity."""
    size = matrix_of(made.lm.model.get_submodule(made.paths.of_layer(0, "down_projection")))[0].shape[1]
    made.moments = Moments(None)
    made.moments.folder = "given"
    made.moments._moments = {layer: moment(size, layer) for layer in made.layers}
    return made


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_after_rome_the_key_gives_the_value(architecture, random_model):
    rome = with_moments(editor(Rome, random_model(architecture)))
    found = rome.search([CAPITAL])
    path = rome.paths.of_layer(0, "down_projection")
    row = locate(rome.lm, CAPITAL, [""])
    with applied(rome.lm.model, rome.solve([CAPITAL])):
        weight, bias = matrix_of(rome.lm.model.get_submodule(path))
        key = passing(rome.lm, rome.paths, row, 0, 0).keys[0].double()
    wanted = (found.value + found.change)[0].double()
    assert (weight @ key + bias - wanted).norm() <= 1e-5 * wanted.norm()


def test_rome_writes_along_the_averaged_key_seen_through_the_statistics(random_model):
    rome = with_moments(editor(Rome, random_model()))
    factors = rome.factors([CAPITAL], rome.search([CAPITAL]))[rome.paths.of_layer(0, "down_projection")]
    keys = passing(rome.lm, rome.paths, locate(rome.lm, CAPITAL, rome.prefixes), 0, 0).keys.double()
    wanted = torch.linalg.solve(rome.moments._moments[0], keys.mean(0))
    assert torch.allclose(factors.right[0], wanted / wanted.norm(), rtol=1e-3, atol=1e-5)


def test_r_rome_takes_the_averaged_key_in_both_places(random_model):
    plain, same = editor(Rome, random_model()), editor(RRome, random_model())
    found = plain.search([CAPITAL])
    path = plain.paths.of_layer(0, "down_projection")
    keys = passing(plain.lm, plain.paths, locate(plain.lm, CAPITAL, plain.prefixes), 0, 0).keys.double()
    weight, bias = matrix_of(plain.lm.model.get_submodule(path))
    wanted = (found.value + found.change)[0].double()
    for made, key in ((plain, keys[0]), (same, keys.mean(0))):
        factors = made.factors([CAPITAL], found)[path]
        assert torch.allclose((weight + factors.left @ factors.right) @ key + bias, wanted, rtol=1e-4, atol=1e-4)


def test_rank_one_edits_given_together_each_get_their_value_when_written(random_model):
    rome = editor(Rome, random_model())
    edits = [CAPITAL, CURRENCY]
    found = rome.search(edits)
    path = rome.paths.of_layer(0, "down_projection")
    factors = rome.factors(edits, found)[path]
    assert factors.left.shape[1] == 2
    weight, bias = matrix_of(rome.lm.model.get_submodule(path))
    key = passing(rome.lm, rome.paths, locate(rome.lm, CURRENCY, [""]), 0, 0).keys[0].double()
    wanted = (found.value + found.change)[1].double()
    assert torch.allclose((weight + factors.left @ factors.right) @ key + bias, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_memit_s_update_is_the_direct_solution(architecture, random_model):
    memit = with_moments(editor(Memit, random_model(architecture), weight=7.0))
    edits = [CAPITAL, CURRENCY]
    found = memit.search(edits)
    path = memit.paths.of_layer(0, "down_projection")
    factors = memit.factors(edits, found)[path]
    keys, left = memit.keys_at(edits, 0).double(), found.change.double()
    covariance = memit.moments._moments[0]
    direct = left.T @ keys @ torch.linalg.inv(7.0 * covariance + keys.T @ keys)
    ours = factors.left @ factors.right
    assert (ours - direct).norm() <= 1e-6 * direct.norm()


def test_woodbury_s_way_equals_the_direct_solve_in_float64(random_model):
    memit = with_moments(editor(Memit, random_model(), weight=3.0))
    torch.manual_seed(1)
    size = len(memit.moments._moments[0])
    keys, left = torch.randn(5, size, dtype=torch.float64), torch.randn(5, 32, dtype=torch.float64)
    factors = memit.spread(0, keys, left)
    direct = left.T @ keys @ torch.linalg.inv(3.0 * memit.moments._moments[0] + keys.T @ keys)
    assert (factors.left @ factors.right - direct).norm() <= 1e-8 * direct.norm()


def test_the_bare_prompt_weighs_as_much_as_all_contexts_together(random_model):
    memit = editor(Memit, random_model(), prefixes=[f"So it is {word}. " for word in ("a", "be", "can", "do", "end")])
    each = passing(memit.lm, memit.paths, locate(memit.lm, CAPITAL, memit.prefixes), 0, 0).keys
    wanted = each[0] / 2 + each[1:].sum(0) / 10
    assert torch.allclose(memit.keys_at([CAPITAL], 0)[0], wanted, rtol=1e-5, atol=1e-6)


def test_memit_spreads_what_is_left_over_its_layers(random_model):
    memit = editor(Memit, random_model(), layers=[0, 1], weight=1e-9)
    found = memit.search([CAPITAL])
    with applied(memit.lm.model, memit.solve([CAPITAL])):
        states = passing(memit.lm, memit.paths, locate(memit.lm, CAPITAL, [""]), 1, 1).states[0]
    before, wanted = found.value[0], (found.value + found.change)[0]
    assert (states - wanted).norm() < 0.7 * (before - wanted).norm() + 1e-6


def test_alphaedit_writes_nothing_outside_the_null_space_and_is_the_direct_solution(random_model):
    alpha = with_moments(editor(AlphaEdit, random_model(), null_below=0.9, ridge=2.0))
    covariance = alpha.moments._moments[0]
    values, vectors = torch.linalg.eigh(covariance)
    null = vectors[:, values < 0.9]
    assert 0 < null.shape[1] < len(covariance)
    torch.manual_seed(1)
    keys, left = torch.randn(3, len(covariance), dtype=torch.float64), torch.randn(3, 32, dtype=torch.float64)
    alpha._earlier = {0: torch.randn(2, len(covariance), dtype=torch.float64)}
    factors = alpha.spread(0, keys, left)
    delta = factors.left @ factors.right
    projector = null @ null.T
    both = keys.T @ keys + alpha._earlier[0].T @ alpha._earlier[0]
    direct = torch.linalg.solve(projector @ both + 2.0 * torch.eye(len(covariance)), projector @ keys.T @ left).T
    assert (delta - direct).norm() <= 1e-8 * direct.norm()
    assert (delta @ vectors[:, values >= 0.9]).norm() <= 1e-9 * delta.norm()


def test_alphaedit_holds_earlier_keys_within_a_sequence_and_forgets_them_after(random_model):
    alpha = editor(AlphaEdit, random_model(), null_below=10.0, ridge=1.0)
    alone = alpha.solve([CURRENCY])
    with alpha.sequence() as grow:
        grow([CAPITAL])
        assert alpha._earlier[0].shape[0] == 1
        inside = alpha.solve([CURRENCY])
    assert not alpha._earlier
    again = alpha.solve([CURRENCY])
    (name,) = alone
    assert torch.equal(again[name], alone[name])
    assert not torch.allclose(inside[name], alone[name])


@pytest.mark.parametrize("method", [Rome, RRome, Memit, AlphaEdit])
@pytest.mark.parametrize("architecture", ["gpt2", "llama", "gemma2"])
def test_two_edits_of_one_subject_are_solved_and_the_model_stays_as_it_was(method, architecture, random_model):
    model = random_model(architecture)
    made = editor(method, model, **({"null_below": 10.0} if method is AlphaEdit else {}))
    before = state_of(made.materials)
    deltas = made.solve([CAPITAL, SAME_SUBJECT])
    check_same(before, state_of(made.materials), "after solving")
    assert all(delta.isfinite().all() and delta.any() for delta in deltas.values())


@pytest.mark.parametrize("method", [Memit, AlphaEdit])
def test_values_are_not_spread_over_layers_with_a_norm_behind_the_mlp(method, random_model):
    with pytest.raises(BadSettings, match=rf"a norm between MLP.*--set {method.name}.layers=\[1\]"):
        editor(method, random_model("gemma2"), layers=[0, 1])


@pytest.mark.parametrize("method", [Rome, Memit])
def test_nothing_is_foreseen_of_no_edits(method, random_model):
    made = editor(method, random_model())
    assert made.foresee([(), ()]).tokens == 0
    assert made.solve([]) == {}


@pytest.mark.parametrize("method", [Rome, Memit])
def test_each_solved_in_company_is_what_it_is_alone(method, random_model):
    made = editor(method, random_model())
    for edit, deltas in zip([CAPITAL, CURRENCY], made.solve_each([CAPITAL, CURRENCY]), strict=True):
        for name, delta in made.solve([edit]).items():
            assert (delta - deltas[name]).norm() <= 1e-4 * delta.norm()


@pytest.mark.parametrize("method", [Rome, Memit])
def test_an_edit_foreseen_in_company_is_what_it_is_alone_and_one_that_cannot_be_fails_alone(method, random_model):
    made, alone = editor(method, random_model()), editor(method, random_model())
    bad = CAPITAL.model_copy(update={"id": "bad", "prompt": "The capital is"})
    for sets, foreseen in (([[CAPITAL], [SAME_SUBJECT, CURRENCY]], 2), ([[CAPITAL], [bad], [CURRENCY]], 0)):
        made.foresee(sets)
        assert len(made._foreseen) == foreseen
        for edits in sets:
            if edits == [bad]:
                with pytest.raises(BadData, match="edit 'bad' cannot be written at its subject"):
                    made.solve(edits)
                continue
            for name, delta in alone.solve(edits).items():
                assert (made.solve(edits)[name] - delta).norm() <= 1e-4 * delta.norm()


def test_what_was_foreseen_of_the_clean_model_is_not_used_in_a_sequence(random_model):
    memit = editor(Memit, random_model())
    memit.foresee([[CURRENCY]])
    clean = memit.search([CURRENCY])
    with memit.sequence() as grow:
        grow([CAPITAL])
        inside = memit.search([CURRENCY])
    assert not torch.equal(inside.value, clean.value)


def test_a_model_that_does_more_to_its_logits_is_refused(random_model):
    with pytest.raises(BadSettings, match="logits of model type 'opt' are not what"):
        editor(Rome, random_model("opt"))


@pytest.mark.parametrize("method", [Rome, Memit])
def test_an_unknown_architecture_works_once_its_six_names_are_read_from_a_file(
    method, random_model, monkeypatch, tmp_path
):
    model = random_model("gpt2")
    wanted = editor(method, model).solve([CAPITAL])
    monkeypatch.setattr(model.lm.model.config, "model_type", "unheard_of")
    with pytest.raises(BadSettings, match=r"'unheard_of' is not known.*\[architecture\]"):
        editor(method, model)
    lines = [f'{name} = "{getattr(ARCHITECTURE_TABLE["gpt2"], name)}"' for name in NAMES]
    (tmp_path / "mine.toml").write_text("\n".join(["[architecture]", *lines]), encoding="utf-8")
    for name, delta in editor(method, model, **read_settings(tmp_path / "mine.toml")).solve([CAPITAL]).items():
        assert torch.equal(delta, wanted[name])


def test_rome_on_two_layers_is_refused(random_model):
    with pytest.raises(BadSettings, match="'rome' writes to one layer, seen layers: \\[0, 1\\]"):
        editor(Rome, random_model(), layers=[0, 1]).solve([CAPITAL])


def test_factors_are_turned_for_a_matrix_that_keeps_inputs_first(random_model):
    module = random_model("gpt2").lm.model.get_submodule("transformer.h.0.mlp.c_proj")
    left, right = torch.randn(module.weight.shape[1], 1), torch.randn(1, module.weight.shape[0])
    assert Factors(left, right).dense(module).shape == module.weight.shape


def test_the_embedded_model_takes_rank_one_and_mass_edits():
    from emend.agents.llm import load_model

    model: Any = load_model(f"hf:{model_folder()}", device="cpu", max_new_tokens=8)
    try:
        assert Rome(Materials(model=model)).settings.statistics == "tinyworld"
    finally:
        model.close()


def test_a_prefix_is_kept_apart_from_the_prompt(random_model):
    assert editor(Rome, random_model(), prefixes=["It rained.", "So. "]).prefixes == ("", "It rained. ", "So. ")


def test_contexts_are_as_long_as_asked_with_the_words_they_begin_with(random_model, monkeypatch):
    lm, lengths = random_model().lm, []
    generate = lm.model.generate

    def heard(**asked):
        said = generate(**asked)
        lengths.append((asked["input_ids"].shape[1], said.shape[1]))
        return said

    monkeypatch.setattr(lm.model, "generate", heard)
    prefixes_of(lm, [(12, 5), (1, 1)])
    openers, whole = zip(*lengths, strict=True)
    assert whole[:5] == (12,) * 5 and whole[5] == openers[5] + 1  # of an opener that is longer, one token more


def test_what_was_sampled_for_a_model_goes_with_it(tmp_path):
    made: Any = load_model(f"hf:{tiny_random_lm('llama', tmp_path, window=96)}", device="cpu")
    assert len(prefixes_of(made.lm, [(4, 2)])) == 3
    gone = ref(made.lm)
    made.close()
    del made
    gc.collect()
    assert gone() is None
