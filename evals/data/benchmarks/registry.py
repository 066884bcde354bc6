"""The benchmarks by name; add one by a module and a line here, or from outside by an `emend.benchmarks` entry point."""

from collections.abc import Callable
from pathlib import Path

from emend.evals.case import Benchmark
from emend.memory.registry import Registry

BenchmarkFactory = Callable[[Path | None, dict[str, str]], Benchmark]
"""Class of a benchmark, built from the data folder (None for the default one) and its options."""

_CLASSES = (
    ("TinyWorld", "counterfactual edits to the invented world of the embedded model; no data needed"),
    ("DocTER", "2,000 counterfactual documents: edit success, locality, reasoning, cross-lingual"),
    ("Akew", "new facts as sentence, paragraph or extracted triplets: editing and multi-hop accuracy"),
    ("ELKEN", "events: what they make true or unknown (facts) and what they make likelier (tendencies)"),
    ("ReCoE", "reasoning questions whose supporting facts are edited: six schemes, correct_flip"),
    ("MQuAKE", "multi-hop questions about chains of edited facts: edit-wise, instance-wise and multi-hop accuracy"),
    ("CounterFact", "counterfactual facts with paraphrases and neighbours: success and difference by likelihood"),
)

BENCHMARKS: Registry[BenchmarkFactory] = Registry(
    kind="benchmark",
    group="emend.benchmarks",
    interfaces=(("cases", "metrics"),),
    builtin={
        name.lower(): (f"emend.evals.data.benchmarks.{name.lower()}:{name}", summary) for name, summary in _CLASSES
    },
    unlisted={
        "stream": "emend.evals.stream.benchmark:Stream",
        "items": "emend.evals.build.items:Items",
        "knowledge": "emend.evals.build.knowledge:Knowledge",
    },
)
