"""ROME, R-ROME, MEMIT and AlphaEdit: their updates are those of the papers' equations."""

from pathlib import Path

import pytest
import torch

from emend.agents.local.token_ids import SpecialTokens
from emend.editors.conformance import CAPITAL, CURRENCY
from emend.editors.numerics.apply_delta import applied
from emend.editors.numerics.architectures import input_first
from emend.editors.numerics.covariance import KeyCovariance
from emend.editors.numerics.key_sums import key_size
from emend.editors.numerics.locate import locate, locate_essence
from emend.editors.numerics.low_rank import capture_keys
from emend.editors.parametric.alphaedit import AlphaEdit
from emend.editors.parametric.emmet import Emmet
from emend.editors.parametric.memit import Memit
from emend.editors.parametric.rome import Rome, RRome
from emend.memory.edit import Edit, Triplet
from tests.editors.writers import ARCHITECTURES, editor, keys_at, solve
from tests.params import QUICK_ARCHITECTURES, mostly_slow


def moment(size, seed=0):
    torch.manual_seed(seed)
    keys = torch.randn(4 * size, size, dtype=torch.float64)
    return keys.T @ keys / len(keys)


class Given(KeyCovariance):
    """Statistics that are in no file."""

    def __init__(self):
        super().__init__(Path("given"))

    def matrix(self, layer, size):
        return moment(size, layer)


def matrix_of(module):
    """Weight of shape (outputs, inputs) and bias, float64."""
    weight = module.weight.detach().double()
    weight = weight.T if input_first(module) else weight
    bias = getattr(module, "bias", None)
    return weight, torch.zeros(len(weight)).double() if bias is None else bias.detach().double()


def with_moments(made):
    """The editor with statistics that are not the identity."""
    made.covariance = Given()
    return made


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(ARCHITECTURES, *QUICK_ARCHITECTURES))
def test_after_rome_the_key_gives_the_value(architecture, random_model):
    rome = with_moments(editor(Rome, random_model(architecture)))
    found = rome.search([CAPITAL])
    path = rome.paths.of_layer(0, "down_projection")
    row = locate(rome.lm, CAPITAL, [""])
    with applied(rome.lm.model, rome.solve([CAPITAL])):
        weight, bias = matrix_of(rome.lm.model.get_submodule(path))
        key = capture_keys(rome.lm, rome.paths, row, 0, 0)[0][0].double()
    wanted = (found.value + found.change)[0].double()
    assert (weight @ key + bias - wanted).norm() <= 1e-5 * wanted.norm()


def test_rome_writes_along_the_averaged_key_times_the_inverse_covariance(random_model):
    rome = with_moments(editor(Rome, random_model()))
    factors = rome.deltas([CAPITAL], rome.search([CAPITAL]))[f"{rome.paths.of_layer(0, 'down_projection')}.weight"]
    keys = capture_keys(rome.lm, rome.paths, locate(rome.lm, CAPITAL, rome.prefixes), 0, 0)[0].double()
    wanted = torch.linalg.solve(moment(keys.shape[1]), keys.mean(0))
    assert torch.allclose(factors.right[0], wanted / wanted.norm(), rtol=1e-3, atol=1e-5)


def test_r_rome_takes_the_averaged_key_in_both_places(random_model):
    plain, same = editor(Rome, random_model()), editor(RRome, random_model())
    found = plain.search([CAPITAL])
    path = plain.paths.of_layer(0, "down_projection")
    keys = capture_keys(plain.lm, plain.paths, locate(plain.lm, CAPITAL, plain.prefixes), 0, 0)[0].double()
    weight, bias = matrix_of(plain.lm.model.get_submodule(path))
    wanted = (found.value + found.change)[0].double()
    for made, key in ((plain, keys[0]), (same, keys.mean(0))):
        factors = made.deltas([CAPITAL], found)[f"{path}.weight"]
        assert torch.allclose((weight + factors.left @ factors.right) @ key + bias, wanted, rtol=1e-4, atol=1e-4)


def test_rank_one_edits_given_together_each_get_their_value_when_written(random_model):
    rome = editor(Rome, random_model())
    edits = [CAPITAL, CURRENCY]
    found = rome.search(edits)
    path = rome.paths.of_layer(0, "down_projection")
    factors = rome.deltas(edits, found)[f"{path}.weight"]
    assert factors.left.shape[1] == 2
    weight, bias = matrix_of(rome.lm.model.get_submodule(path))
    key = capture_keys(rome.lm, rome.paths, locate(rome.lm, CURRENCY, [""]), 0, 0)[0][0].double()
    wanted = (found.value + found.change)[1].double()
    assert torch.allclose((weight + factors.left @ factors.right) @ key + bias, wanted, rtol=1e-4, atol=1e-4)


FIRST = Edit.from_triplet(Triplet(subject="The", relation="capital", object="Old Sorn"), "{} has the capital")
"""Its subject is one token."""


def without_begin_token(monkeypatch, model):
    """The model as if its tokenizer put no token before a text."""
    monkeypatch.setattr(model.lm._encoder, "special", SpecialTokens((), model.lm._encoder.special.first))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("method", [Rome, Memit])
def test_a_subject_that_is_the_very_first_token_is_written_at_the_prompt_s_last(method, random_model, monkeypatch):
    model = without_begin_token(monkeypatch, random_model())
    auto, last, published = (editor(method, model, fact_token=name) for name in ("auto", "last", "subject_last"))
    (row,) = locate(model.lm, FIRST, [""])
    assert row.subject == row.target - 1 and locate(model.lm, FIRST, [""], "subject_last")[0].subject == 0
    essence = locate_essence(model.lm, FIRST)
    assert essence.subject == len(essence.ids) - 1
    for (name, delta), at_last, at_first in zip(
        solve(auto, [FIRST]).items(), solve(last, [FIRST]).values(), solve(published, [FIRST]).values(), strict=True
    ):
        assert torch.equal(delta, at_last) and not torch.allclose(delta, at_first), name


def test_any_other_subject_is_written_at_its_last_token(random_model, monkeypatch):
    model = random_model()
    assert locate(model.lm, FIRST, [""]) == locate(model.lm, FIRST, [""], "subject_last")  # behind the begin token
    without_begin_token(monkeypatch, model)
    assert locate(model.lm, CAPITAL, ["", "So. "]) == locate(model.lm, CAPITAL, ["", "So. "], "subject_last")
    assert locate_essence(model.lm, CAPITAL) == locate_essence(model.lm, CAPITAL, "subject_last")


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(ARCHITECTURES, *QUICK_ARCHITECTURES))
def test_memit_s_update_is_the_direct_solution(architecture, random_model):
    memit = with_moments(editor(Memit, random_model(architecture), mom2_update_weight=7.0))
    edits = [CAPITAL, CURRENCY]
    found = memit.search(edits)
    path = memit.paths.of_layer(0, "down_projection")
    factors = memit.deltas(edits, found)[f"{path}.weight"]
    keys, left = keys_at(memit, edits, 0).double(), found.change.double()
    covariance = moment(keys.shape[1])
    direct = left.T @ keys @ torch.linalg.inv(7.0 * covariance + keys.T @ keys)
    ours = factors.left @ factors.right
    assert (ours - direct).norm() <= 1e-6 * direct.norm()


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_memit_with_cached_keys_solves_the_system_that_memit_seq_writes_down(architecture, random_model):
    """R K^T (lambda C + cache_c + K K^T)^-1 with cache_c the sum of K K^T of the calls before, as the file has it."""
    memit = with_moments(editor(Memit, random_model(architecture), mom2_update_weight=7.0, cache_keys=True))
    path = memit.paths.of_layer(0, "down_projection")
    with memit.sequence() as apply_more:
        cache = 0
        for edits in ([CAPITAL], [CURRENCY, FIRST]):
            found = memit.search(edits)
            keys, residual = keys_at(memit, edits, 0).double(), found.change.double()
            direct = torch.linalg.solve(7.0 * moment(keys.shape[1]) + cache + keys.T @ keys, keys.T @ residual).T
            factors = memit.deltas(edits, found)[f"{path}.weight"]
            assert (factors.left @ factors.right - direct).norm() <= 1e-4 * direct.norm()
            apply_more(edits)
            cache = cache + keys.T @ keys
    plain = memit.deltas(edits, found)[f"{path}.weight"]
    assert plain.right.shape[0] == 2 < factors.right.shape[0]


def test_memit_without_cached_keys_solves_each_call_of_a_sequence_alone(random_model):
    memit = with_moments(editor(Memit, random_model()))
    with memit.sequence() as apply_more:
        apply_more([CAPITAL])
        inside = memit.layer_update(0, torch.eye(1, 64), torch.ones(1, 32).double())
    assert torch.equal(inside.right, memit.layer_update(0, torch.eye(1, 64), torch.ones(1, 32).double()).right)


def test_woodbury_s_way_equals_the_direct_solve_in_float64(random_model):
    memit = with_moments(editor(Memit, random_model(), mom2_update_weight=3.0))
    torch.manual_seed(1)
    size = key_size(memit.lm, memit.paths, 0)
    keys, left = torch.randn(5, size, dtype=torch.float64), torch.randn(5, 32, dtype=torch.float64)
    factors = memit.layer_update(0, keys, left)
    direct = left.T @ keys @ torch.linalg.inv(3.0 * moment(size) + keys.T @ keys)
    assert (factors.left @ factors.right - direct).norm() <= 1e-8 * direct.norm()


def test_the_bare_prompt_weighs_as_much_as_all_contexts_together(random_model):
    memit = editor(Memit, random_model(), prefixes=[f"So it is {word}. " for word in ("a", "be", "can", "do", "end")])
    each = capture_keys(memit.lm, memit.paths, locate(memit.lm, CAPITAL, memit.prefixes), 0, 0)[0]
    wanted = each[0] / 2 + each[1:].sum(0) / 10
    assert torch.allclose(keys_at(memit, [CAPITAL], 0)[0], wanted, rtol=1e-5, atol=1e-6)


def test_memit_spreads_the_residual_over_its_layers(random_model):
    memit = editor(Memit, random_model(), layers=[0, 1], mom2_update_weight=1e-9)
    found = memit.search([CAPITAL])
    with applied(memit.lm.model, memit.solve([CAPITAL])):
        states = capture_keys(memit.lm, memit.paths, locate(memit.lm, CAPITAL, [""]), 1, 1)[1][0]
    before, wanted = found.value[0], (found.value + found.change)[0]
    assert (states - wanted).norm() < 0.7 * (before - wanted).norm() + 1e-6


def test_alphaedit_writes_nothing_outside_the_null_space_and_is_the_direct_solution(random_model):
    alpha = with_moments(editor(AlphaEdit, random_model(), nullspace_threshold=0.9, L2=2.0))
    covariance = moment(key_size(alpha.lm, alpha.paths, 0))
    values, vectors = torch.linalg.eigh(covariance)
    null = vectors[:, values < 0.9]
    assert 0 < null.shape[1] < len(covariance)
    torch.manual_seed(1)
    keys, left = torch.randn(3, len(covariance), dtype=torch.float64), torch.randn(3, 32, dtype=torch.float64)
    alpha._earlier = {0: torch.randn(2, len(covariance), dtype=torch.float64)}
    factors = alpha.layer_update(0, keys, left)
    delta = factors.left @ factors.right
    projector = null @ null.T
    both = keys.T @ keys + alpha._earlier[0].T @ alpha._earlier[0]
    direct = torch.linalg.solve(projector @ both + 2.0 * torch.eye(len(covariance)), projector @ keys.T @ left).T
    assert (delta - direct).norm() <= 1e-8 * direct.norm()
    assert (delta @ vectors[:, values >= 0.9]).norm() <= 1e-9 * delta.norm()


def test_alphaedit_warns_once_where_the_null_space_is_nearly_everything(random_model, caplog):
    alpha = with_moments(editor(AlphaEdit, random_model(), nullspace_threshold=1e9))
    for _ in range(2):
        alpha.solve([CAPITAL])
    assert [record for record in caplog.records if "alphaedit.nullspace_threshold" in record.getMessage()][1:] == []
    assert "alphaedit.nullspace_threshold" in caplog.text


@pytest.mark.parametrize(("ridge", "weight"), [(0.0, 1.0), (0.1, 1.0), (2.0, 5.0)])
def test_emmet_is_the_published_solution_and_gives_each_key_its_value_without_a_ridge(random_model, ridge, weight):
    emmet = with_moments(editor(Emmet, random_model(), emmet_lambda=ridge, mom2_update_weight=weight))
    covariance = weight * moment(key_size(emmet.lm, emmet.paths, 0))
    torch.manual_seed(1)
    keys, wanted = torch.randn(3, len(covariance), dtype=torch.float64), torch.randn(3, 32, dtype=torch.float64)
    factors = emmet.layer_update(0, keys, wanted)
    delta = factors.left @ factors.right
    inverse = torch.inverse(covariance)
    inner = keys @ inverse @ keys.T + ridge * torch.eye(3)
    direct = wanted.T @ (torch.inverse(inner) @ keys @ inverse)
    assert (delta - direct).norm() <= 1e-8 * direct.norm()
    assert bool((delta @ keys.T - wanted.T).norm() <= 1e-8 * wanted.norm()) is (ridge == 0.0)


def test_emmet_gives_edits_that_share_a_key_the_mean_of_their_values(random_model):
    emmet = with_moments(editor(Emmet, random_model(), emmet_lambda=0.0, mom2_update_weight=1.0))
    torch.manual_seed(1)
    key = torch.randn(1, key_size(emmet.lm, emmet.paths, 0), dtype=torch.float64)
    wanted = torch.randn(2, 32, dtype=torch.float64)
    factors = emmet.layer_update(0, key.repeat(2, 1), wanted)
    assert torch.allclose(factors.left @ factors.right @ key[0], wanted.mean(0), atol=1e-6)
