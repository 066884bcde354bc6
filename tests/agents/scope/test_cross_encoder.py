"""Classifiers that Emend has not trained: CRAG's T5 as published, and cross-encoders with one output."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel, T5Config, T5ForSequenceClassification

from emend.agents.roles.relevance import ScopeEvaluator
from emend.agents.scope import cross_encoder
from emend.agents.scope.base import embed_corpus
from emend.agents.scope.cross_encoder import ASKING, TOKENS, CragEvaluator, CrossEncoderScope, ElkenScope
from emend.agents.scope.examples import ScopeExample
from emend.agents.scope.load import load_scope
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.embeddings.long_texts import EncoderWindow
from emend.memory.errors import BadData, ModelError
from tests.editors.methods import build
from tests.fakes import tiny_tokenizer

TEXTS = ["The capital of Veldania is Ostrim.", "Mira plays the cello."]
QUESTION = "What is the capital of Veldania?"


def saved(folder, model_of, config_of, **sizes: Any):
    """A random model of one layer with a tokenizer that ends each text."""
    torch.manual_seed(0)
    tokenizer = tiny_tokenizer(begin=True)
    tokenizer.add_special_tokens({"pad_token": "<pad>", "eos_token": "</s>"})
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    model_of(config_of(vocab_size=len(tokenizer), num_labels=1, **ids, **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def t5(tmp_path, monkeypatch):
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0}
    return saved(tmp_path / "t5", T5ForSequenceClassification, T5Config, **sizes)


@pytest.fixture
def bert(tmp_path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return saved(tmp_path / "bert", BertForSequenceClassification, BertConfig, **sizes)


def test_crags_t5_reads_question_and_passage_as_one_text_and_gives_the_score_itself(t5, monkeypatch):
    scope = load_scope(t5)
    assert isinstance(scope, CragEvaluator)
    packed: list[str] = []
    tokenizer = scope.tokenizer

    def read(texts, **options):
        packed.extend(texts)
        assert options["max_length"] == 512
        rows = tokenizer(texts, **options)
        rows["input_ids"][:, -1] = tokenizer.eos_token_id  # T5's own tokenizer ends each text
        return rows

    monkeypatch.setattr(scope, "tokenizer", read)
    one = [scope.over(embed_corpus([text], LexicalEmbedding()))(QUESTION) for text in TEXTS]
    assert packed == [f"{QUESTION} [SEP] {text}" for text in TEXTS]
    with torch.inference_mode():
        logits = [float(scope.logits([QUESTION], [text])[0]) for text in TEXTS]
    assert [2 * float(p[0]) - 1 for p in one] == pytest.approx(logits, abs=1e-5)
    assert ScopeEvaluator(scope).judge(QUESTION, TEXTS[:1]).scores == pytest.approx(logits[:1], abs=1e-5)


def test_crag_takes_its_published_evaluator_with_its_thresholds(t5):
    editor = build("crag", settings={"scope": str(t5)})
    assert (editor.upper, editor.lower) == (0.5, pytest.approx(-0.91))
    assert editor.fingerprint["evaluator"].startswith("scope/cross-encoder/")


def test_a_t5_in_pytorchs_own_format_is_told_from_another_by_its_weights(t5):
    weights = T5ForSequenceClassification.from_pretrained(t5).state_dict()
    (t5 / "model.safetensors").unlink()
    identities = set()
    for factor in (1.0, 2.0):
        torch.save({name: factor * tensor for name, tensor in weights.items()}, t5 / "pytorch_model.bin")
        scope = load_scope(t5)
        assert isinstance(scope, CragEvaluator)
        identities.add(scope.identity)
    assert len(identities) == 2


def test_a_cross_encoder_with_one_output_is_a_classifier(bert):
    scope = load_scope(bert)
    probabilities = scope.over(embed_corpus(TEXTS, LexicalEmbedding()))(QUESTION)
    assert probabilities.shape == (2,) and ((0 < probabilities) & (probabilities < 1)).all() and scope.pairwise
    assert scope.over(embed_corpus([], LexicalEmbedding()))(QUESTION).shape == (0,)


def test_a_folder_of_another_model_or_a_damaged_one_is_refused(tmp_path):
    folder = saved(
        tmp_path / "plain", BertModel, BertConfig, hidden_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    with pytest.raises(ModelError, match="BertModel, which does not score pairs"):
        load_scope(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(BadData, match=r"config\.json"):
        load_scope(folder)
    (folder / "config.json").write_text(json.dumps({"architectures": 3}))
    with pytest.raises(BadData, match=r"config\.json"):
        load_scope(folder)


def test_the_learning_rate_rises_over_a_tenth_of_the_steps_and_falls_to_the_end(monkeypatch):
    rates: list[float] = []
    monkeypatch.setattr(
        cross_encoder, "optimise", lambda losses, steps, optimizer, rate, *more: rates.extend(map(rate, range(steps)))
    )
    cross_encoder._fit(torch.nn.Linear(1, 1), iter(()), 320, cross_encoder.CrossTraining(), lambda *step: None)
    assert rates == pytest.approx([0.5, 1.0, *(left / 18 for left in range(18, 0, -1))])


def test_elkens_classifier_reads_event_and_question_as_one_text_and_keeps_its_form(bert, tmp_path, monkeypatch):
    scope: Any = load_scope(f"elken:{bert}")
    packed: list[str] = []
    tokenizer = scope.tokenizer

    def read(texts, **options):
        packed.extend(texts)
        assert options["max_length"] == 160 and options["truncation"] is True
        return tokenizer(texts, **options)

    monkeypatch.setattr(scope, "tokenizer", read)
    probabilities = scope.over(embed_corpus(TEXTS, LexicalEmbedding()))(QUESTION)
    assert packed == [f"Event: {text} Question: {QUESTION}" for text in TEXTS]
    assert ((0 < probabilities) & (probabilities < 1)).all()
    assert (scope.threshold, scope.identity.partition("/")[0]) == (0.5, "elken")
    assert scope.identity != load_scope(bert).identity
    examples = [ScopeExample(QUESTION, (0,)), ScopeExample("Who plays the cello?", (1,))]
    schedule = cross_encoder.CrossTraining(negatives=1, batch=2)
    out = tmp_path / "trained"
    cross_encoder.train_cross_encoder(bert, out, TEXTS, examples, [[0, 1]] * 2, schedule, kind=ElkenScope)
    trained = load_scope(out)
    assert isinstance(trained, ElkenScope) and trained.threshold == 0.5
    assert trained.identity != scope.identity


def test_a_classifier_is_loaded_by_its_id_on_the_hub_and_a_missing_one_is_named(bert, monkeypatch):
    asked: list[str] = []

    def download(name, **options):
        asked.append(name)
        if name != "cross-encoder/small":
            raise OSError("no network")
        return str(bert)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert load_scope("cross-encoder/small").identity == load_scope(bert).identity
    assert isinstance(load_scope("elken:cross-encoder/small"), ElkenScope)
    editor = build("serac", settings={"scope": "elken:cross-encoder/small", "candidates": 3})
    assert editor.fingerprint["scope"].startswith("elken/")
    with pytest.raises(ModelError, match="scope classifier 'cross-encoder/none' is neither a folder nor available"):
        load_scope("cross-encoder/none")
    assert set(asked) == {"cross-encoder/small", "cross-encoder/none"}


def test_scores_are_not_clipped(t5):
    scope = load_scope(t5)
    assert isinstance(scope, CragEvaluator)
    assert scope.probabilities(np.asarray([-1.0, 0.0, 1.5], np.float32)).tolist() == [0.0, 0.5, 1.25]


def test_the_best_piece_of_a_text_longer_than_the_window_counts(bert):
    scope = load_scope(bert)
    assert isinstance(scope, CrossEncoderScope)
    filler = "The harbour board met and talked of cranes and docks. " * 40
    end = "Ida Holm keeps the lighthouse of Skerry."
    corpus = embed_corpus([filler + end, end], LexicalEmbedding())
    question = "Who keeps the lighthouse?"
    whole, alone = scope.over(corpus)(question)
    pieces = EncoderWindow(scope.tokenizer, TOKENS, ASKING).pieces(filler + end)
    best = max(float(scope.over(embed_corpus([piece], LexicalEmbedding()))(question)[0]) for piece in pieces)
    assert len(pieces) > 2 and whole == pytest.approx(best, abs=1e-5) and alone != whole
