"""Teaching a sentence encoder to find the edit that bears on a question: a LoRA adapter, learned from pairs.

A question is to give its own edit a higher score than the other edits of its batch, among them wrong ones that come
first so far (contrastive learning with hard negatives: Karpukhin et al. 2020, section 3.2). The score is that of the
shipped strategy, cosine and BM25 together, so that the encoder learns what the words do not tell.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers.util import batch_to_device
from torch import Tensor

from emend.agents.local.malloc import give_back
from emend.memory.embeddings.embed import SentenceEmbedding
from emend.memory.embeddings.quiet import quiet
from emend.memory.errors import BadData, MissingExtra
from emend.memory.retrieval.base import Entry, Hit
from emend.memory.retrieval.default import DENSE, NAME_VOICE, NAMES, STEM_VOICE, STEMS
from emend.memory.retrieval.focus import focused

Told = Callable[[int, int], None]
"""Hears of steps done, and of all."""


class Pair(NamedTuple):
    """A question, and the place of its edit among the texts."""

    question: str
    about: int


@dataclass(frozen=True)
class EncoderTraining:
    """The schedule.

    `wrong` texts are drawn for each question from the `depth` that come first without being its own; `rank` is that of
    LoRA (Hu et al. 2022), `share` the part of the probability that goes to all texts alike.
    """

    epochs: int = 1
    batch: int = 32
    wrong: int = 2
    depth: int = 12
    rank: int = 16
    rate: float = 6e-4
    warm_up: int = 20
    share: float = 0.05
    tokens: int = 96
    seed: int = 0


def train_encoder(
    base: SentenceEmbedding,
    out: Path,
    texts: Sequence[str],
    pairs: Sequence[Pair],
    how: EncoderTraining,
    told: Told = lambda done, whole: None,
) -> None:
    """Trains an adapter of an encoder, and writes it into a folder; the encoder itself is changed and of no more use.

    Args:
        base: the encoder.
        out: where the adapter is written, in PEFT's form.
        texts: what the edits say, each once.
        pairs: the questions.
        how: the schedule.
        told: hears of every step.

    Raises:
        BadData: there are less than two texts with a question.
        MissingExtra: peft is not installed.
    """
    if len({pair.about for pair in pairs}) < 2:
        raise BadData(f"{len(pairs)} questions about fewer than two edits: there is nothing to tell apart.")
    random.seed(how.seed)
    torch.manual_seed(how.seed)
    course = _Course(base.model, texts, pairs, how)
    steps = how.epochs * math.ceil(len(pairs) / how.batch)
    optimizer = torch.optim.AdamW(
        [
            {"params": [weight for weight in course.body.parameters() if weight.requires_grad], "lr": how.rate},
            {"params": [course.sharpness], "lr": 0.01, "weight_decay": 0.0},
        ]
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / how.warm_up) * max(0.02, 1 - step / steps)
    )
    for step, loss in enumerate(course.losses()):
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(course.body.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        give_back()
        told(step + 1, steps)
    _write(course.body, base.name, out)


class _Course:
    """The encoder with an adapter, and what it learns from."""

    def __init__(self, model: Any, texts: Sequence[str], pairs: Sequence[Pair], how: EncoderTraining) -> None:
        self.model, self.texts, self.pairs, self.how = model, texts, pairs, how
        self.asked = [focused(pair.question) for pair in pairs]
        self.about = torch.tensor([pair.about for pair in pairs])
        self.words = torch.from_numpy(_by_words(texts, self.asked))
        self.sharpness = torch.nn.Parameter(torch.tensor(math.log(0.7)))
        self.body = _with_adapter(model[0], how.rank)
        model.max_seq_length = min(how.tokens, model.max_seq_length)

    def losses(self) -> Iterator[Tensor]:
        """The loss of each batch, epoch after epoch; what comes first wrongly is looked up anew for each."""
        for _ in range(self.how.epochs):
            order = random.sample(range(len(self.pairs)), len(self.pairs))
            near = self._mistaken()
            self.model.train()
            for start in range(0, len(order), self.how.batch):
                yield self._loss(order[start : start + self.how.batch], near)
            self.model.eval()

    def _loss(self, rows: list[int], near: Tensor) -> Tensor:
        drawn = {int(near[row, random.randrange(near.shape[1])]) for row in rows for _ in range(self.how.wrong)}
        shown = sorted(drawn | set(self.about[rows].tolist()))
        place = {text: column for column, text in enumerate(shown)}
        asked, said = self._vectors([self.asked[row] for row in rows]), self._vectors([self.texts[at] for at in shown])
        scores = DENSE * asked @ said.T + self.words[rows][:, shown]
        own = torch.tensor([place[at] for at in self.about[rows].tolist()])
        return torch.nn.functional.cross_entropy(self.sharpness.exp() * scores, own, label_smoothing=self.how.share)

    @torch.no_grad()
    def _mistaken(self) -> Tensor:
        """For each question the places of the texts that come first without being its own."""
        said, asked = self._in_batches(self.texts), self._in_batches(self.asked)
        scores = DENSE * asked @ said.T + self.words
        scores[torch.arange(len(self.asked)), self.about] = -math.inf
        return scores.topk(min(self.how.depth, len(self.texts) - 1)).indices

    def _in_batches(self, texts: Sequence[str]) -> Tensor:
        """Vectors of many texts, those of like length together."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        found = torch.zeros(len(texts), self.model.get_embedding_dimension())
        for start in range(0, len(order), 64):
            places = order[start : start + 64]
            found[places] = self._vectors([texts[place] for place in places])
        return found

    def _vectors(self, texts: list[str]) -> Tensor:
        """Shape (texts, dimensions), rows of length 1."""
        fed = batch_to_device(self.model.preprocess(texts), self.model.device)
        with torch.autocast(self.model.device.type, dtype=torch.bfloat16):
            told: Tensor = self.model(fed)["sentence_embedding"]
        return torch.nn.functional.normalize(told.float(), dim=-1).cpu()


class _Texts:
    """A corpus for strategies that need no vectors."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def entries(self) -> Sequence[Entry]:
        """All of them."""
        return self._entries

    def embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Nothing to compare with."""
        return np.zeros((len(queries), 0), np.float32)

    def nearest(self, query: str, k: int) -> list[Hit]:
        """None is known."""
        return []


def _by_words(texts: Sequence[str], asked: Sequence[str]) -> NDArray[np.float32]:
    """The shipped strategy's score without the cosine, shape (asked, texts)."""
    entries = [Entry(id=str(place), edit_id=str(place), text=text) for place, text in enumerate(texts)]
    corpus = _Texts(entries)
    stems, names = STEM_VOICE(corpus), NAME_VOICE(corpus)
    return np.stack([STEMS * stems.scores(one) + NAMES * names.scores(one) for one in asked]).astype(np.float32)


def _with_adapter(transformer: Any, rank: int) -> Any:
    """The encoder's body with LoRA on every linear layer; only that learns."""
    if find_spec("peft") is None:
        raise MissingExtra("training an encoder needs peft, which is not installed: pip install 'emend[lora]'.")
    with quiet():
        from peft import LoraConfig, get_peft_model

        plan = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", lora_dropout=0.0)
        return get_peft_model(transformer.auto_model, plan)  # which also puts it into the layers of the one given


def _write(body: Any, base: str, out: Path) -> None:
    """In half precision, which changes no vector by more than rounding does; without PEFT's empty description."""
    body.half()
    body.peft_config["default"].base_model_name_or_path = base  # not the folder that it lies in here
    body.save_pretrained(str(out), save_embedding_layers=False)
    (out / "README.md").unlink(missing_ok=True)
    for file in out.iterdir():
        file.chmod(0o644)
