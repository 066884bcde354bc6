"""Training of a LoRA adapter for a sentence encoder on pairs of a question and its edit.

Contrastive learning with hard negatives (Karpukhin et al. 2020, section 3.2): a question's edit
must score higher than the other edits of its batch, which include wrong edits that currently rank
first. The score is the default strategy's sum of cosine and BM25, so that the encoder learns what
word overlap misses.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers.util import batch_to_device
from torch import Tensor

from emend.agents.scope.training_loop import OnStep, ignore_step, optimise
from emend.memory.distribution import install_command
from emend.memory.embeddings.embed import LexicalEmbedding, SentenceEmbedding
from emend.memory.embeddings.model_load import model_load
from emend.memory.errors import BadData, MissingExtra
from emend.memory.files import tensor_write
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.default import DENSE, NAME_PART, NAMES, STEM_PART, STEMS
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.focus import focused


class QuestionPair(NamedTuple):
    """A question, the index of its edit among the texts, and the indices of all edits that answer a
    part of it.
    """

    question: str
    about: int
    relevant: tuple[int, ...] = ()


@dataclass(frozen=True)
class EncoderTraining:
    """Hyperparameters of the encoder's training.

    For each question, `negatives` texts are sampled from the `depth` wrong ones that rank first;
    `rank` is LoRA's (Hu et al. 2022), `smoothing` the label smoothing, `warm_up` a number of steps.
    """

    epochs: int = 1
    batch: int = 32
    negatives: int = 2
    depth: int = 12
    rank: int = 16
    lr: float = 6e-4
    warm_up: int = 20
    smoothing: float = 0.05
    tokens: int = 96
    seed: int = 0


def train_encoder(
    base: SentenceEmbedding,
    out: Path,
    texts: Sequence[str],
    pairs: Sequence[QuestionPair],
    training: EncoderTraining,
    on_step: OnStep = ignore_step,
) -> None:
    """Train an adapter for an encoder and write it to a folder; the encoder in memory is modified
    and unusable afterwards.

    Args:
        base: the encoder.
        out: the folder for the adapter, in PEFT's format.
        texts: the texts of the edits, without duplicates.
        pairs: the questions.
        training: the hyperparameters.
        on_step: called after every step.

    Raises:
        BadData: fewer than two texts have a question.
        MissingExtra: peft is not installed.
    """
    if len({pair.about for pair in pairs}) < 2:
        raise BadData(
            f"{len(pairs)} questions about fewer than two edits: contrastive training "
            "needs at least two."
        )
    random.seed(training.seed)
    torch.manual_seed(training.seed)
    course = _Course(base.model, texts, pairs, training)
    steps = training.epochs * math.ceil(len(pairs) / training.batch)
    optimizer = torch.optim.AdamW(
        [
            {
                "params": [weight for weight in course.body.parameters() if weight.requires_grad],
                "lr": training.lr,
            },
            {"params": [course.log_scale], "lr": 0.01, "weight_decay": 0.0},
        ]
    )

    def rate(step: int) -> float:
        return min(1.0, (step + 1) / training.warm_up) * max(0.02, 1 - step / steps)

    optimise(course.losses(), steps, optimizer, rate, course.body, on_step)
    _write(course.body, base.name, out)


class _Course:
    """Training run of an encoder with an adapter, with its data."""

    def __init__(
        self,
        model: Any,
        texts: Sequence[str],
        pairs: Sequence[QuestionPair],
        training: EncoderTraining,
    ) -> None:
        self.model, self.texts, self.training = model, texts, training
        self.questions = [focused(pair.question) for pair in pairs]
        self.about = torch.tensor([pair.about for pair in pairs])
        self.relevant = [{pair.about, *pair.relevant} for pair in pairs]
        self.word_scores = torch.from_numpy(_word_scores(texts, self.questions))
        self.log_scale = torch.nn.Parameter(torch.tensor(math.log(0.7)))
        self.body = _with_adapter(model[0], training.rank)
        model.max_seq_length = min(training.tokens, model.max_seq_length)

    def losses(self) -> Iterator[Tensor]:
        """Yield the loss of each batch, epoch after epoch; hard negatives are mined again for each
        epoch.
        """
        for _ in range(self.training.epochs):
            order = random.sample(range(len(self.questions)), len(self.questions))
            near = self._hard_negatives()
            self.model.train()
            for start in range(0, len(order), self.training.batch):
                yield self._loss(order[start : start + self.training.batch], near)
            self.model.eval()

    def _loss(self, rows: list[int], near: Tensor) -> Tensor:
        drawn = {
            int(near[row, random.randrange(near.shape[1])])
            for row in rows
            for _ in range(self.training.negatives)
        }
        chosen = sorted(drawn | set(self.about[rows].tolist()))
        column = {text: index for index, text in enumerate(chosen)}
        questions = self._vectors([self.questions[row] for row in rows])
        texts = self._vectors([self.texts[index] for index in chosen])
        scores = DENSE * questions @ texts.T + self.word_scores[rows][:, chosen]
        target = torch.tensor([column[index] for index in self.about[rows].tolist()])
        smoothing = self.training.smoothing
        return torch.nn.functional.cross_entropy(
            self.log_scale.exp() * scores, target, label_smoothing=smoothing
        )

    @torch.no_grad()
    def _hard_negatives(self) -> Tensor:
        """Return the indices of the highest-ranked wrong texts of each question, shape (questions,
        depth).
        """
        texts, questions = self._in_batches(self.texts), self._in_batches(self.questions)
        scores = DENSE * questions @ texts.T + self.word_scores
        for row, places in enumerate(self.relevant):
            scores[row, list(places)] = -math.inf
        wrong = len(self.texts) - max(map(len, self.relevant))
        return scores.topk(max(1, min(self.training.depth, wrong))).indices

    def _in_batches(self, texts: Sequence[str]) -> Tensor:
        """Return vectors of many texts, batched by length, shape (texts, dimensions)."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        vectors = torch.zeros(len(texts), self.model.get_embedding_dimension())
        for start in range(0, len(order), 64):
            places = order[start : start + 64]
            vectors[places] = self._vectors([texts[place] for place in places])
        return vectors

    def _vectors(self, texts: list[str]) -> Tensor:
        """Return vectors of length 1, shape (texts, dimensions)."""
        inputs = batch_to_device(self.model.preprocess(texts), self.model.device)
        with torch.autocast(self.model.device.type, dtype=torch.bfloat16):
            vectors: Tensor = self.model(inputs)["sentence_embedding"]
        return torch.nn.functional.normalize(vectors.float(), dim=-1).cpu()


def _word_scores(texts: Sequence[str], questions: Sequence[str]) -> NDArray[np.float32]:
    """Return the default strategy's scores without the cosine, shape (questions, texts)."""
    entries = [
        Entry(id=str(index), edit_id=str(index), text=text) for index, text in enumerate(texts)
    ]
    corpus = ExactCorpus.of(entries, LexicalEmbedding())  # BM25 does not use the vectors
    stems, names = STEM_PART(corpus), NAME_PART(corpus)
    return np.stack(
        [STEMS * stems.scores(text) + NAMES * names.scores(text) for text in questions]
    ).astype(np.float32)


def _with_adapter(transformer: Any, rank: int) -> Any:
    """Return the encoder's body with LoRA on every linear layer; only the adapter is trained.

    Raises:
        MissingExtra: peft is not installed.
    """
    if find_spec("peft") is None:
        raise MissingExtra(
            f"training an encoder needs peft, which is not installed: {install_command('lora')}."
        )
    with model_load():
        from peft import LoraConfig, get_peft_model

        plan = LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules="all-linear", lora_dropout=0.0
        )
        # get_peft_model also changes the layers of the given model
        return get_peft_model(transformer.auto_model, plan)


def _write(body: Any, base: str, out: Path) -> None:
    """Save the adapter in half precision, which only rounds vectors, and without PEFT's empty
    README.
    """
    body.half()
    # record the encoder's name, not the local folder
    body.peft_config["default"].base_model_name_or_path = base
    with tensor_write(out):
        body.save_pretrained(str(out), save_embedding_layers=False)
    (out / "README.md").unlink(missing_ok=True)
    for file in out.iterdir():
        file.chmod(0o644)
