"""Pieces of long texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emend.memory.text_pieces import SENTENCE_ENDS, cut_text

TEXTS = st.text(st.sampled_from("ab .!?\n,;\u0964\u3002\u0e01\u0e35\u200d\U0001f600\u0301"), max_size=300)


@given(TEXTS, st.integers(1, 40))
def test_pieces_join_to_the_text_and_none_is_too_long(text: str, longest: int):
    pieces = cut_text(text, longest)
    assert "".join(pieces) == text and max(map(len, pieces)) <= longest


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Title\n\nA line\nand another. The end is here", "Title\n\nA line\nand another. "),
        ("One paragraph.\n\nThe second one is longer", "One paragraph.\n\n"),
        ("It costs 3.50 in all and nothing is left of it", "It costs 3.50 in all and "),
        ("पहला वाक्य। दूसरा वाक्य यहाँ है", "पहला वाक्य। "),
        ("أين الميناء؟ هنا عند النهر الكبير", "أين الميناء؟ "),
    ],
)
def test_a_text_is_cut_at_the_best_place(text: str, first: str):
    assert cut_text(text, len(text) * 2 // 3)[0] == first


def test_a_cut_by_length_parts_no_letter_from_its_marks():
    pieces = cut_text("\u0e01\u0e35\u0e48" * 50, 10)
    assert all(piece.startswith("\u0e01") for piece in pieces)


def test_sentences_end_as_unicode_has_it():
    regex = pytest.importorskip("regex")
    ends = {letter for letter in map(chr, range(0x10000)) if regex.match(r"\p{Sentence_Terminal}", letter)}
    assert ends - set(SENTENCE_ENDS) == set(".!?\u2024")
