"""Decisions of the scope classifier that `serac` and `crag` use by default, on benchmarks that it has not seen.

    python -m scripts.benchmarks.bench_scope                 # each family left out of training; against the bars
    python -m scripts.benchmarks.bench_scope --shipped       # the shipped weights, trained on three of the families
    python -m scripts.benchmarks.bench_scope --old           # the lexical default
    python -m scripts.benchmarks.bench_scope --speed
    python -m scripts.benchmarks.bench_scope --reader        # serac and crag against rag, with an oracle reader
    python -m scripts.benchmarks.bench_scope --pieces        # long texts as vectors of pieces, and cut at the window

In scope a decision is right if the edit let in is one of the question's, out of scope if none is let in; *balanced* is
the mean of both. The first run embeds about 15,000 texts; they are kept in the user's cache.
"""

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from emend.agents.scope.base import Scope, embed_corpus
from emend.agents.scope.examples import decisions
from emend.agents.scope.load import shipped_scope
from emend.agents.scope.logistic import DefaultScope
from emend.editors.base import EditorContext
from emend.editors.registry import EDITORS
from emend.evals.config.run_config import RunConfig
from emend.evals.measure.training import ScopeQuestions
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.errors import MissingData
from emend.memory.paths import cache_folder
from emend.memory.retrieval.compose import load_retriever
from emend.memory.store.chroma import ChromaMemory
from scripts.relevance.families import LARGER, MEASURED_ON, TRAINED_ON, Target, cases_of, others, questions_of
from scripts.relevance.train import sample_of, trained
from tests.fakes import ScriptedChatModel
from tests.paths import SHARED

BARS = {
    "tinyworld, triplets": 83.0,
    "tinyworld, events": 80.0,
    "tinyworld, documents": 70.0,
    "MQuAKE": 80.0,
    "CounterFact": 95.0,
    "DocTER, documents": 92.0,
    "ELKEN, factual": 63.0,
    "ELKEN, tendency": 54.0,
    "mean": 81.0,
}
ALONE = 80
"""Number of cases whose edits are applied without any others."""
MOST = 3000
"""Maximum number of questions of a target, drawn by seed."""
WITH_LONG_TEXTS = (
    *(target for target in TRAINED_ON if target.name in ("tinyworld, documents", "MQuAKE", "CounterFact")),
    Target("DocTER, 150 other documents", "DocTER", "docter", part=others(150)),
)
"""What the classifier of `--pieces` is trained on; nothing is shipped of it."""
RESAMPLES = 1000
READ = 800
"""Maximum number of questions that the oracle answers, drawn by seed."""
EDITORS_READ = ("rag", "serac", "crag")
RETRIEVER = str(RunConfig.model_fields["retriever"].default)


class Rates(NamedTuple):
    """Right decisions in scope and out of it in percent, their mean with its 95 % interval (cases drawn), and n."""

    inside: float
    outside: float
    balanced: float
    low: float
    high: float
    n_inside: int
    n_outside: int


class Judged(NamedTuple):
    """The decision on a question: its case, whether it is in scope, whether the decision is right."""

    case: str
    inside: bool
    right: bool


def rates(judged: Sequence[Judged]) -> Rates:
    """The rates of decisions; without questions out of scope `outside` is not a number."""
    cases = {case: n for n, case in enumerate(dict.fromkeys(each.case for each in judged))}
    sums = np.zeros((len(cases), 4))  # right and all in scope, right and all out of it
    for each in judged:
        column = 0 if each.inside else 2
        sums[cases[each.case], column] += each.right
        sums[cases[each.case], column + 1] += 1
    rng = np.random.default_rng(0)
    drawn = sums[rng.integers(len(cases), size=(RESAMPLES, len(cases)))].sum(1)
    total = sums.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        inside, outside = 100 * total[0] / total[1], 100 * total[2] / total[3]
        spread = 50 * (drawn[:, 0] / drawn[:, 1] + drawn[:, 2] / drawn[:, 3])
    low, high = np.nanpercentile(spread, [2.5, 97.5]) if total[3] else (np.nan, np.nan)
    return Rates(inside, outside, (inside + outside) / 2, low, high, int(total[1]), int(total[3]))


def judge(scope: Scope, told: ScopeQuestions) -> list[Judged]:
    """Decisions with all edits of the questions applied."""
    chosen = sorted(random.Random(0).sample(range(len(told.questions)), min(MOST, len(told.questions))))
    examples = told.examples
    results = decisions(scope, told.texts, [examples[n] for n in chosen])
    return [Judged(told.cases[n], bool(told.about[n]), each.right) for n, each in zip(chosen, results, strict=True)]


def judge_alone(scope: Scope, told: ScopeQuestions) -> list[Judged]:
    """Decisions with the edits of one case applied at a time: those that its questions are about."""
    names = sorted(set(told.cases))
    judged = []
    for name in random.Random(0).sample(names, min(ALONE, len(names))):
        rows = [n for n, case in enumerate(told.cases) if case == name]
        places = sorted({place for n in rows for place in told.about[n]} or {told.beside[rows[0]]})
        index = {place: n for n, place in enumerate(places)}
        examples = [told.examples[n] for n in rows]
        moved = [
            replace(each, about=tuple(index[place] for place in each.about), beside=index.get(each.beside or 0, 0))
            for each in examples
        ]
        results = decisions(scope, [told.texts[place] for place in places], moved)
        judged += [Judged(name, bool(told.about[n]), each.right) for n, each in zip(rows, results, strict=True)]
    return judged


def scopes(which: str, data: Path, embedding: Embedding) -> Iterator[tuple[Target, ScopeQuestions, Scope]]:
    """Each target whose files are there, with its questions and the classifier that it is measured with."""
    samples = []
    if which == "unseen":
        for target in TRAINED_ON:
            samples.append(sample_of(target.family, questions_of(target, data), embedding))
    cached: dict[str, Scope] = {}
    for target in (*MEASURED_ON, *LARGER):
        try:
            told = questions_of(target, data)
        except MissingData as error:
            print(f"{target.name} is left out: {error}")
            continue
        if which == "unseen":
            family = target.family if target.family in {sample.family for sample in samples} else ""
            if family not in cached:
                cached[family] = trained([sample for sample in samples if sample.family != family], embedding)
            yield target, told, cached[family]
        else:
            scope = DefaultScope() if which == "old" else shipped_scope(embedding)
            assert scope is not None, "the shipped weights are for another encoder"
            yield target, told, scope


def measure(which: str, data: Path, console: Console) -> None:
    """Print the rates of all targets, against the bars."""
    embedding = load_embedding("minilm", cache_folder("vectors"))
    table = Table("questions", "edits", "n in, out", "in / out", "balanced", "", "bar", "one case alone", "lower")
    means: dict[str, list[float]] = {"all": [], "alone": []}
    for target, told, scope in scopes(which, data, embedding):
        embedding.queries(told.questions)  # into the cache in batches
        full, bar = rates(judge(scope, told)), BARS.get(target.name)
        alone = rates(judge_alone(scope, told)) if target in MEASURED_ON else None
        low = rates(judge(Lowered(scope), told))
        if target in MEASURED_ON:
            means["all"].append(full.balanced)
            means["alone"].append(alone.balanced if alone else 0.0)
        table.add_row(
            target.name,
            str(len(told.texts)),
            f"{full.n_inside}, {full.n_outside}",
            f"{full.inside:.0f} / {full.outside:.0f}",
            f"{full.balanced:.1f}",
            f"[{full.low:.0f}, {full.high:.0f}]",
            "" if bar is None else f"{bar:.0f} {'reached' if full.balanced >= bar else 'MISSED'}",
            f"{alone.inside:.0f} / {alone.outside:.0f} = {alone.balanced:.1f}" if alone else "",
            f"{low.inside:.0f} / {low.outside:.0f}",
        )
    mean = float(np.mean(means["all"]))
    told_bar = f"{BARS['mean']:.0f} {'reached' if mean >= BARS['mean'] else 'MISSED'}"
    table.add_row("mean of nine", "", "", "", f"{mean:.1f}", "", told_bar, f"{np.mean(means['alone']):.1f}", "")
    console.print(table)


class Lowered:
    """A classifier with its lower threshold in the place of the upper one: what CRAG does not discard."""

    pairwise: ClassVar[bool] = False

    def __init__(self, scope: Scope) -> None:
        self.identity, self.threshold, self.lower, self.over = scope.identity, scope.lower, scope.lower, scope.over


class FreshQueries:
    """An encoder whose vectors of texts are kept on disk, and those of questions are not."""

    def __init__(self) -> None:
        self.documents = load_embedding("minilm", cache_folder("vectors")).documents
        encoder = load_embedding("minilm")
        self.identity, self.queries = encoder.identity, encoder.queries


def speed(data: Path, console: Console, edits: int = 2000, questions: int = 100) -> None:
    """Print milliseconds per question, with the encoder and without."""
    embedding = FreshQueries()
    targets = [questions_of(target, data) for target in (LARGER[0], LARGER[2])]
    texts = [text for each in targets for text in each.texts][:edits]
    scope = shipped_scope(embedding)
    assert scope is not None
    corpus = embed_corpus(texts, embedding)
    begin = time.perf_counter()
    probabilities = scope.over(corpus)
    console.print(f"{len(texts)} edits indexed in {time.perf_counter() - begin:.1f} s, their vectors from the cache")
    prompts = random.Random(0).sample([question for each in targets for question in each.questions], questions)
    for name in ("with the encoder", "question embedded before"):
        spent = []
        for question in prompts:
            wall, cpu = time.perf_counter(), time.process_time()
            probabilities(question)
            spent.append((time.perf_counter() - wall, time.process_time() - cpu))
        (p50, busy), (p95, _) = 1000 * np.percentile(spent, [50, 95], axis=0)
        console.print(f"{name}: p50 {p50:.1f} ms, p95 {p95:.1f} ms, p50 of processor time {busy:.1f} ms")


ORACLE = (
    Target("DocTER", "", "docter"),
    Target("MQuAKE", "", "mquake"),
    Target("AKEW", "", "akew"),
    Target("CounterFact", "", "counterfact", "triplet", {"dataset": "flat"}),
)


def read_by_oracle(data: Path, console: Console) -> None:
    """Print how often an oracle reader is right under `rag`, `serac` and `crag`, with all edits of 200 cases applied.

    The reader answers from the edits that it is shown, else as the unedited model: right in scope if a relevant edit is
    among them, and out of scope if there are none.
    """
    embedding = load_embedding("minilm", cache_folder("vectors"))
    for target in ORACLE:
        cases, told = cases_of(target, data), questions_of(target, data)
        known = set(zip(told.questions, told.cases, strict=True))
        probes = [probe for case in cases for probe in case.probes if (probe.retrieval_query, case.id) in known]
        probes = random.Random(0).sample(probes, min(READ, len(probes)))
        right: dict[str, dict[str, list[float]]] = {}
        for name in EDITORS_READ:
            memory = ChromaMemory(None, embedding, superseding="time")
            model = ScriptedChatModel(reply=lambda prompt: "as unedited")
            context = EditorContext(model, memory, load_retriever(RETRIEVER))
            with memory, EDITORS.load(name)(context).edit([edit for case in cases for edit in case.edits]) as answerer:
                for probe in probes:
                    shown = set(answerer.answer(probe).retrieved)
                    scored = bool(shown & set(probe.edit_ids)) if probe.in_scope else not shown
                    right.setdefault(probe.kind, {}).setdefault(name, []).append(float(scored))
        table = Table(target.name, "n", *EDITORS_READ)
        for kind, columns in right.items():
            means = [f"{100 * float(np.mean(columns[name])):.1f}" for name in EDITORS_READ]
            table.add_row(kind, str(len(columns["rag"])), *means)
        console.print(table)


def compare_pieces(data: Path, console: Console) -> None:
    """Print rates on DocTER's documents with vectors of long texts' beginnings, and of their pieces.

    The classifiers are the shipped one and one that is trained on 150 other documents of DocTER too, with the same
    vectors. Texts that fit the window have the same vector in both.
    """
    table = Table("vectors", "classifier", "edits", "longer", "in / out", "balanced", "")
    target = next(target for target in MEASURED_ON if target.name == "DocTER, documents")
    told = questions_of(target, data)
    training = [(other.family, questions_of(other, data)) for other in WITH_LONG_TEXTS]
    for spec in ("cut:minilm", "minilm"):
        embedding: Any = load_embedding(spec, cache_folder("vectors"))
        embedding.queries(told.questions)  # into the cache in batches
        longer = sum(embedding._window.is_exceeded(text) for text in told.texts)
        samples = [sample_of(family, questions, embedding) for family, questions in training]
        classifiers = {"shipped": shipped_scope(embedding), "trained on long texts": trained(samples, embedding)}
        for name, scope in classifiers.items():
            assert scope is not None, "the shipped weights are for another encoder"
            full = rates(judge(scope, told))
            decided, spread = f"{full.inside:.1f} / {full.outside:.1f}", f"[{full.low:.1f}, {full.high:.1f}]"
            table.add_row(spec, name, str(len(told.texts)), str(longer), decided, f"{full.balanced:.1f}", spread)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    group = parser.add_mutually_exclusive_group()
    for name in ("shipped", "old", "speed", "reader", "pieces"):
        group.add_argument(f"--{name}", action="store_true")
    given = parser.parse_args()
    console = Console(width=160)
    if given.speed:
        speed(given.data, console)
    elif given.pieces:
        compare_pieces(given.data, console)
    elif given.reader:
        read_by_oracle(given.data, console)
    else:
        measure("shipped" if given.shipped else "old" if given.old else "unseen", given.data, console)


if __name__ == "__main__":
    main()
