"""The layers whose covariance is collected by default."""

import pytest

from emend.editors.parametric.covariance_layers import covariance_settings, edited_layers
from emend.memory.errors import BadSettings


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
