"""CounterFact's GE, RS and S: on numbers worked out by hand, and against the library that the released code uses."""

import json
import math

import numpy as np
import pytest

from emend.evals.case import Record
from emend.evals.metrics.estimate import harmonic
from emend.evals.metrics.published.counterfact import References, consistency, entropy, fluency, similarity, words
from emend.memory.errors import BadData, MissingData

TEXTS = [
    "The cello and the flute: a cello plays.",
    "A cello plays on; flutes wait in the hall 12.",
    "the Hall of the cello",
]


def test_entropy_is_in_bits_and_zero_for_too_few_words():
    assert entropy("a b a b a".split(), 2) == 1.0  # ab ba ab ba
    assert entropy("a b c d e".split(), 2) == 2.0
    assert entropy("a a a a".split(), 3) == 0.0
    assert entropy(["a"], 2) == entropy([], 2) == 0.0


def test_fluency_weighs_trigrams_twice_and_takes_the_mean():
    text = "one two three four five"
    assert fluency(text) == pytest.approx((2 / 3 * 2 + 4 / 3 * math.log2(3)) / 2)
    assert fluency("word") == 0.0
    assert fluency("so it goes and " * 20) < fluency(" ".join(f"word{n}" for n in range(80)))


def test_words_are_split_from_their_marks_and_contractions_in_two():
    assert words("She didn't go, it's late.") == ["She", "did", "n't", "go", ",", "it", "'s", "late", "."]
    assert words("Édouard O'Neal's well-known tune...") == [
        "E\u0301douard",
        "O'Neal",
        "'s",
        "well-known",
        "tune",
        "...",
    ]


def test_similarity_is_that_of_scikit_learn_with_given_weights():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    vectoriser = text.TfidfVectorizer().fit(TEXTS)
    weights = {word: float(vectoriser.idf_[place]) for word, place in vectoriser.vocabulary_.items()}
    for one in TEXTS:
        for other in [*TEXTS, "Cello unheard flute"]:
            left, right = vectoriser.transform([one, other]).toarray()
            assert similarity(one, other, weights) == pytest.approx(float(left @ right), abs=1e-12)
    assert similarity("nothing known", TEXTS[0], weights) is None


@pytest.fixture
def folder(tmp_path):
    samples = [{"text": "The cello sings."}, {"text": "A cello and a bow."}]
    groups = [{"relation_id": "P1303", "target_id": "Q8371", "samples": samples}]
    (tmp_path / "attribute_snippets.json").write_text(json.dumps(groups))
    (tmp_path / "tfidf_vocab.json").write_text(json.dumps({"cello": 1, "bow": 0, "rain": 2}))
    np.save(tmp_path / "idf.npy", np.array([2.0, 1.0, 3.0]))
    return tmp_path


def said(case, answer, prompt="Rurik plays the", reference="P1303/Q8371", editor="rome"):
    return Record(
        unit=f"{editor}{case}", of=1, case=case, probe="p", kind="generation", editor=editor, model="m", setting="s",
        mode="single", prompt=prompt, gold=("cello",), answer=answer, tags={"reference": reference},
    )  # fmt: skip


def test_consistency_compares_all_texts_of_a_case_with_all_references(folder):
    references = References.read(folder)
    assert references.weights == {"bow": 2.0, "cello": 1.0, "rain": 3.0}
    records = [
        said("a", "cello"),
        said("a", "bow"),
        said("b", "rain"),
        said("c", None),
        said("d", "cello", reference="?"),
    ]
    found = consistency(records, references)["rome"]
    both = (2 * 1 + 2 * 2) / math.sqrt((4 + 4) * (1 + 4))  # references: cello twice, bow once; texts: each once
    assert found.mean == pytest.approx((both + 0.0) / 2)
    assert (found.n, found.unscored) == (2, 2)


def test_references_that_are_absent_or_broken_are_told(folder):
    (folder / "tfidf_vocab.json").write_text('{"cello": 9}')
    with pytest.raises(BadData, match="fetch the files again"):
        References.read(folder)
    (folder / "idf.npy").unlink()
    with pytest.raises(MissingData, match=r"lacks idf\.npy.*rome\.baulab"):
        References.read(folder)


def test_harmonic_is_of_the_means_over_cases_and_has_an_interval():
    first = ([1.0, 1.0, 0.0, 1.0], ["a", "a", "b", "c"])  # 2/3
    second = ([1.0, 0.0, 1.0], ["a", "b", "c"])  # 2/3
    third = ([1.0, 0.0, 1.0, 0.0], ["a", "a", "b", "b"])  # 1/2
    found = harmonic([first, second, third])
    assert found.mean == pytest.approx(3 / (1.5 + 1.5 + 2))
    assert found.low is not None and found.high is not None and found.low < 0.6 < found.high <= 1
    assert found.n == 11
    assert harmonic([first, second, third]) == found


def test_harmonic_of_a_zero_is_zero_and_of_nothing_nothing():
    ones, zeros = ([1.0] * 10, list(range(10))), ([0.0] * 10, list(range(10)))
    assert harmonic([ones, zeros]).mean == 0.0
    assert harmonic([ones, ([], [])]).mean is None
    sure = harmonic([ones, ones])
    assert (sure.mean, sure.high) == (1.0, 1.0) and sure.low == pytest.approx(0.7225, abs=1e-3)
