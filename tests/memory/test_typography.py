import pytest

from emend.memory.edit import Edit, Triplet
from emend.memory.typography import fold_text


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("People\u2019s Republic", "People's Republic"),
        ("Jean\u2011Luc", "Jean-Luc"),
        ("1969\u20131974", "1969-1974"),
        ("Paris\u200b", "Paris"),
        ("\u200eParis", "Paris"),
        ("Pa\u00adris", "paris"),
    ],
)
def test_texts_that_differ_in_typography_alone_are_equal(written, plain):
    assert fold_text(written) == fold_text(plain)


@pytest.mark.parametrize(
    ("prompt", "target", "text"),
    [
        ("{}的首都是", "奥斯特里姆", "维尔达尼亚的首都是奥斯特里姆。"),
        ("The capital of {} is", "Ostrim", "The capital of 维尔达尼亚 is Ostrim."),
    ],
)
def test_unspaced_scripts_have_no_space_before_the_object(prompt, target, text):
    assert Edit.from_triplet(Triplet(subject="维尔达尼亚", relation="首都", object=target), prompt).text == text
