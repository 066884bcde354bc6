"""The benchmark of a run or a measurement: found by name, made with its options and its data folder."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from emend.evals.case import Benchmark
from emend.evals.data.benchmarks.built import is_built_folder, open_built
from emend.evals.data.benchmarks.fact_file import FactFile
from emend.evals.data.benchmarks.fact_rows import is_fact_file
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.benchmarks.triples import OPTION, with_triples
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest


def load_benchmark(
    name: str, data: str | None, options: Mapping[str, str], settings: Sequence[str] = ()
) -> tuple[Benchmark, tuple[str, ...]]:
    """Load the benchmark of that name, and list the settings to run: its first one if none is named.

    Raises:
        BadSettings: an unknown name. And whatever loading a benchmark raises.
    """
    options = dict(options)
    triples = options.pop(OPTION, None)
    with BENCHMARKS.plugin_errors(name):
        benchmark = _make_benchmark(name, data, options)
        lacking = [part for part in ("settings", "cases", "metrics") if not hasattr(benchmark, part)]
        if lacking:
            raise TypeError(f"what it made has no {', no '.join(lacking)}")
    if triples is not None:
        benchmark = with_triples(benchmark, triples)
    chosen = tuple(dict.fromkeys(settings)) or benchmark.settings[:1]
    for setting in chosen:
        next(iter(benchmark.cases(setting, limit=1)), None)  # a benchmark may know more of why it lacks a setting
        if setting not in benchmark.settings:
            raise BadSettings(f"{name} has no setting '{setting}': {nearest(setting, list(benchmark.settings))}")
    return benchmark, chosen


def _make_benchmark(name: str, data: str | None, options: Mapping[str, str]) -> Benchmark:
    if is_fact_file(name):
        return FactFile(name, Path(data) if data else None, options)
    if is_built_folder(name):
        return open_built(name, options, data_folder(name, data) if data else None)
    return BENCHMARKS.load(name)(data_folder(name, data), dict(options))


def data_folder(benchmark: str, data: str | None) -> Path | None:
    """Return the data folder: under `EMEND_DATA` first, then the path as given; None lets the benchmark decide."""
    if root := os.environ.get("EMEND_DATA"):
        folder = Path(root) / (data or benchmark)
        if folder.exists():
            return folder
    return Path(data) if data else None
