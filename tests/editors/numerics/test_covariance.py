"""Warnings about covariances of too little text."""

import pytest
import torch

from emend.editors.numerics.architectures import architecture_of
from emend.editors.numerics.collect_covariance import collect_covariance
from emend.editors.numerics.covariance import KeyCovariance
from emend.editors.parametric.covariance_layers import covariance_settings, edited_layers
from emend.memory.errors import BadSettings

TEXTS = [
    "The capital of France is Paris.",
    "Karo Benn wrote The Silent River, and much else that nobody in France has read.",
    "12 of 345 don't agree; 北京 is the capital of China!",
] * 12


@pytest.mark.parametrize(("texts", "tokens"), [(["Rome."], 4), (["Rome."] * 40, 160), (TEXTS, None)])
def test_statistics_of_too_little_text_are_used_with_one_warning(random_model, tmp_path, caplog, texts, tokens):
    """Of fewer tokens than a key has numbers, or of more that say the same."""
    lm = random_model().lm
    collect_covariance(lm, architecture_of(lm.model), [0, 1], texts, tmp_path)
    made = KeyCovariance(tmp_path)
    for layer in (0, 1):
        made.solve(layer, torch.ones(64, 1, dtype=torch.float64))
        made.null_space(layer, 64, 0.02)
    said = f"is of {tokens} tokens, for keys of 64 numbers, and has no inverse without"
    assert [said in line for line in caplog.messages] == [True] * (tokens is not None)
    assert caplog.text.count("Collect it over more text with `emend covariance`") == len(caplog.messages)


def test_few_tokens_are_warned_of_each_time_and_alphaedit_s_null_space_too(random_model, tmp_path, caplog):
    lm = random_model().lm
    collect_covariance(lm, architecture_of(lm.model), [0], ["Rome."], tmp_path)
    for _ in range(2):
        KeyCovariance(tmp_path).null_space(0, 64, 0.02)
    assert caplog.text.count("tokens, for keys of 64 numbers: do not rely") == 2


@pytest.fixture
def lm(random_model):
    return random_model().lm


def test_the_layers_to_collect_are_those_that_rome_and_memit_write_to(lm):
    assert set(edited_layers(covariance_settings(lm, {}))) == {4, 5, 6, 7, 8}
    named = {"rome": {"layers": [1]}, "memit": {"layers": [0, -1]}}
    assert set(edited_layers(covariance_settings(lm, named))) == {0, 1, -1}


def test_an_editor_that_is_named_decides_alone(lm):
    assert edited_layers(covariance_settings(lm, {"r_rome": {"layers": [1]}})) == [1]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"rome": {"layers": 2}}, "layers"),
        ({"rome": {"layers": "abc"}}, "layers"),
        ({"rome": {"nosuch": 1}}, "unknown setting 'nosuch'"),
        ({"ft": {}}, "'ft', which needs no covariance"),
        ({"rag": {}}, "'rag', which needs no covariance"),
    ],
)
def test_a_setting_that_no_editor_takes_is_refused(lm, named, said):
    with pytest.raises(BadSettings, match=said):
        covariance_settings(lm, named)
