"""Fine-tune a sentence encoder on a benchmark's questions and edits, and measure retrieval before and after."""

from pathlib import Path
from typing import Literal

from emend.agents.scope.encoder_training import EncoderTraining, QuestionPair, train_encoder
from emend.evals.config.measure_config import EncoderConfig
from emend.evals.measure.train_scope import OnStep, ScopeQuestions, questions_of
from emend.evals.metrics.estimate import estimate
from emend.memory.edit import FrozenModel
from emend.memory.embeddings.embed import Embedding, SentenceEmbedding, load_embedding
from emend.memory.errors import BadSettings
from emend.memory.paths import cache_folder
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.focus import focused

CHUNK = 1024  # questions embedded at once


class EncoderRow(FrozenModel):
    """Proportion of questions whose relevant edit is retrieved first, with a 95 % bootstrap interval over cases."""

    split: Literal["train", "check"]
    encoder: Literal["before", "after"]
    n: int
    texts: int
    hit: float | None
    low: float | None
    high: float | None


def train_encoder_on(config: EncoderConfig, out: Path, on_step: OnStep = lambda step, steps: None) -> list[EncoderRow]:
    """Train an adapter on questions in scope, write it into a folder, and return hit@1 with and without it.

    Raises:
        BadSettings: an unknown name, or an embedding that is not an encoder.
        BadData: fewer than two edits have a question.
    """
    splits: dict[Literal["train", "check"], ScopeQuestions]
    splits = {"train": _in_scope(questions_of(config, config.benchmark_options))}
    if config.also_check:
        splits["check"] = _in_scope(questions_of(config, config.benchmark_options | config.also_check))
    spec = "minilm" if config.embedding == "auto" else config.embedding
    base = load_embedding(spec)
    if not isinstance(base, SentenceEmbedding):
        raise BadSettings(f"embedding '{config.embedding}' cannot be trained: name minilm or a folder.")
    questions = splits["train"]
    pairs = [
        QuestionPair(question, places[0]) for question, places in zip(questions.questions, questions.about, strict=True)
    ]
    schedule = EncoderTraining(epochs=config.epochs, rank=config.rank, seed=config.seed)
    train_encoder(base, out, questions.texts, pairs, schedule, on_step)
    rows = []
    for encoder, name in (("before", spec), ("after", f"{spec}+{out}")):
        embedding = load_embedding(name, cache_folder("vectors"))
        rows += [_measure(split, encoder, each, embedding) for split, each in splits.items()]
    return rows


def _in_scope(questions: ScopeQuestions) -> ScopeQuestions:
    return questions.where([bool(places) for places in questions.about])


def _measure(
    split: Literal["train", "check"], encoder: str, questions: ScopeQuestions, embedding: Embedding
) -> EncoderRow:
    entries = [Entry(id=str(place), edit_id=str(place), text=text) for place, text in enumerate(questions.texts)]
    corpus = ExactCorpus.of(entries, embedding)
    retriever = load_retriever("default")(corpus)
    right = []
    for start in range(0, len(questions.questions), CHUNK):
        part = questions.questions[start : start + CHUNK]
        corpus.embed([focused(question) for question in part])  # in one batch, so that none is embedded alone
        for question, places in zip(part, questions.about[start : start + CHUNK], strict=True):
            hits = retriever.search(question, 1)
            right.append(float(bool(hits) and hits[0].entry.edit_id == str(places[0])))
    mean = estimate(right, questions.cases)
    return EncoderRow.model_validate(
        {"split": split, "encoder": encoder, "n": mean.n, "texts": len(questions.texts)}
        | {"hit": mean.mean, "low": mean.low, "high": mean.high}
    )
