"""Compare memory systems on the conversations of a benchmark by the evidence that they recall, without a model.

    python -m scripts.benchmarks.bench_conversations FILE [--budget 500 2000] [--embedding minilm] [--system NAME ...]

FILE is LoCoMo's, BEAM's or another that `emend stream run` takes. For each system and budget: the mean share of a
question's evidence turns that fit the budget, with a 95% interval over conversations, of all questions that have
evidence, and CPU milliseconds of reading a turn and of recalling. A name may be `retrieval=STRATEGY`.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

from emend.evals.measure.large_clusters import with_interval
from emend.evals.metrics.estimate import estimate
from emend.evals.streams.loaders import load_stream
from emend.evals.streams.run.answers import cut_to_budget
from emend.evals.streams.system import SYSTEMS, SystemContext
from emend.evals.streams.turn import StreamItem, StreamQuestion, Turn
from emend.memory.embeddings.embed import load_embedding
from emend.memory.paths import cache_folder

NAMES = ("full_context", "grep", "bm25_newest", "langgraph_store", "memory", "retrieval=default", "retrieval")


class Recall(NamedTuple):
    """Of one question: its conversation and category, and by budget the share of its evidence."""

    stream: str
    category: str
    shares: dict[int, float]


class Measured(NamedTuple):
    """Of one system: recall by question, and CPU seconds."""

    recalls: list[Recall]
    reading: float
    recalling: float


def by_stream(items: Sequence[StreamItem]) -> Iterator[tuple[str, list[StreamItem]]]:
    """Yield the turns and questions of each conversation."""
    streams: dict[str, list[StreamItem]] = defaultdict(list)
    for item in items:
        streams[item.stream].append(item)
    yield from streams.items()


def make(name: str, embedding: Any, turns: dict[str, Turn], evidence: dict[str, Sequence[str]]) -> Any:
    """Make a system of this name, with its strategy after an equals sign."""
    base, _, strategy = name.partition("=")
    settings: dict[str, Any] = {"retriever": strategy} if strategy else {}
    if base == "memory":
        settings["extractor"] = "rules"

    def deciding(question: StreamQuestion) -> Sequence[Turn]:
        return [turns[turn] for turn in evidence[question.id] if turn in turns]

    return SYSTEMS.load(base)(SystemContext(embedding=embedding, settings=settings, evidence=deciding))


def measure(name: str, items: Sequence[StreamItem], budgets: Sequence[int], embedding: Any) -> Measured:
    """Let a new system read each conversation, and ask it the questions with evidence."""
    recalls: list[Recall] = []
    reading = recalling = 0.0
    for stream, own in by_stream(items):
        turns = {item.id: item for item in own if isinstance(item, Turn)}
        questions = [item for item in own if isinstance(item, StreamQuestion) and item.evidence]
        system = make(name, embedding, turns, {question.id: question.evidence for question in questions})
        start = process_time()
        for turn in turns.values():
            system.observe(turn.without_gold())
        read = process_time()
        for question in questions:
            context = system.context_for(question.without_gold(), question.date)
            shares = {budget: share(cut_to_budget(context, budget), question) for budget in budgets}
            recalls.append(Recall(stream, question.category or question.kind, shares))
        reading += read - start
        recalling += process_time() - read
        if close := getattr(system, "close", None):
            close()
    return Measured(recalls, reading, recalling)


def share(items: Sequence[Any], question: StreamQuestion) -> float:
    """The share of the evidence that is in a context."""
    gold = {*question.evidence}
    return len(gold.intersection(item.turn for item in items)) / len(gold)


def row(name: str, measured: Measured, turns: int, budgets: Sequence[int]) -> str:
    """The line of a system in the table."""
    cells = []
    for budget in budgets:
        values: list[float | None] = [recall.shares[budget] for recall in measured.recalls]
        owners = [recall.stream for recall in measured.recalls]
        figure = with_interval(estimate(values, owners), values, owners).scaled(100)
        interval = "" if figure.low is None else f" [{figure.low:.0f}, {figure.high:.0f}]"
        cells.append(f"{figure.mean:.1f}{interval}")
    count = len(measured.recalls)
    times = (f"{1e3 * measured.reading / turns:.2f}", f"{1e3 * measured.recalling / count:.1f}")
    return f"| `{name}` | {' | '.join((*cells, *times))} |"


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--budget", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--embedding", default="minilm")
    parser.add_argument("--system", nargs="+", default=list(NAMES))
    options = parser.parse_args()
    items = load_stream(options.file)
    turns = sum(isinstance(item, Turn) for item in items)
    embedding = load_embedding(options.embedding, cache_folder("vectors"))
    heads = [f"evidence in {budget:,} tokens" for budget in options.budget]
    print(f"| system | {' | '.join(heads)} | ms a turn | ms a question |\n|{' --- |' * (len(heads) + 3)}")
    for name in options.system:
        print(row(name, measure(name, items, options.budget, embedding), turns, options.budget), flush=True)


if __name__ == "__main__":
    main()
