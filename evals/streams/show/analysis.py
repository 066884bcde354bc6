"""The analysis of runs over streams."""

from bisect import bisect
from collections.abc import Sequence

from emend.evals.judging.judged_run import Run
from emend.evals.results.analyses.base import (
    Analysis,
    AnalysisKind,
    AnalysisRequest,
    Bins,
    PlotStyle,
    needs,
    records_of,
)
from emend.evals.streams.run.line import JOB, AnswerLine, read_answers

NO_STREAM = "the run is over no stream: make one with emend stream new, and run emend stream run."
HOPS, AGE = "number of facts needed", "turns since the last needed fact"
# Upper bounds of the age bins, in turns.
AGES = (10, 100, 1_000)
AGE_LABELS = (*(f"fewer than {age:,}" for age in AGES), f"{AGES[-1]:,} or more")


def memory(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Return the accuracy on answerable questions, by hops and by the age of the fact."""
    bins = Bins(runs, NO_STREAM)
    questions = {run.folder: _questions(run) for run in runs}
    for run, record in records_of(runs):
        question = questions[run.folder].get(record.probe)
        if question is not None:
            bins.take(run, HOPS, str(question.hops), record, "correct")
            bins.take(run, AGE, AGE_LABELS[bisect(AGES, question.age)], record, "correct")
    return Analysis(
        title="Accuracy over a stream",
        unit="%",
        rows=bins.rows([*map(str, range(1, 10)), *AGE_LABELS]),
        picture=PlotStyle(x="", y="right, %", limits=(0, 105)),
        series="memory system",
        notes=("questions without a known answer are excluded",),
    )


def _questions(run: Run) -> dict[str, AnswerLine]:
    """Return the answerable questions of a run by id."""
    return {line.probe: line for line in read_answers(run.folder) if not line.abstains}


MEMORY = AnalysisKind((JOB,), needs(NO_STREAM, ["false_acceptance"]), memory)
