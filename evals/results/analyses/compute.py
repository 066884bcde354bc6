"""Computes an analysis by name, and says which ones a run can have."""

from collections.abc import Sequence

from emend.evals.judging.judged_run import Run
from emend.evals.results.analyses.base import Analysis, AnalysisRequest, inventory
from emend.evals.results.analyses.registry import ANALYSES
from emend.memory.errors import BadSettings


def analyse_runs(name: str, runs: Sequence[Run], request: AnalysisRequest | None = None) -> Analysis:
    """The analysis of one run, or of several beside each other.

    Raises:
        BadSettings: no such analysis, one of another benchmark, or two runs of the same name.
        Lacking: the run has not what it needs; says what gives it.
    """
    kind = ANALYSES.load(name)
    if lacking := [part for part in ("benchmarks", "compute", "lacks") if not hasattr(kind, part)]:
        raise BadSettings(
            f"analysis '{name}' has no {', no '.join(lacking)}: see docs/how-to/extend.md for what one is."
        )
    for run in runs:
        if kind.benchmarks and run.benchmark not in kind.benchmarks:
            raise BadSettings(
                f"'{name}' is an analysis of {' and '.join(kind.benchmarks)}, and '{run.name}' is a run of "
                f"{run.benchmark}. See what it can have: emend analyse {run.name}"
            )
    if len({run.name for run in runs}) < len(runs):
        raise BadSettings("two of the runs have the same folder name, so their rows could not be told apart.")
    return kind.compute(runs, request or AnalysisRequest())


def possible(run: Run) -> list[tuple[str, str, str]]:
    """Name, summary, and what the run lacks ("" if nothing) of each analysis that is meant for its benchmark."""
    contents = inventory(run)
    rows = [(row["name"], row["summary"]) for row in ANALYSES.rows()]
    kinds = [(name, summary, ANALYSES.load(name)) for name, summary in rows]
    return [
        (name, summary, kind.lacks(contents))
        for name, summary, kind in kinds
        if not kind.benchmarks or run.benchmark in kind.benchmarks
    ]
