"""Teaching an encoder: own edits rise, only an adapter is written, and too little to learn from is refused."""

import json

import pytest

pytest.importorskip("sentence_transformers", reason="pip install 'emend-eval[minilm]'")
pytest.importorskip("peft", reason="pip install 'emend-eval[lora]'")

from emend.agents.scope.encoder_training import EncoderTraining, QuestionPair, train_encoder
from emend.memory.embeddings.embed import SentenceEmbedding, load_embedding
from emend.memory.embeddings.lora_adapter import SETTINGS, WEIGHTS
from emend.memory.errors import BadData
from tests.memory.tiny import tiny_bert

TEXTS = [f"the {word} is in {word}" for word in ("river", "capital", "city", "query", "passage", "zoo", "pub", "inn")]
PAIRS = [
    QuestionPair(f"{head} {word}", place)
    for place, word in enumerate("ants bees cats dogs elks fish goat hens".split())
    for head in ("a", "of")
]
"""Questions that share no word with their text: only what is learned can find it."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("encoder") / "plain")


def trained(encoder, out, **how):
    told = []
    schedule = EncoderTraining(**({"epochs": 120, "batch": 8, "lr": 5e-3} | how))
    train_encoder(SentenceEmbedding(encoder), out, TEXTS, PAIRS, schedule, lambda *step: told.append(step))
    return told


def first(embedding):
    """The share of questions whose own text is the nearest."""
    near = (embedding.queries([pair.question for pair in PAIRS]) @ embedding.documents(TEXTS).T).argmax(1)
    return sum(int(place) == pair.about for place, pair in zip(near, PAIRS, strict=True)) / len(PAIRS)


@pytest.mark.slow
def test_a_meaning_without_shared_words_is_learned_by_the_adapter(encoder, tmp_path):
    told = trained(encoder, tmp_path / "learned")
    assert told[-1] == (240, 240)
    assert {file.name for file in (tmp_path / "learned").iterdir()} == {SETTINGS, WEIGHTS}
    assert first(load_embedding(str(encoder))) < 0.4
    assert first(load_embedding(f"{encoder}+{tmp_path / 'learned'}")) > 0.6


def test_the_adapter_names_its_encoder_and_questions_about_one_edit_alone_teach_nothing(encoder, tmp_path):
    trained(encoder, tmp_path / "learned", epochs=1)
    settings = json.loads((tmp_path / "learned" / SETTINGS).read_text())
    assert settings["base_model_name_or_path"] == "plain"
    with pytest.raises(BadData, match="2 questions about fewer than two edits"):
        train_encoder(SentenceEmbedding(encoder), tmp_path, TEXTS, PAIRS[:2], EncoderTraining())
    train_encoder(SentenceEmbedding(encoder), tmp_path, TEXTS, PAIRS[:4], EncoderTraining(epochs=1))
    assert (tmp_path / WEIGHTS).is_file()


@pytest.mark.slow
def test_the_seed_decides_what_is_learned(encoder, tmp_path):
    for name, seed in (("one", 0), ("again", 0), ("other", 1)):
        trained(encoder, tmp_path / name, epochs=1, seed=seed)
    one, again, other = ((tmp_path / name / WEIGHTS).read_bytes() for name in ("one", "again", "other"))
    assert one == again != other
