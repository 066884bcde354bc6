"""The scope classifier: what it looks at, how it learns, where its threshold lies, how it is kept."""

import json

import numpy as np
import pytest

from emend.agents.scope.base import save_threshold
from emend.agents.scope.examples import ScopeExample, choose_threshold, decisions, examples_of
from emend.agents.scope.features import PRIOR, EmbeddingScope, Lexicon, names_in, without_names
from emend.agents.scope.load import load_scope
from emend.agents.scope.logistic import fit
from emend.agents.scope.train import train_scope
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData, BadSettings, MissingData

RIVERS = [f"The river of Land{n} is Aske{n}." for n in range(20)]
EXAMPLES = [
    example
    for n in range(20)
    for example in (
        ScopeExample(f"Which river flows through Land{n}?", n),
        ScopeExample(f"Which river flows through Shore{n}?", None, n),
    )
]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("What is the capital of Veldania?", ["veldania"]),
        ("The capital of Port Lunden is", ["port", "lunden"]),
        ("Is Ann's river long?", ["ann"]),
        ("How did prices change in 1987?", ["1987"]),
        ("who plays the cello", []),
        ("", []),
    ],
)
def test_names_are_the_words_with_capitals_or_digits(question, names):
    assert names_in(question) == names


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Who is the wife of Ann Li?", "Who is the wife of X?"),
        ("How will Ann Li's new Sorn Ltd change trade in 2030?", "How will X's new X change trade in X?"),
        ("Veldania's river is long.", "X's river is long."),
        ("what is it?", "what is it?"),
        ("", ""),
    ],
)
def test_a_question_without_its_names_keeps_its_relation(text, plain):
    assert without_names(text) == plain


def test_word_features_are_shares_of_the_question_in_each_text():
    shares = Lexicon(["The capital of Veldania is Ostrim.", "The capital of Sorn is Lunden."]).features(
        "What is the capital of Veldania?"
    )
    assert shares[:, 0].tolist() == [1.0, 0.0] and shares[:, 1].tolist() == [0.0, 0.0]
    assert shares[:, 2].tolist() == [1.0, 0.5]
    assert shares[0, 3] == pytest.approx(1.0) and 0 < shares[1, 3] < 0.5


def test_untrained_it_chooses_the_text_with_the_names_of_the_question():
    probabilities = EmbeddingScope().over([*RIVERS, "The capital of Veldania is Ostrim."])
    assert probabilities("What is the capital of Veldania?").argmax() == 20
    assert probabilities("What is the capital of Veldania?").max() > 0.5
    assert probabilities("What is the capital of Orland?").max() < 0.5


def test_training_learns_from_examples_and_decides_questions_that_it_has_not_seen():
    scope, held_out = train_scope(RIVERS, EXAMPLES, LexicalEmbedding())
    assert np.mean([one.right for one in held_out]) >= 0.9
    texts = [text.replace("Land", "Isle") for text in RIVERS]
    asked = [ScopeExample(f"Which river flows through Isle{n}?", n) for n in range(20)]
    asked += [ScopeExample(f"Which river flows through Cape{n}?", None) for n in range(20)]
    assert np.mean([one.right for one in decisions(scope, texts, asked)]) >= 0.9


def test_training_twice_gives_the_same_classifier():
    one, other = (train_scope(RIVERS, EXAMPLES, LexicalEmbedding(), seed=3).scope for _ in range(2))
    assert one.identity == other.identity and one.threshold == other.threshold


def test_without_examples_the_weights_are_the_prior_and_one_hardly_changes_them():
    assert train_scope(RIVERS, [], LexicalEmbedding()).scope.weights.tolist() == pytest.approx(list(PRIOR))
    moved = train_scope(RIVERS[:1], EXAMPLES[:1], LexicalEmbedding()).scope.weights
    assert 0 < np.abs(moved - PRIOR).max() < 1


def test_the_weights_are_those_of_a_logistic_regression():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4000, 6)).astype(np.float32)
    true = np.asarray([0.5, -1.0, 2.0, 0.0, 1.0, -2.0])
    labels = (rng.random(4000) < 1 / (1 + np.exp(-features @ true))).astype(np.float32)
    assert fit(features, labels, np.zeros(6), ridge=1e-3) == pytest.approx(true, abs=0.25)


@pytest.mark.parametrize(
    ("best", "low", "high"),
    [
        ([(0, 0.9), (1, 0.8), (0, 0.3), (0, 0.1)], 0.3, 0.8),
        ([(1, 0.2), (1, 0.4), (0, 0.6), (0, 0.9)], 0.9, 1.0),
        ([(1, 0.9), (0, 0.8), (0, 0.3), (0, 0.1)], 0.3, 1.0),
    ],
)
def test_the_threshold_makes_the_most_decisions_right(best, low, high):
    examples = [ScopeExample("", 0), ScopeExample("", 1), ScopeExample("", None), ScopeExample("", None)]
    assert low < choose_threshold(best, examples) < high


def test_a_decision_is_correct_only_with_the_questions_text_or_with_none_out_of_scope():
    scope = EmbeddingScope(threshold=0.5)
    texts = ["The capital of Veldania is Ostrim.", "The river of Orland is Aske."]
    asked = [
        ScopeExample("What is the capital of Veldania?", 0),
        ScopeExample("What is the capital of Veldania?", 1),
        ScopeExample("What is the capital of Veldania?", None),
        ScopeExample("Who plays the cello?", None),
    ]
    assert [one.right for one in decisions(scope, texts, asked)] == [True, False, False, True]
    narrow = decisions(scope, texts, asked[:2], candidates=[[1], []])
    assert [(one.place, one.right) for one in narrow] == [(1, False), (-1, False)]


def test_examples_come_from_questions_texts_and_whether_they_belong_together():
    texts, examples = examples_of([("A?", "a", True), ("B?", "b", False), ("C?", "a", False)])
    assert texts == ["a", "b"]
    assert examples == [
        ScopeExample("A?", 0),
        *(ScopeExample(q, None, at, alone=True) for q, at in (("B?", 1), ("C?", 0))),
    ]


def test_a_question_about_a_single_known_text_is_compared_with_that_text():
    texts = ["The capital of Veldania is Ostrim.", "The river of Orland is Aske."]
    asked = [
        ScopeExample("What is the capital of Veldania?", 0),
        ScopeExample("The river of Orland is", None, 0, alone=True),
    ]
    assert [one.right for one in train_scope(texts, asked, LexicalEmbedding()).held_out] == [True, True]


def test_an_example_about_no_text_is_refused():
    with pytest.raises(BadData, match="about text 7"):
        train_scope(RIVERS[:2], [ScopeExample("A?", 7)], LexicalEmbedding())


def test_a_classifier_is_saved_and_loaded_exactly(tmp_path):
    trained = train_scope(RIVERS, EXAMPLES, LexicalEmbedding()).scope
    trained.save(tmp_path / "scope")
    loaded = load_scope(tmp_path / "scope")
    assert loaded.identity == trained.identity and loaded.threshold == trained.threshold
    assert loaded.over(RIVERS)("Land3?").tolist() == trained.over(RIVERS)("Land3?").tolist()
    assert sorted(path.name for path in (tmp_path / "scope").iterdir()) == ["scope.json", "scope.safetensors"]
    save_threshold(tmp_path / "scope", 0.25)
    assert load_scope(tmp_path / "scope").threshold == 0.25


def test_the_error_of_a_folder_names_its_fault(tmp_path):
    with pytest.raises(MissingData, match="emend train scope"):
        load_scope(tmp_path)
    EmbeddingScope().save(tmp_path)
    settings = json.loads((tmp_path / "scope.json").read_text())
    (tmp_path / "scope.json").write_text(json.dumps(settings | {"encoder": "another"}))
    with pytest.raises(BadSettings, match="was trained over another"):
        load_scope(tmp_path)
    (tmp_path / "scope.json").write_text("{}")
    with pytest.raises(BadData, match="scope.json"):
        load_scope(tmp_path)
    EmbeddingScope(weights=np.ones(9, np.float32)).save(tmp_path)
    with pytest.raises(BadData, match=r"shape \(9,\), and 6 are needed"):
        load_scope(tmp_path)
    (tmp_path / "scope.safetensors").write_bytes(b"broken")
    with pytest.raises(BadData, match="holds no weights"):
        load_scope(tmp_path)
