"""The analysis of runs over streams: right answers by the number of facts behind them, and by the age of the last."""

from collections.abc import Sequence

from emend.evals.judging.judged_run import Run
from emend.evals.metrics.stream_answers import ABSTAINS
from emend.evals.results.analyses.base import (
    Analysis,
    AnalysisKind,
    AnalysisRequest,
    Bins,
    PlotStyle,
    needs,
    records_of,
)

NO_STREAM = "the run is over no stream: make one with emend stream new, and run emend stream run."
HOPS, AGE = "facts behind the answer", "turns since the last of them"
AGES = (10, 100, 1_000)
"""Numbers of turns below which facts are of one age."""
OLDEST = f"{AGES[-1]:,} or more"
AGE_LABELS = (*(f"fewer than {age:,}" for age in AGES), OLDEST)


def memory(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Right answers to questions that have one, by hops and by the age of the fact."""
    bins = Bins(runs, NO_STREAM)
    for run, record in records_of(runs, fields=("tags",)):
        if not record.tags.get(ABSTAINS):
            bins.take(run, HOPS, str(record.tags.get("hops", 1)), record, "correct")
            bins.take(run, AGE, _age_label(int(record.tags.get("age", 0))), record, "correct")
    return Analysis(
        kind="memory",
        title="Right answers over a stream",
        unit="%",
        rows=bins.rows([*map(str, range(1, 10)), *AGE_LABELS]),
        picture=PlotStyle(x="", y="right, %", limits=(0, 105)),
        series="memory system",
        notes=("questions whose right answer is that it is not known are left out",),
    )


def _age_label(age: int) -> str:
    return next((label for limit, label in zip(AGES, AGE_LABELS, strict=False) if age < limit), OLDEST)


MEMORY = AnalysisKind((), needs(NO_STREAM, ["false_acceptance"]), memory)
