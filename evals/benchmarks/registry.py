"""The benchmarks by name; add one by a module and a line here, or from outside by an `emend.benchmarks` entry point."""

from collections.abc import Callable
from pathlib import Path

from emend.evals.case import Benchmark
from emend.memory.registry import Registry

BenchmarkFactory = Callable[[Path | None, dict[str, str]], Benchmark]
"""Class of a benchmark, built from the data folder (None for the default one) and its options."""

BENCHMARKS: Registry[BenchmarkFactory] = Registry(
    kind="benchmark",
    group="emend.benchmarks",
    interfaces=(("cases", "metrics"),),
    builtin={
        "tinyworld": (
            "emend.evals.benchmarks.tinyworld.benchmark:TinyWorld",
            "counterfactual edits to the invented world of the embedded model; no data needed",
        ),
        "docter": (
            "emend.evals.benchmarks.docter.benchmark:DocTER",
            "2,000 counterfactual documents: edit success, locality, reasoning, cross-lingual",
        ),
        "akew": (
            "emend.evals.benchmarks.akew.benchmark:Akew",
            "new facts as sentence, paragraph or extracted triplets: editing and multi-hop accuracy",
        ),
        "elken": (
            "emend.evals.benchmarks.elken.benchmark:ELKEN",
            "events: what they make true or unknown (facts) and what they make likelier (tendencies)",
        ),
        "recoe": (
            "emend.evals.benchmarks.recoe.benchmark:ReCoE",
            "reasoning questions whose supporting facts are edited: six schemes, correct_flip",
        ),
        "mquake": (
            "emend.evals.benchmarks.mquake.benchmark:MQuAKE",
            "multi-hop questions about chains of edited facts: edit-wise, instance-wise and multi-hop accuracy",
        ),
        "counterfact": (
            "emend.evals.benchmarks.counterfact.benchmark:CounterFact",
            "counterfactual facts with paraphrases and neighbours: success and difference by likelihood",
        ),
    },
)
