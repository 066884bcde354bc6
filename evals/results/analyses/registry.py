"""Registry of the analyses, their applicability to a run, and their computation."""

from collections.abc import Sequence

from emend.evals.judging.judged_run import Run
from emend.evals.results.analyses.base import Analysis, AnalysisKind, AnalysisRequest, inventory
from emend.memory.errors import BadSettings
from emend.memory.registry import Registry

# Analyses by name; each is an `AnalysisKind`.
ANALYSES: Registry[AnalysisKind] = Registry(
    kind="analysis",
    group="emend.analyses",
    beside=__file__,
)


def analyse_runs(
    name: str, runs: Sequence[Run], request: AnalysisRequest | None = None
) -> Analysis:
    """Return the analysis of one run, or of several runs side by side.

    Raises:
        BadSettings: there is no such analysis, it is for another benchmark, or two runs have the
            same name.
        Lacking: a run lacks what the analysis needs; the message says how to get it.
    """
    kind = ANALYSES.load(name)
    if lacking := [part for part in ("benchmarks", "compute", "lacks") if not hasattr(kind, part)]:
        raise BadSettings(
            f"analysis '{name}' has no {', no '.join(lacking)}: see docs/how-to/extend.md for the "
            "interface of an analysis."
        )
    for run in runs:
        if kind.benchmarks and run.benchmark not in kind.benchmarks:
            raise BadSettings(
                f"'{name}' is an analysis of {' and '.join(kind.benchmarks)}, and '{run.name}' is "
                f"a run of {run.benchmark}. List its analyses: emend analyse {run.name}"
            )
    if len({run.name for run in runs}) < len(runs):
        raise BadSettings(
            "two of the runs have the same folder name, so their rows could not be told apart."
        )
    analysis = kind.compute(runs, request or AnalysisRequest())
    return analysis.model_copy(update={"kind": analysis.kind or name})


def possible(run: Run) -> list[tuple[str, str, str]]:
    """Return name, summary and missing requirements of each analysis for the run's benchmark.

    The requirements text is "" if the analysis is possible.
    """
    contents = inventory(run)
    return [
        (row["name"], row["summary"], kind.lacks(contents))
        for row in ANALYSES.rows()
        if not (kind := ANALYSES.load(row["name"])).benchmarks or run.benchmark in kind.benchmarks
    ]
