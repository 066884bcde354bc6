"""Check of a benchmark's scorers, before a model is loaded and a run folder is written."""

from collections.abc import Iterator, Sequence

from emend.evals.case import Benchmark
from emend.evals.metrics.scoring.registry import check_scorers
from emend.memory.registry import trust_names


def check_benchmark_scorers(benchmark: Benchmark, settings: Sequence[str]) -> None:
    """Load the scorers that a benchmark names.

    Scorers in its class variable `scorers` may be imported like the benchmark itself, since both
    are code. Scorers of the first case of a setting, which a file may name, must be named by the
    user.

    Args:
        benchmark: the run's benchmark.
        settings: the settings of the run.

    Raises:
        BadSettings: a scorer is unknown, not a scorer, or code that the user did not name.
    """
    declared = tuple(getattr(type(benchmark), "scorers", ()))
    trust_names(name for name in declared if ":" in name)
    check_scorers([*declared, *_first_scorers(benchmark, settings)])


def _first_scorers(benchmark: Benchmark, settings: Sequence[str]) -> Iterator[str]:
    """Yield the scorers of the first case of each setting."""
    for setting in settings:
        first = next(iter(benchmark.cases(setting, limit=1)), None)
        for probe in first.probes if first is not None else ():
            yield from probe.scorers
