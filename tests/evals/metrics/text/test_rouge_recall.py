"""Recall by ROUGE-L over sentences, as the package `rouge` counts it, by hand."""

import pytest

from emend.evals.metrics.text.rouge_recall import rouge_recall


@pytest.mark.parametrize(
    ("reply", "gold", "recall"),
    [
        ("Ana was born in Brask", "Ana was born in Brask", 1.0),
        ("Ana was born", "Ana was born in Brask", 3 / 5),
        ("In Brask Ana was born", "Ana was born in Brask", 3 / 5),  # `In` is another word than `in`
        ("Brask", "Ana was born in Brask", 1 / 5),
        ("ana WAS born", "Ana was born in Brask", 1 / 5),
        ("", "Ana was born in Brask", 0.0),
        ("Ana was born in Brask", "", 0.0),
        ("a b a b", "a b", 1.0),
        ("b a", "a b", 1 / 2),
        ("a b c d", "a a b b", 1.0),  # different words: a and b
        ("a x b y c", "a b c", 1.0),
        ("one two. three four", "one two three four", 1.0),  # two sentences together
        ("three four. one two", "one two three four", 1.0),  # whatever their order
        ("three four one two", "one two three four", 1 / 2),
        ("one two", "one. two", 1.0),
        ("two one", "one. two", 1.0),  # each sentence of the gold text by itself
        ("Brask,", "Brask", 0.0),  # punctuation is part of a word
        ("Brask", "Brask.", 1.0),  # but a full stop ends a sentence
        ("a. b", "b. a", 1.0),
        ("a b. a c", "a b c", 1.0),
    ],
)
def test_recall_is_the_share_of_different_words(reply: str, gold: str, recall: float):
    assert rouge_recall(reply, gold) == pytest.approx(recall)


@pytest.mark.parametrize("size", range(1, 31))
def test_the_first_words_of_a_text_are_their_share_of_it(size: int):
    gold = [f"word{n}" for n in range(30)]
    assert rouge_recall(" ".join(gold[:size]), " ".join(gold)) == pytest.approx(size / 30)
    assert rouge_recall(" ".join([*gold[:size], *gold[:size]]), " ".join(gold)) == pytest.approx(size / 30)
