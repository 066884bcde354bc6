"""The gate over a sentence encoder: the nearest text, whether any text is meant, how it is kept."""

import json

import numpy as np
import pytest

from emend.agents.scope.base import WEIGHTS
from emend.agents.scope.examples import ScopeExample, decisions
from emend.agents.scope.gate import NEAR_FEATURES, GatedScope, ScoredTexts
from emend.agents.scope.load import load_scope
from emend.agents.scope.train import train_scope
from emend.memory.embeddings.embed import load_embedding
from emend.memory.errors import BadData
from tests.memory.tiny import tiny_bert


class Dense:
    """Three dimensions: rivers, ages, anything else; enough to see that what a question is after counts."""

    identity = "dense/3"

    def documents(self, texts):
        rows = [["river" in text.lower(), "old" in text, 0.5] for text in texts]
        found = np.asarray(rows, np.float32).reshape(len(texts), 3)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    queries = documents


RIVERS = [f"The river of Land{n} is Aske{n}." for n in range(40)]
EXAMPLES = [
    example
    for n in range(40)
    for example in (
        ScopeExample(f"Which river flows through Land{n}?", n),
        ScopeExample(f"How old is the mayor of Land{n}?", None, n),
    )
]


def test_the_nearest_text_is_the_one_that_the_sum_of_cosine_stems_and_names_puts_first():
    found = ScoredTexts(Dense(), RIVERS).nearest("Which river flows through Land7?")
    assert found.place == 7 and found.scores.argmax() == 7 and found.scores.shape == (40,)
    told = dict(zip(NEAR_FEATURES, found.features, strict=False))
    assert found.features.shape == (len(NEAR_FEATURES) + 3,)
    assert told["score"] == pytest.approx(found.scores.max())
    assert told["lead"] == pytest.approx(np.sort(found.scores)[-1] - np.sort(found.scores)[-2])
    assert told["share"] == pytest.approx(-np.log(np.exp(found.scores - found.scores.max()).sum()), abs=1e-5)
    assert told["name_share"] == 1 and told["no_names"] == 0
    assert np.linalg.norm(found.features[len(NEAR_FEATURES) :]) == pytest.approx(3**0.5, abs=1e-5)
    among = ScoredTexts(Dense(), RIVERS).nearest("Which river flows through Land7?", [3, 5])
    assert among.place in (3, 5) and among.scores.shape == (2,)


def test_a_question_with_an_edits_name_but_another_relation_is_out_of_scope():
    scope, held_out = train_scope(RIVERS, EXAMPLES, Dense())
    assert isinstance(scope, GatedScope)
    assert np.mean([one.right for one in held_out]) == 1
    texts = [text.replace("Land", "Isle") for text in RIVERS]
    asked = [ScopeExample(f"Which river flows through Isle{n}?", n) for n in range(40)]
    asked += [ScopeExample(f"How old is the mayor of Isle{n}?", None) for n in range(40)]
    assert np.mean([one.right for one in decisions(scope, texts, asked)]) == 1


def test_the_nearest_text_has_the_gates_probability_and_the_others_less():
    scope = train_scope(RIVERS, EXAMPLES, Dense()).scope
    question = "Which river flows through Land7?"
    probabilities = scope.over(RIVERS)(question)
    features = ScoredTexts(Dense(), RIVERS).nearest(question).features
    assert probabilities.shape == (40,) and probabilities.argmax() == 7
    assert probabilities[7] == pytest.approx(1 / (1 + np.exp(-features @ scope.weights)), abs=1e-5)
    assert (np.delete(probabilities, 7) < probabilities[7]).all() and (probabilities >= 0).all()
    assert scope.over([])(question).shape == (0,)


def test_texts_of_one_group_are_held_out_together():
    apart = train_scope(RIVERS, EXAMPLES, Dense(), groups=[str(n % 2) for n in range(40)]).held_out
    assert 0.5 not in {one.probability for one in apart}
    together = train_scope(RIVERS, EXAMPLES, Dense(), groups=["all"] * 40).held_out
    assert {one.probability for one in together} == {0.5}  # nothing was left to learn from


def test_questions_whose_own_text_is_not_the_nearest_teach_the_gate_nothing():
    wrong = [*EXAMPLES, *(ScopeExample(f"How old is the mayor of Land{n}?", (n + 1) % 40) for n in range(40))]
    one, other = (train_scope(RIVERS, told, Dense()).scope for told in (EXAMPLES, wrong))
    assert one.weights.tolist() == pytest.approx(other.weights.tolist(), abs=1e-6)


def test_a_gate_is_saved_and_loaded_exactly_and_belongs_to_its_encoder(tmp_path):
    folder = str(tiny_bert(tmp_path / "encoder"))
    scope = train_scope(RIVERS[:5], EXAMPLES[:10], load_embedding(folder), folder).scope
    scope.save(tmp_path / "scope")
    loaded = load_scope(tmp_path / "scope")
    assert isinstance(loaded, GatedScope)
    assert loaded.identity == scope.identity and loaded.threshold == scope.threshold
    question = "Which river flows through Land3?"
    assert loaded.over(RIVERS)(question).tolist() == scope.over(RIVERS)(question).tolist()
    assert sorted(path.name for path in (tmp_path / "scope").iterdir()) == ["scope.json", WEIGHTS]
    settings = json.loads((tmp_path / "scope" / "scope.json").read_text())
    assert settings["form"] == "gated"
    (tmp_path / "scope" / "scope.json").write_text(json.dumps(settings | {"form": "embedding"}))
    with pytest.raises(BadData, match="6 are needed"):
        load_scope(tmp_path / "scope")
