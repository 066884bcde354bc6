"""Teaching a sentence encoder a benchmark's questions and edits, and measuring what it finds before and after."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rich.text import Text

from emend.agents.scope.encoder_training import EncoderTraining, Pair, train_encoder
from emend.evals.components.train_scope import ScopeRun, Told, questions_of, some_of
from emend.evals.metrics.estimate import estimate
from emend.evals.report.escape import one_line
from emend.evals.report.figures import frame
from emend.evals.report.table import console_for
from emend.memory.edit import FrozenModel
from emend.memory.embeddings.embed import Embedding, SentenceEmbedding, load_embedding
from emend.memory.errors import BadSettings
from emend.memory.paths import cache_folder
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.focus import focused


class EncoderRow(FrozenModel):
    """How often the own edit comes first among so many (`default`), with a 95 % bootstrap interval over cases."""

    split: Literal["train", "check"]
    encoder: Literal["before", "after"]
    n: int
    texts: int
    hit: float | None
    low: float | None
    high: float | None


def train_encoder_on(run: ScopeRun, how: EncoderTraining, out: Path) -> list[EncoderRow]:
    """Trains an adapter on questions in scope, writes it into a folder, and says what is found with and without it.

    Raises:
        BadSettings: an unknown name, or an embedding that is no encoder.
        BadData: there are fewer than two edits with a question.
    """
    splits: dict[Literal["train", "check"], Told] = {"train": _in_scope(questions_of(run, run.options))}
    if run.check:
        splits["check"] = _in_scope(questions_of(run, run.options | run.check))
    spec = "minilm" if run.embedding == "auto" else run.embedding
    cache = cache_folder("vectors")
    base = load_embedding(spec)
    if not isinstance(base, SentenceEmbedding):
        raise BadSettings(f"embedding '{run.embedding}' is no encoder that could be taught: name minilm or a folder.")
    told = splits["train"]
    pairs = [
        Pair(question, place) for question, place in zip(told.questions, told.about, strict=True) if place is not None
    ]
    train_encoder(base, out, told.texts, pairs, how, _say)
    rows = []
    for encoder, name in (("before", spec), ("after", f"{spec}+{out}")):
        embedding = load_embedding(name, cache)
        rows += [_row(split, encoder, some, embedding) for split, some in splits.items()]
    return rows


def _in_scope(told: Told) -> Told:
    return some_of(told, [place is not None for place in told.about])


def _row(split: Literal["train", "check"], encoder: str, told: Told, embedding: Embedding) -> EncoderRow:
    entries = [Entry(id=str(place), edit_id=str(place), text=text) for place, text in enumerate(told.texts)]
    corpus = ExactCorpus.of(entries, embedding)
    retriever = load_retriever("default")(corpus)
    right = []
    for start in range(0, len(told.questions), 1024):
        part = told.questions[start : start + 1024]
        corpus.embed([focused(question) for question in part])  # in one batch, so that none is embedded alone
        for question, place in zip(part, told.about[start : start + 1024], strict=True):
            hits = retriever.search(question, 1)
            right.append(float(bool(hits) and hits[0].entry.edit_id == str(place)))
    mean = estimate(right, told.cases)
    return EncoderRow.model_validate(
        {"split": split, "encoder": encoder, "n": mean.n, "texts": len(told.texts)}
        | {"hit": mean.mean, "low": mean.low, "high": mean.high}
    )


def _say(done: int, whole: int) -> None:
    """A line on stderr at every tenth."""
    if done == whole or done % max(1, whole // 10) == 0:
        sys.stderr.write(f"training: {done:,} of {whole:,} steps\n")


def show_encoder(rows: Sequence[EncoderRow], embedding: str, out: Path) -> None:
    """Print what is found before and after, and how the adapter is used."""
    console = console_for()
    table = frame("questions", "encoder", "n", "edits", "first", "", names=2)
    table.title, table.title_justify = "own edit first, in percent [95 % interval]", "left"
    names = {"train": "learned from", "check": "checked on"}
    for row in sorted(rows, key=lambda row: (row.split == "check", row.encoder == "after")):
        hit = "-" if row.hit is None else f"{100 * row.hit:.1f}"
        between = "" if row.low is None or row.high is None else f"[{100 * row.low:.0f}, {100 * row.high:.0f}]"
        table.add_row(names[row.split], row.encoder, str(row.n), str(row.texts), hit, Text(between))
    console.print(table)
    if any(row.split == "train" for row in rows):
        console.print(Text("After training, the questions learned from say nothing: look at others.", style="dim"))
    spec = "minilm" if embedding == "auto" else embedding
    console.print(Text(f"\nThe adapter is in {one_line(str(out))}. Next:"))
    console.print(Text(f"  emend retrieval ... --embedding {one_line(f'{spec}+{out}')}"), soft_wrap=True)
