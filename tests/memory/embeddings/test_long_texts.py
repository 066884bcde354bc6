"""Texts that are longer than an encoder's window are read in pieces, and that is said once."""

import logging

import numpy as np
import pytest

from emend.memory.embeddings.long_texts import EncoderWindow, LengthWarning, best_of_pieces, mean_of_pieces


class WordTokenizer:
    """A token for each word, and two special ones."""

    def __call__(self, text, **options):
        return {"input_ids": text.split() or list(text)}

    def num_special_tokens_to_add(self):
        return 2


class LetterTokenizer(WordTokenizer):
    """A token for each letter, as for scripts without spaces."""

    def __call__(self, text, **options):
        return {"input_ids": list(text)}


def test_a_text_that_has_room_is_its_only_piece():
    window = EncoderWindow(WordTokenizer(), 10)
    assert window.pieces("one two three four five six seven eight") == ["one two three four five six seven eight"]
    assert EncoderWindow(WordTokenizer(), None).pieces("word " * 9000) == ["word " * 9000]


def test_pieces_are_sentences_of_about_half_the_room():
    text = "One two three. Four five. Six seven eight nine ten. Eleven twelve thirteen."
    pieces = EncoderWindow(WordTokenizer(), 12).pieces(text)
    assert " ".join(pieces) == text and all(len(piece.split()) <= 5 for piece in pieces)


@pytest.mark.parametrize(("tokenizer", "text"), [(WordTokenizer(), "word " * 99), (LetterTokenizer(), "\u57ce" * 99)])
def test_a_sentence_without_end_is_cut(tokenizer, text):
    pieces = EncoderWindow(tokenizer, 22).pieces(text)
    joined = "".join("".join(pieces).split())
    assert joined == "".join(text.split())
    assert all(len(tokenizer(piece)["input_ids"]) <= 10 for piece in pieces)


def test_room_is_kept_for_a_question():
    text = "One two three four. Five six seven eight."
    assert len(EncoderWindow(WordTokenizer(), 12).pieces(text)) == 1
    assert len(EncoderWindow(WordTokenizer(), 12, reserved_tokens=5).pieces(text)) > 1


def test_the_mean_and_the_best_of_pieces():
    pieces = [["a", "b"], ["c"]]
    vectors = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
    assert mean_of_pieces(vectors, pieces, unit=True) == pytest.approx(np.array([[0.5**0.5] * 2, [0.6, 0.8]]))
    assert mean_of_pieces(vectors, pieces, unit=False) == pytest.approx(np.array([[0.5] * 2, [0.6, 0.8]]))
    assert list(best_of_pieces(lambda texts: np.array([1.0, 3.0, 2.0], np.float32), pieces)) == [3, 2]
    assert best_of_pieces(lambda texts: np.zeros(0, np.float32), []).shape == (0,)


def test_long_texts_are_said_once_with_their_number(caplog):
    warning = LengthWarning("minilm", 256, "they are embedded in pieces")
    with caplog.at_level(logging.WARNING):
        for are_long in ([False], [True, False], [True]):
            warning.look(are_long)
    [record] = caplog.records
    assert "256 tokens" in record.getMessage() and "1 of 3 texts" in record.getMessage()
    assert "2 of 4 texts" in warning.note and "pieces" in warning.note
    assert not LengthWarning("minilm", 256, "").note
