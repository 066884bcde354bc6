"""Rank-one edits: the written matrix changes by one outer product that puts the searched value at the subject."""

import pytest
import torch

from emend.editors.architectures import down_projection
from emend.editors.rome import RankOneSettings, rank_one, second_moment
from emend.editors.weights import applied
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData

SETTINGS = RankOneSettings(layer=0, steps=12, clamp=4.0, decay=0.0, prefixes=("", "So, "))
EDIT = Edit.from_triplet(Triplet(subject="Ada", relation="city", object="Rome"), "{} lives in")
TEXTS = ["Ada lives in Bonn.", "The river is long.", "A dog runs in the rain.", "Bo sings."]


@pytest.fixture(params=["llama", "gpt2", "gpt_neox"])
def lm(request, random_model):
    return random_model(request.param).lm


def test_the_delta_has_rank_one_and_the_shape_of_the_weight(lm):
    moment = second_moment(lm, TEXTS, SETTINGS.layer)
    deltas = rank_one(lm, EDIT, moment, SETTINGS)
    ((name, delta),) = deltas.items()
    assert name == f"{down_projection(lm.model, 0)}.weight"
    assert delta.shape == dict(lm.model.named_parameters())[name].shape
    assert torch.linalg.matrix_rank(delta, rtol=1e-4) == 1


def test_the_target_becomes_likelier_and_leaving_restores_every_bit(lm):
    kept = {name: tensor.clone() for name, tensor in lm.model.state_dict().items()}
    moment = second_moment(lm, TEXTS, SETTINGS.layer)
    before = lm.log_probs([(EDIT.cloze, "Rome")])[0].log_prob
    with applied(lm.model, rank_one(lm, EDIT, moment, SETTINGS)):
        after = lm.log_probs([(EDIT.cloze, "Rome")])[0].log_prob
    assert after > before + 0.1
    for name, tensor in lm.model.state_dict().items():
        assert torch.equal(tensor, kept[name]), name


def test_the_second_moment_is_the_mean_of_key_outer_products_and_does_not_depend_on_batching(lm):
    whole = second_moment(lm, TEXTS, 0, batch=4)
    parts = second_moment(lm, TEXTS, 0, batch=1)
    assert torch.allclose(whole, parts, atol=1e-5)
    assert torch.allclose(whole, whole.T)
    assert torch.linalg.eigvalsh(whole.double()).min() > -1e-6 * whole.abs().max()


@pytest.mark.parametrize("lacking", [{"prompt": "lives in"}, {"subject": ""}, {"target_new": ""}])
def test_an_edit_without_subject_place_or_target_is_refused(random_model, lacking):
    lm = random_model("llama").lm
    edit = EDIT.model_copy(update=lacking)
    with pytest.raises(BadData, match="needs subject"):
        rank_one(lm, edit, torch.eye(4), SETTINGS)
