"""The benchmarks that the shipped scope classifier is trained on, and those that it is measured on, by family."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.case import Benchmark, Case
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.measure.training import ScopeQuestions, questions_from

LIMIT = 200
"""Number of cases whose edits are applied together."""


class Target(NamedTuple):
    """Cases of a benchmark, their family, and which of them: the sample of `LIMIT`, others, or all."""

    name: str
    family: str
    benchmark: str
    setting: str = ""
    options: dict[str, str] = {}
    part: Callable[[Sequence[Case], Sequence[Case]], Sequence[Case]] = lambda sample, every: sample


def others(count: int | None = None) -> Callable[[Sequence[Case], Sequence[Case]], Sequence[Case]]:
    """So many cases that are not in the sample."""

    def part(sample: Sequence[Case], every: Sequence[Case]) -> Sequence[Case]:
        ids = {case.id for case in sample}
        return [case for case in every if case.id not in ids][:count]

    return part


FLAT = {"dataset": "flat"}
TRAINED_ON = (
    Target("tinyworld, triplets", "tinyworld", "tinyworld", "triplet"),
    Target("tinyworld, events", "tinyworld", "tinyworld", "event"),
    Target("tinyworld, documents", "tinyworld", "tinyworld", "document"),
    Target("MQuAKE", "MQuAKE", "mquake"),
    Target("MQuAKE, other cases", "MQuAKE", "mquake", part=others()),
    Target("CounterFact", "CounterFact", "counterfact", "triplet", FLAT),
    Target("CounterFact, other cases", "CounterFact", "counterfact", "triplet", FLAT, others(546)),
)
"""Licences: tinyworld is Emend's, MQuAKE and CounterFact are MIT. The other benchmarks are for measuring only."""
MEASURED_ON = (
    *(target for target in TRAINED_ON if "other" not in target.name),
    Target("CounterFact, evidence", "CounterFact", "counterfact", "evidence", {"dataset": "flat-evidence"}),
    Target("DocTER, documents", "DocTER", "docter"),
    Target("ELKEN, factual", "ELKEN", "elken", options={"split": "test", "blocks": "fact"}),
    Target("ELKEN, tendency", "ELKEN", "elken", options={"split": "test", "blocks": "tendency_m"}),
)
LARGER = (
    Target("MQuAKE, 900 cases", "MQuAKE", "mquake", part=lambda sample, every: every),
    TRAINED_ON[-1],
    Target("DocTER, 1,000 other cases", "DocTER", "docter", part=others(1000)),
)


def cases_of(target: Target, data: Path) -> list[Case]:
    """The cases of a target; `data` is the folder of the benchmarks' folders.

    Raises:
        MissingData: the benchmark's files are not there.
    """
    benchmark, settings = _loaded(target, data)
    sample = list(benchmark.cases(settings[0], LIMIT, 0))
    return list(target.part(sample, list(benchmark.cases(settings[0]))))


def questions_of(target: Target, data: Path) -> ScopeQuestions:
    """The questions of a target, with the edits of all its cases applied."""
    return questions_from(cases_of(target, data))


def provenance_of(target: Target, data: Path) -> dict[str, Any]:
    """The source of a target's cases and the sha256 of their files."""
    benchmark, _ = _loaded(target, data)
    source = benchmark.provenance
    return {"source": source.get("source", target.benchmark), "files": source.get("files", {})}


def _loaded(target: Target, data: Path) -> tuple[Benchmark, tuple[str, ...]]:
    folder = data / target.benchmark
    settings = (target.setting,) if target.setting else ()
    return load_benchmark(target.benchmark, str(folder) if folder.is_dir() else None, target.options, settings)
